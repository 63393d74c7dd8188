#include "agent/user_commands.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "console/console.hpp"
#include "os/files/slow_files.hpp"
#include "os/process/child_call.hpp"
#include "plan/worker_env.hpp"

namespace ddprun::agent {

namespace {

constexpr std::size_t k_most_verdict = 4 * lifecycle::k_most_check_output;  // escaped as JSON
constexpr std::size_t k_most_words = 4096;

void say_problem(const std::string& problem) {
  if (!problem.empty()) console::say_notice(problem, "run the command of --on-failure by hand on that host");
}

}  // namespace

void CommandLook::begin(const rendezvous::Stop& stop, bool failed_here) {
  const plan::NodeProposal& node = *plans_.node;
  if (query_ || !probes::has_own_check(node) || !(stop.again || failed_here)) return;
  finding_.reset();
  question_ = {failed_here ? lifecycle::CheckFor::failure : lifecycle::CheckFor::restart, stop.attempt,
               stop.failure};
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_,
        os::AnsweringChild([this] { return probes::ask_own_check(*plans_.node, snapshot_, question_); },
                           "run the command of --check-command"),
        k_most_verdict, node.options.check.limit.value + probes::k_own_check_margin,
        [this](const std::string& answer, bool) { note(probes::read_verdict(answer)); });
  } catch (const Error& error) {
    console::say_notice(error.what(), error.hint());
  }
}

void CommandLook::note(const lifecycle::CommandVerdict& verdict) {
  query_.reset();
  const std::string& host = plans_.node->host;
  if (question_.why == lifecycle::CheckFor::failure) keep(verdict.output);
  if (verdict.fitness == lifecycle::Fitness::unknown && !std::exchange(warned_, true))
    console::say_notice(lifecycle::describe_broken(verdict, host), lifecycle::k_broken_hint);
  if (verdict.fitness == lifecycle::Fitness::unfit) {
    finding_ = check::Finding{check::Mark::error,
                              plans_.node->options.check.command.origin,
                              {host},
                              verdict.what,
                              lifecycle::k_unfit_hint};
  }
  settle();
}

void CommandLook::keep(const std::string& output) const {
  const std::string& folder = plans_.node->options.output.logs.value;
  if (folder.empty() || output.empty()) return;
  const std::string path =
      fmt::format("{}/check.{}.attempt{}.txt", folder, plans_.node->host, question_.attempt.value);
  if (const std::string problem = os::replace_slow_file(path, output); !problem.empty())
    console::say_notice(fmt::format("cannot write {} on {}: {}", path, plans_.node->host, problem),
                        "name another folder with --logs");
}

void CommandLook::settle() {
  if (query_) return;
  if (const auto done = std::exchange(done_, nullptr)) done(std::exchange(finding_, std::nullopt));
}

void CommandLook::when_known(std::function<void(const std::optional<check::Finding>&)> done) {
  done_ = std::move(done);
  settle();
}

void CommandLook::give_up() {
  query_.reset();
  settle();
}

void CommandLook::end() {
  done_ = nullptr;
  finding_.reset();
  query_.reset();
}

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
      lifecycle::describe_ending(command.value.front(), end.status, end.output, k_on_failure_limit));
}

void OnFailure::attempt_failed(const std::string& report) {
  query_.reset();
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_, os::AnsweringChild([this, report] { return run("attempt", report); }, "run --on-failure"),
        k_most_words, 2 * k_on_failure_limit, [this](const std::string& problem, bool) {
          query_.reset();
          say_problem(problem);
        });
  } catch (const Error& error) {
    console::say_notice(error.what(), error.hint());
  }
}

void OnFailure::job_ended(const std::string& report) {
  query_.reset();
  say_problem(run("job", report));
}

}  // namespace ddprun::agent
