#include "commands/check.hpp"

#include "check/record_fields.hpp"
#include "os/process/become.hpp"

namespace ddprun::commands {

namespace {

constexpr Milliseconds k_join_limit{60000};
constexpr Milliseconds k_stop_limit{2000};

std::string folder_of_logs(const output::OutputOptions& output) {
  return output.logs.value.empty() ? output.log_dir.value : output.logs.value;
}

}  // namespace

void make_check_job(options::Options& options) {
  const bool made = options.command.size() > 1 && options.command[1] == k_check_node;
  if (!options.check.wanted || made) return;
  options.module = options.run_path = options.local_rank_argument = false;
  options.no_python = true;
  options.command = {
      os::capture_own_file(), k_check_node,
      check::render_json_text(CheckWords{options.check.json, options.check.strict, options.check.deep,
                                         folder_of_logs(options.output), options.check.exclude_file})};
  // All nodes take part, once, and no worker is bound: what is judged is what the job has.
  options.max_restarts.value = 0;
  options.spares.value = 0;
  options.least_nodes.reset();
  options.restarts.standby.value = false;
  options.hang = {};
  options.time_limit = {};
  options.bind.mode = options::BindMode::none;
  options.store = options::StoreHost::agent;
  options.show_binding = false;
  options.container = {};  // the node is checked, not the container
  options.shutdown_timeout.value = k_stop_limit;
  if (options.join_timeout.by_default()) options.join_timeout.value = k_join_limit;
  const bool gather = options.output.gather;
  options.output = {};
  options.output.gather = gather;
}

}  // namespace ddprun::commands
