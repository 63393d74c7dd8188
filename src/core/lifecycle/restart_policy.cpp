#include "lifecycle/restart_policy.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "lifecycle/end_watch.hpp"
#include "report/known_failures.hpp"

namespace ddprun::lifecycle {

namespace {

constexpr int k_signal_base = 128;  // offset of exit codes in shells

// Reports whether the program is not there or is none.
bool would_fail_again(const ExitStatus& status) {
  const bool lasting = status.value == ENOENT || status.value == EACCES || status.value == ENOEXEC;
  const bool at_program = status.stage == StartStage::exec || status.stage == StartStage::interpreter;
  return status.kind == ExitStatus::Kind::not_started && at_program && lasting;
}

bool is_death_by_signal(int exit_code) {
  return exit_code > k_signal_base && exit_code <= k_signal_base + k_highest_signal;
}

bool is_hexadecimal(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

std::string without_addresses(std::string text) {
  for (std::size_t at = text.find("0x"); at != std::string::npos; at = text.find("0x", at)) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at);
    text.erase(begin, std::find_if_not(begin + 2, text.end(), is_hexadecimal));
  }
  return text;
}

std::string comparable_words(const report::Failure& failure) {
  return report::without_numbers(without_addresses(error_words(failure)));
}

}  // namespace

bool is_same_cause(const report::Failure& one, const report::Failure& other) {
  const int code = exit_code_of(one);
  if (code != exit_code_of(other) || one.out_of_memory.empty() != other.out_of_memory.empty()) return false;
  if (is_death_by_signal(code) && code != k_signal_base + SIGABRT) return true;
  if (!one.hint.empty() && one.hint == other.hint) return true;
  return comparable_words(one) == comparable_words(other);
}

RestartPolicy::RestartPolicy(int max_restarts, options::RestartOptions options,
                             options::TimeLimitOptions limit)
    : options_(std::move(options)), limit_(std::move(limit)), used_{0, max_restarts, {}} {}

bool RestartPolicy::made_progress(const AttemptEnd& end) const {
  return end.touched || end.ran > options_.min_progress.value;
}

RestartDecision RestartPolicy::decide(const AttemptEnd& end) const {
  using enum options::RestartRule;
  const options::RestartRule rule = options_.rule.value;
  if (rule == never || used_.used >= used_.most) return {};
  if (would_fail_again(end.cause.status))
    return {false, {}, "another attempt would fail in the same way", {}};
  const int code = exit_code_of(end.cause);
  if (std::ranges::binary_search(options_.no_restart_on.value, code))
    return {false, {}, fmt::format("exit code {} is in {}", code, options_.no_restart_on.origin), {}};
  if (limit_.requeue && std::ranges::binary_search(limit_.requeue_on.value, code))
    return {false, {}, fmt::format("exit code {} is in {}", code, limit_.requeue_on.origin), {}};
  if (std::string why = too_late(end); !why.empty()) return {false, {}, std::move(why), {}};
  if (rule == progress && stalled_ && !made_progress(end) && is_same_cause(*stalled_, end.cause)) {
    return {false,
            {},
            "the same failure occurred twice in a row, and no worker made progress",
            fmt::format("--restart-policy always restarts without progress too; progress is a run of {} "
                        "(--min-progress) or touching $DDPRUN_PROGRESS_FILE",
                        describe_duration(options_.min_progress.value))};
  }
  return {true, delay_after(end), {}, {}};
}

// Returns the reason why the job's end is too near for another attempt; empty if it is not.
std::string RestartPolicy::too_late(const AttemptEnd& end) const {
  if (end.warned && limit_.requeue)
    return "the workers were warned of the job's end, and --requeue runs the job again";
  if (!end.left || *end.left - delay_after(end) >= limit_.min_attempt.value) return {};
  return fmt::format("the job ends in {}, and {} asks for {} for an attempt", describe_left(*end.left),
                     limit_.min_attempt.origin, describe_duration(limit_.min_attempt.value));
}

RestartDecision RestartPolicy::note_end(const AttemptEnd& end) {
  RestartDecision decision = decide(end);
  quick_failures_ = end.ran > k_quick_failure ? 0 : quick_failures_ + 1;
  stalled_ = made_progress(end) ? std::nullopt : std::optional(end.cause);
  if (!decision.restart) return decision;
  ++used_.used;
  if (used_.causes.size() >= k_max_restart_causes) used_.causes.erase(used_.causes.begin());
  used_.causes.push_back(without_words(end.cause));
  return decision;
}

Milliseconds RestartPolicy::delay_after(const AttemptEnd& end) const {
  if (end.ran > k_quick_failure || options_.backoff.value == Milliseconds{0}) return {};
  Milliseconds delay = options_.backoff.value;
  for (int i = 0; i < quick_failures_ && delay < options::k_longest_backoff; ++i) delay *= 2;
  return std::min(delay, options::k_longest_backoff);
}

Milliseconds RestartPolicy::longest_delay() const {
  return options_.backoff.value > Milliseconds{0} && used_.most > 0 ? options::k_longest_backoff
                                                                    : Milliseconds{0};
}

}  // namespace ddprun::lifecycle
