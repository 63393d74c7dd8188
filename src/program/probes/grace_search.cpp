#include "probes/grace_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "allocation/schedulers/job_end.hpp"
#include "base/error.hpp"
#include "facts/schedulers.hpp"
#include "os/process/child_call.hpp"

namespace ddprun::probes {

namespace {

constexpr Milliseconds k_program_limit{3000}, k_answer_limit{7000};
constexpr std::size_t k_most_shown = std::size_t{64} << 10;
constexpr char k_end_of_job = '\f';  // end of the job's part; the configuration follows

std::vector<std::string> question_of(const allocation::Allocation& allocation,
                                     const Sourced<Milliseconds>& timeout) {
  const facts::SchedulerTraits* const traits = facts::find_traits(allocation.scheduler.value);
  const bool is_named =
      traits == nullptr || !(timeout.by_default() || timeout.origin == traits->grace_origin);
  return is_named ? std::vector<std::string>()
                  : allocation::grace_question(allocation.scheduler.value, allocation.job_id.value);
}

std::string ask(const std::vector<std::string>& question) {
  return os::ask_program(question, k_program_limit) + k_end_of_job +
         os::ask_program({"scontrol", "show", "config"}, k_program_limit);
}

std::optional<Milliseconds> parse(std::string_view shown) {
  const std::size_t middle = std::min(shown.find(k_end_of_job), shown.size());
  return allocation::parse_stop_grace(shown.substr(0, middle), shown.substr(middle));
}

}  // namespace

std::string GraceSearch::describe(const allocation::Allocation& allocation,
                                  const Sourced<Milliseconds>& timeout) {
  if (question_of(allocation, timeout).empty()) return {};
  return fmt::format(
      "the workers have {} to stop after a signal, or 5 s less than Slurm leaves them (GraceTime of a "
      "preemption, KillWait)",
      describe_duration(timeout.value));
}

void GraceSearch::begin(const allocation::Allocation& allocation, const Sourced<Milliseconds>& timeout,
                        Hooks hooks) {
  const std::vector<std::string> question = question_of(allocation, timeout);
  if (question.empty() || std::exchange(begun_, true)) return;
  hooks_ = std::move(hooks);
  try {
    query_ = std::make_unique<ChildQuery>(
        context_,
        os::AnsweringChild([question] { return ask(question); },
                           "ask the scheduler how long the workers may take to stop"),
        k_most_shown, k_answer_limit, [this, least = timeout.value](const std::string& shown, bool) {
          end();
          const auto grace = parse(shown);
          if (grace && *grace > least) hooks_.found(*grace);
        });
  } catch (const Error&) {
    query_.reset();  // --shutdown-timeout holds
  }
}

void GraceSearch::end() { query_.reset(); }

}  // namespace ddprun::probes
