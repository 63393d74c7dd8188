#include "probes/own_check.hpp"

#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/json_text.hpp"
#include "os/process/child_call.hpp"
#include "plan/worker_env.hpp"
#include "report/report.hpp"

namespace ddprun::probes {

std::string ask_own_check(const plan::NodeProposal& node, const facts::Snapshot& snapshot,
                          const CheckQuestion& question) {
  const options::CheckOptions& check = node.options.check;
  facts::Environment environment = snapshot.environment;
  environment["DDPRUN_CHECK_FOR"] = std::string(lifecycle::name_of(question.why));
  environment["DDPRUN_ATTEMPT"] = std::to_string(question.attempt.value);
  environment["DDPRUN_NODE"] = node.host;
  os::ProgramEnd end =
      os::run_program({check.command.value, plan::make_environment_strings(environment),
                       report::render_check_input(question.attempt, node.host, question.failure)},
                      check.limit.value, lifecycle::k_most_check_output);
  const lifecycle::CommandVerdict verdict = lifecycle::judge_command(
      check.command.value.front(), end.status, std::move(end.output), check.limit.value);
  return write_json_text(nlohmann::json{static_cast<int>(verdict.fitness), verdict.what, verdict.output});
}

lifecycle::CommandVerdict read_verdict(const std::string& answer) {
  try {
    const auto [fitness, what, output] =
        read_json_text(answer).get<std::tuple<int, std::string, std::string>>();
    return {static_cast<lifecycle::Fitness>(fitness), what, output};
  } catch (const nlohmann::json::exception&) {
    return {lifecycle::Fitness::unknown, "the check command gave no answer", {}};
  }
}

}  // namespace ddprun::probes
