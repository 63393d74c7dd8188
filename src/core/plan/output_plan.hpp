// Destinations of the output of this host's workers, in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/launch_plan.hpp"

namespace ddprun::plan {

struct OutputWay {
  std::string file;  // empty: none
  bool console = true;
  bool gathered = false;   // the console is the coordinator's
  std::string label;       // in front of each line on the console
  bool by_worker = false;  // the worker writes the file itself
};

OutputWay output_way(const LaunchPlan& plan, std::size_t worker, output::Stream stream);
// Reports whether the options direct any output.
bool directs_output(const output::OutputOptions& options);
std::string describe(const OutputWay& way);
// --ranks or --local-ranks-filter that choose none of the ranks there are, so that nothing is shown.
std::optional<allocation::Notice> find_unseen_output(const LaunchPlan& plan);

}  // namespace ddprun::plan
