#include "probes/deep_check.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "check/record_fields.hpp"
#include "os/process/child_call.hpp"
#include "plan/worker_command.hpp"
#include "probes/deep_check_script.hpp"

namespace ddprun::probes {

namespace {

constexpr Milliseconds k_deep_limit{180000};
constexpr std::string_view k_result_mark = "\nddprun-deep-check ";

std::string last_line(std::string_view text) {
  text = trim(text);
  return printable(text.substr(text.rfind('\n') + 1), 200);
}

}  // namespace

check::DeepResult run_deep_check(int rank, const facts::Snapshot& snapshot) {
  const std::string python = plan::find_python(snapshot);
  const std::string text = os::ask_program({python, "-c", std::string(k_deep_check_script)}, k_deep_limit);
  check::DeepResult result;
  const std::size_t mark = text.rfind(k_result_mark);
  if (mark != std::string::npos) {
    const std::size_t begin = mark + k_result_mark.size();
    result = check::parse_json_text<check::DeepResult>(text.substr(begin, text.find('\n', begin) - begin));
  } else if (text.empty()) {
    result.error = fmt::format("{} cannot be started, or prints no result", printable(python, 120));
  } else {
    result.error = last_line(text);
  }
  result.rank = rank;
  result.host = snapshot.host.name;
  return result;
}

}  // namespace ddprun::probes
