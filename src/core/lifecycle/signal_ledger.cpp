#include "lifecycle/signal_ledger.hpp"

#include <algorithm>

namespace ddprun::lifecycle {

void SignalLedger::note_worker(TimePoint now) { newest_worker_ = now; }

void SignalLedger::note_canary(int number, TimePoint now) {
  const bool proves = !newest_worker_ || now - *newest_worker_ >= times_.start_lag;
  if (proves) hits_.push_back({number, now});
}

void SignalLedger::note_signal(int number, SignalWay way, bool maybe_tree, TimePoint now) {
  forget(now);
  if (join(number, way, now)) return;
  const bool own = way == SignalWay::own;
  const Milliseconds wait =
      maybe_tree ? (own ? times_.tree_wait : times_.host_wait) : (own ? times_.canary_wait : Milliseconds{0});
  entries_.push_back({number, {way}, now, now + wait});
}

// Joins a signal to an earlier one; true when it has come by another way already.
bool SignalLedger::join(int number, SignalWay way, TimePoint now) {
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const bool by_this_way = std::find(entry.ways.begin(), entry.ways.end(), way) != entry.ways.end();
    return entry.number == number && !by_this_way;
  });
  if (same == entries_.end()) return false;
  same->ways.push_back(way);
  // The expected signal has come: the canary has it by now, if at all.
  if (way == SignalWay::own && !same->settled) same->until = std::min(same->until, now + times_.tree_wait);
  return true;
}

bool SignalLedger::take_hit(const Entry& entry) {
  const auto hit = std::find_if(hits_.begin(), hits_.end(), [&](const Hit& each) {
    return each.number == entry.number && each.at >= entry.since - times_.canary_memory;
  });
  if (hit == hits_.end()) return false;
  hits_.erase(hit);
  return true;
}

std::vector<SignalLedger::Verdict> SignalLedger::decide(TimePoint now) {
  std::vector<Verdict> verdicts;
  for (Entry& entry : entries_) {
    if (entry.settled) continue;
    const bool hit = take_hit(entry);
    if (!hit && now < entry.until) continue;
    entry.settled = true;
    verdicts.push_back({entry.number, !hit, hit});
  }
  forget(now);
  return verdicts;
}

std::optional<TimePoint> SignalLedger::deadline() const {
  std::optional<TimePoint> first;
  for (const Entry& entry : entries_) {
    if (!entry.settled && (!first || entry.until < *first)) first = entry.until;
  }
  return first;
}

void SignalLedger::forget(TimePoint now) {
  std::erase_if(entries_,
                [&](const Entry& entry) { return entry.settled && now - entry.since >= times_.host_wait; });
  std::erase_if(hits_, [&](const Hit& hit) { return now - hit.at >= times_.canary_memory; });
}

}  // namespace ddprun::lifecycle
