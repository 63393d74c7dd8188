#include "agent/on_failure.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "console/log.hpp"
#include "os/process/ask_program.hpp"
#include "plan/worker_env.hpp"
#include "supervise/check_command.hpp"

namespace ddprun::agent {

namespace {

constexpr std::size_t k_most_words = 4096;

void say_problem(const std::string& problem) {
  if (!problem.empty()) console::say_notice(problem, "run the command of --on-failure by hand on that host");
}

}  // namespace

// Returns what went wrong; empty: nothing.
std::string OnFailure::run(const std::string& event, const std::string& report) const {
  const auto& command = plans_.node->options.check.on_failure;
  facts::Environment environment = snapshot_.environment;
  environment["DDPRUN_FAILED"] = event;
  const os::ProgramEnd end = os::run_program(
      {command.value, plan::make_environment_strings(environment), report}, k_on_failure_limit);
  if (end.status && end.status->success()) return {};
  return fmt::format(
      "{} on {}: {}", command.origin, plans_.node->host,
      supervise::describe_ending(command.value.front(), end.status, end.output, k_on_failure_limit));
}

void OnFailure::attempt_failed(const std::string& report) {
  if (plans_.node->options.check.on_failure.value.empty()) return;
  end();
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_, os::AnsweringChild([this, report] { return run("attempt", report); }, "run --on-failure"),
        k_most_words, 2 * k_on_failure_limit, [this](const std::string& problem, bool) {
          end();
          say_problem(problem);
        });
    workers_.spare(query_->child());
  } catch (const Error& error) {
    console::say_notice(error.what(), error.hint());
  }
}

void OnFailure::job_ended(const std::string& report) {
  end();
  if (!plans_.node->options.check.on_failure.value.empty()) say_problem(run("job", report));
}

void OnFailure::end() {
  if (query_) workers_.spare_no_more(query_->child());
  query_.reset();
}

}  // namespace ddprun::agent
