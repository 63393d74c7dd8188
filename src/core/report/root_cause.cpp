#include "report/root_cause.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "report/known_failures.hpp"

namespace ddprun::report {

namespace {

// Messages of gloo (transport/tcp), NCCL (socket.cc, net_ib.cc, ncclRemoteError), UCC, and torch's store
// client.
constexpr std::string_view k_peer_words[] = {
    "Connection closed by peer",
    "Connection closed by remote peer",
    "Connection reset by peer",
    "onnection reset",
    "remote process exited",
    "ncclRemoteError",
    "Broken pipe",
    "Socket closed",
    "Did the remote server shutdown or crash",
    "Failed to recv, got 0 bytes",
    "Application timeout caused pair closure",
};

// Words of gloo, NCCL's watchdog and torch's store.
constexpr std::string_view k_waited_words[] = {
    "Timed out waiting", "Watchdog caught collective operation timeout", "wait timeout after"};

// Words of a worker that was told to stop.
constexpr std::string_view k_stop_words[] = {
    "KeyboardInterrupt", "SystemExit", "SignalException", "SIGTERM", "SIGINT", "signal 15", "signal: 15"};

template <std::size_t Count>
bool has_any(const std::vector<std::string>& lines, const std::string_view (&words)[Count]) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return std::any_of(std::begin(words), std::end(words),
                       [&](std::string_view word) { return line.find(word) != std::string::npos; });
  });
}

// Reports whether it died by a signal that is never another process' doing, whatever was written before.
bool crashed(const ExitStatus& status) {
  constexpr std::array k_crashes = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  return status.kind == ExitStatus::Kind::signalled &&
         std::find(k_crashes.begin(), k_crashes.end(), status.value) != k_crashes.end();
}

bool has_traceback(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("Traceback (most recent call last)") != std::string::npos;
  });
}

// "all_reduce" of a traceback through torch's distributed_c10d.py: the function that the script has called.
std::string torch_call(const std::vector<std::string>& lines) {
  constexpr std::string_view k_file = "torch/distributed/distributed_c10d.py\", line ";
  std::string call;
  for (const std::string& line : lines) {
    const std::size_t file = line.find(k_file), in = line.rfind(", in ");
    if (file != std::string::npos && in != std::string::npos && in > file && call.empty())
      call = line.substr(in + 5);
    if (line.find("Traceback (most recent call last)") != std::string::npos) call.clear();
  }
  return call;
}

bool are_alike(const Failure& a, const Failure& b) {
  return a.status == b.status && a.out_of_memory.empty() == b.out_of_memory.empty() &&
         without_numbers(last_words(a)) == without_numbers(last_words(b));
}

void add_alike(Failure& failure, const Failure& other) {
  failure.alike.push_back(other.rank.value);
  failure.alike.insert(failure.alike.end(), other.alike.begin(), other.alike.end());
}

}  // namespace

void explain_by_early_ends(Failure& failure, const std::vector<EarlyEnd>& ended) {
  if (ended.empty() || crashed(failure.status) || !failure.out_of_memory.empty() || !failure.because.empty())
    return;
  const std::vector<std::string> words = words_of(failure);
  if (!has_any(words, k_peer_words) && !has_any(words, k_waited_words)) return;
  const auto last = std::ranges::min_element(ended, {}, &EarlyEnd::before);
  std::vector<int> ranks;
  for (const EarlyEnd& each : ended) ranks.push_back(each.rank);
  std::ranges::sort(ranks);
  const std::string ago = fmt::format("{:.1f} s before", static_cast<double>(last->before.count()) / 1000);
  const std::string who = ranks.size() == 1 ? fmt::format("rank {} on {}", last->rank, last->host)
                                            : "ranks " + facts::render_cpu_list(ranks);
  failure.because =
      fmt::format("{} had exited with code 0{} {}", who, ranks.size() == 1 ? "" : ", the last one", ago);
  const std::string call = failure.collective.empty() ? torch_call(words) : failure.collective;
  if (!call.empty())
    failure.because += fmt::format(", while rank {} was in {}", failure.rank.value, printable(call, 128));
  failure.hint =
      "all ranks must make the same collective calls; a rank with fewer batches ends early (drop_last=True, "
      "or "
      "torch.distributed.algorithms.Join)";
}

Evidence evidence_of(const Failure& failure) {
  const std::vector<std::string> words = words_of(failure);
  const bool killed = failure.status.kind == ExitStatus::Kind::signalled && failure.status.value == SIGKILL;
  if (failure.status.kind == ExitStatus::Kind::hung) return Evidence::own_end;
  const bool own_fault = crashed(failure.status) || !failure.out_of_memory.empty();
  if (!failure.after_stop && (own_fault || killed)) return Evidence::own_end;
  if (own_fault) return Evidence::own_words;
  if (has_any(words, k_peer_words)) return Evidence::peer_gone;
  if (!failure.after_stop) return Evidence::own_end;
  const bool own_error = !failure.message.empty() || has_traceback(words);
  return own_error && !has_any(words, k_stop_words) ? Evidence::own_words : Evidence::stopped;
}

std::vector<Failure> fold_alike(std::vector<Failure> failures) {
  std::vector<Failure> folded;
  for (Failure& failure : failures) {
    const auto same = std::find_if(folded.begin(), folded.end(),
                                   [&](const Failure& other) { return are_alike(other, failure); });
    same == folded.end() ? folded.push_back(std::move(failure)) : add_alike(*same, failure);
  }
  for (Failure& failure : folded) std::sort(failure.alike.begin(), failure.alike.end());
  return folded;
}

RankedFailures rank_failures(std::vector<Failure> seen, std::vector<int> stopped) {
  std::stable_sort(seen.begin(), seen.end(),
                   [](const Failure& a, const Failure& b) { return evidence_of(a) < evidence_of(b); });
  const Evidence best = evidence_of(seen.front());
  RankedFailures ranked;
  std::set<int> victims(stopped.begin(), stopped.end());
  // A worker that was about to end when the stop came is a cause only if there is no other, or it ended
  // alike.
  std::vector<Failure> own;
  for (Failure& failure : seen) {
    const Evidence evidence = evidence_of(failure);
    const bool counts = evidence == best || evidence == Evidence::own_end ||
                        (evidence == Evidence::own_words && are_alike(failure, own.front()));
    if (counts) {
      own.push_back(std::move(failure));
      continue;
    }
    victims.insert(failure.rank.value);
    victims.insert(failure.alike.begin(), failure.alike.end());
  }
  ranked.others = fold_alike(std::move(own));
  ranked.cause = std::move(ranked.others.front());
  ranked.others.erase(ranked.others.begin());
  victims.erase(ranked.cause.rank.value);
  for (const int rank : ranked.cause.alike) victims.erase(rank);
  ranked.victims.assign(victims.begin(), victims.end());
  return ranked;
}

}  // namespace ddprun::report
