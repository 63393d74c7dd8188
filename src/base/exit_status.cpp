#include "base/exit_status.hpp"

namespace ddprun {

std::string_view stage_name(StartStage stage) {
  switch (stage) {
    case StartStage::process:
      return "process";
    case StartStage::parent_death:
      return "parent death";
    case StartStage::group:
      return "group";
    case StartStage::terminal:
      return "terminal";
    case StartStage::working_directory:
      return "working directory";
    case StartStage::descriptors:
      return "descriptors";
    case StartStage::signals:
      return "signals";
    case StartStage::exec:
      return "exec";
    case StartStage::interpreter:
      return "interpreter";
  }
  return "unknown";
}

}  // namespace ddprun
