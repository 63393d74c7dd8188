#include "rendezvous/membership/member_join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr Milliseconds k_address_stagger{200};
constexpr Milliseconds k_spare_ports_after{500};
constexpr Milliseconds k_first_pause{10};
constexpr Milliseconds k_longest_pause{2000};
constexpr Milliseconds k_longest_pause_of_spare{8000};
constexpr Milliseconds k_first_lookup_pause{500};
constexpr Milliseconds k_first_look_again{5000};
constexpr Milliseconds k_longest_look_again{30000};
constexpr Milliseconds k_first_status{5000};
constexpr Milliseconds k_plain_status{30000};
constexpr std::size_t k_max_addresses_of_a_name = 8;
constexpr std::ptrdiff_t k_max_under_way = 64;

std::string describe_ports(const std::vector<int>& ports) {
  return fmt::format("{} {}", ports.size() == 1 ? "port" : "ports", fmt::join(ports, ", "));
}

// Returns the coordinator's name, with the reason why it may not be there: "node 0 (--master-addr ...)".
std::string doubted_name(const MemberJoinSettings& settings) {
  return settings.coordinator + (settings.doubt.empty() ? "" : " (" + settings.doubt + ")");
}

std::string describe_coordinator(const MemberJoinSettings& settings) {
  if (!settings.successors.empty()) return "the next coordinator";
  return settings.coordinator.empty() ? "the first ddprun of this launch"
                                      : "ddprun on " + doubted_name(settings);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace

bool is_numeric_address(const std::string& text) {
  return text.find(':') != std::string::npos ||
         (!text.empty() && text.find_first_not_of("0123456789.") == std::string::npos);
}

MemberJoin::MemberJoin(MemberJoinSettings settings, TimePoint now)
    : settings_(std::move(settings)), started_(now), status_due_(now + k_first_status) {
  key_value_space_.name = settings_.key_value_space;
  key_value_space_.trial.done = true;  // key-value space reports by itself
  file_.name = "rendezvous file";
  file_.trial.next = now;
  file_.trial.done = settings_.rendezvous_file.empty();
  for (const std::string& address : settings_.addresses) {
    names_.push_back({address, {}, false});
    names_.back().trial.next = now;
    if (!is_numeric_address(address)) continue;
    names_.back().trial.done = names_.back().known = true;
    add_candidates(names_.size() - 1, address, now);
  }
  for (const Successor& successor : settings_.successors) {
    for (const std::string& address : successor.addresses)
      add_candidate(successor.host, address, successor.port, now);
  }
}

void MemberJoin::add_candidate(const std::string& name, const std::string& address, int port, TimePoint from,
                               bool spare) {
  const auto known = [&](const Candidate& each) {
    return each.address == address && each.port == port && !each.trial.done;
  };
  if (std::any_of(candidates_.begin(), candidates_.end(), known)) return;
  const auto is_over = [](const Candidate& each) { return each.trial.done && !each.trial.under_way; };
  const auto over = std::find_if(candidates_.begin(), candidates_.end(), is_over);
  Candidate& candidate = over == candidates_.end() ? candidates_.emplace_back() : *over;
  candidate = {};
  candidate.name = name;
  candidate.address = address;
  candidate.port = port;
  candidate.spare = spare;
  candidate.trial.next = from;
}

void MemberJoin::drop_candidates(const std::string& name, const std::vector<std::string>& kept) {
  for (Candidate& each : candidates_) {
    const bool gone = std::find(kept.begin(), kept.end(), each.address) == kept.end();
    if (each.name == name && gone) each.trial.done = true;
  }
}

void MemberJoin::add_candidates(std::size_t place, const std::string& address, TimePoint now) {
  const TimePoint from = std::max(now, started_ + static_cast<int>(place) * k_address_stagger);
  for (const int port : settings_.ports) add_candidate(names_[place].text, address, port, from);
  for (const int port : settings_.spare_ports)
    add_candidate(names_[place].text, address, port, std::max(from, started_ + k_spare_ports_after), true);
}

MemberJoin::Actions MemberJoin::on_resolved(const std::string& name,
                                            const std::vector<std::string>& addresses, TimePoint now) {
  for (std::size_t place = 0; place < names_.size() && !over_; ++place) {
    Name& entry = names_[place];
    if (entry.text != name || !entry.trial.under_way) continue;
    if (!std::exchange(entry.known, true)) entry.trial.pause = Milliseconds{0};
    fail(entry.trial, {}, k_first_look_again, now, k_longest_look_again);
    const std::size_t count = std::min(addresses.size(), k_max_addresses_of_a_name);
    const std::vector<std::string> best(addresses.begin(),
                                        addresses.begin() + static_cast<std::ptrdiff_t>(count));
    drop_candidates(name, best);
    for (const std::string& address : best) add_candidates(place, address, now);
  }
  return on_time(now);
}

MemberJoin::Actions MemberJoin::on_resolve_failed(const std::string& name, const std::string& why,
                                                  TimePoint now) {
  const bool others = !settings_.key_value_space.empty() || !settings_.rendezvous_file.empty();
  for (Name& entry : names_) {
    if (entry.text == name && entry.trial.under_way)
      fail(entry.trial, why, k_first_lookup_pause, now, k_longest_pause);
  }
  // A name that is unknown twice is misspelt, most likely, and shown without waiting.
  const bool none_known = std::ranges::all_of(
      names_, [](const Name& each) { return !each.known && each.trial.pause > k_first_lookup_pause; });
  if (none_known && !others && status_shown_.empty()) status_due_ = std::min(status_due_, now);
  return on_time(now);
}

MemberJoin::Actions MemberJoin::on_place(DiscoveryWay way, const CoordinatorPlace& place, TimePoint now) {
  Way& told = way_of(way);
  told.trial.error.clear();
  if (way == DiscoveryWay::file) look_again(now);
  if (told.told == place) return on_time(now);
  told.told = place;
  for (Candidate& candidate : candidates_) {
    if (candidate.name == told.name) candidate.trial.done = true;
  }
  for (const std::string& address : place.addresses) add_candidate(told.name, address, place.port, now);
  return on_time(now);
}

MemberJoin::Actions MemberJoin::on_no_place(DiscoveryWay way, const std::string& why, TimePoint now) {
  way_of(way).trial.error = why;
  if (way == DiscoveryWay::file) look_again(now);
  return on_time(now);
}

// Looks again without limit: the text read may have been left by a launch that was killed.
void MemberJoin::look_again(TimePoint now) {
  fail(file_.trial, file_.trial.error, k_first_pause, now, k_longest_pause);
}

MemberJoin::Actions MemberJoin::on_failed(CandidateId candidate, const std::string& why, TimePoint now,
                                          bool answered) {
  Candidate& failed = candidates_[static_cast<std::size_t>(candidate.value)];
  if (answered) failed.answer = why;
  failed.refused_since = answered ? failed.refused_since.value_or(now) : std::optional<TimePoint>();
  const bool gone = !answered && !failed.answer.empty();
  fail(failed.trial, gone ? fmt::format("{} (later: {})", failed.answer, why) : why, k_first_pause, now,
       failed.spare ? k_longest_pause_of_spare : k_longest_pause);
  return on_time(now);
}

MemberJoin::Actions MemberJoin::on_authenticated(CandidateId candidate, TimePoint) {
  if (over_) return {};
  over_ = true;
  Actions actions{TakeCandidate{candidate}};
  if (!status_shown_.empty()) actions.push_back(ShowJoinStatus{});
  return actions;
}

MemberJoin::Actions MemberJoin::on_time(TimePoint now) {
  Actions actions;
  if (over_) return actions;
  const bool late = now >= started_ + settings_.join_timeout;
  if (late || refused_for_good(now)) {
    over_ = true;
    if (!status_shown_.empty()) actions.push_back(ShowJoinStatus{});
    actions.push_back(give_up(late ? settings_.join_timeout : *settings_.refusal_patience));
    return actions;
  }
  start_due(now, actions);
  show_status(now, actions);
  return actions;
}

std::optional<TimePoint> MemberJoin::deadline() const {
  if (over_) return std::nullopt;
  TimePoint soonest = std::min(started_ + settings_.join_timeout, status_due_);
  const auto consider = [&soonest](const Trial& trial) {
    if (!trial.under_way && !trial.done) soonest = std::min(soonest, trial.next);
  };
  consider(file_.trial);
  for (const Name& name : names_) consider(name.trial);
  const auto under_way = std::count_if(candidates_.begin(), candidates_.end(),
                                       [](const Candidate& c) { return c.trial.under_way; });
  if (under_way >= k_max_under_way) return soonest;
  for (const Candidate& candidate : candidates_) consider(candidate.trial);
  return soonest;
}

void MemberJoin::fail(Trial& trial, const std::string& why, Milliseconds first_pause, TimePoint now,
                      Milliseconds longest_pause) {
  trial.under_way = false;
  trial.error = why;
  trial.pause = trial.pause == Milliseconds{0} ? first_pause : std::min(trial.pause * 2, longest_pause);
  trial.next = now + trial.pause;
}

void MemberJoin::start_due(TimePoint now, Actions& actions) {
  for (Name& name : names_) {
    if (name.trial.done || name.trial.under_way || now < name.trial.next) continue;
    name.trial.under_way = true;
    actions.push_back(ResolveName{name.text});
  }
  if (!file_.trial.done && !file_.trial.under_way && now >= file_.trial.next) {
    file_.trial.under_way = true;
    actions.push_back(LookAtRendezvousFile{});
  }
  auto under_way = std::count_if(candidates_.begin(), candidates_.end(),
                                 [](const Candidate& c) { return c.trial.under_way; });
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Trial& trial = candidates_[i].trial;
    if (!trial.under_way && !trial.done && now >= trial.next) due.push_back(i);
  }
  std::stable_sort(due.begin(), due.end(), [this](std::size_t a, std::size_t b) {
    return candidates_[a].trial.next < candidates_[b].trial.next;
  });
  for (const std::size_t i : due) {
    if (under_way >= k_max_under_way) return;
    Candidate& candidate = candidates_[i];
    candidate.trial.under_way = true;
    ++under_way;
    actions.push_back(DialCandidate{{static_cast<int>(i)}, candidate.address, candidate.port});
  }
}

void MemberJoin::show_status(TimePoint now, Actions& actions) {
  if (now < status_due_) return;
  status_due_ = now + (settings_.live ? k_first_status : k_plain_status);
  const std::string text =
      fmt::format("looking for {}: {}", describe_coordinator(settings_), join(describe_failures(), "; "));
  if (text == status_shown_) return;
  status_shown_ = text;
  actions.push_back(ShowJoinStatus{text});
}

// Returns one piece for each way that has not shown a place.
std::vector<std::string> MemberJoin::describe_ways() const {
  std::vector<std::string> pieces;
  if (!settings_.key_value_space.empty() && !key_value_space_.told) {
    const std::string& why = key_value_space_.trial.error;
    pieces.push_back(
        fmt::format("{}: {}", settings_.key_value_space, why.empty() ? "no coordinator address yet" : why));
  }
  if (settings_.rendezvous_file.empty()) return pieces;
  if (!file_.trial.error.empty()) {
    pieces.push_back(fmt::format("rendezvous file {}: {}", settings_.rendezvous_file, file_.trial.error));
  } else if (!file_.told) {
    pieces.push_back(fmt::format("no rendezvous file appeared in {}", folder_of(settings_.rendezvous_file)));
  }
  return pieces;
}

// Returns one piece for each name that is not known and for each address and kind of failure, and for each
// other way.
std::vector<std::string> MemberJoin::describe_failures() const {
  std::vector<std::string> pieces = describe_ways();
  for (const Name& name : names_) {
    if (!name.known) {
      const std::string why = name.trial.error.empty() ? "no answer from the name service" : name.trial.error;
      pieces.push_back(fmt::format("{}: {}", name.text, why));
    }
  }
  std::vector<std::pair<std::string, std::vector<int>>> ports;  // ports by "address\nerror"
  for (const Candidate& candidate : candidates_) {
    if (candidate.trial.done || (candidate.spare && candidate.answer.empty())) continue;
    const std::string address = candidate.name == candidate.address
                                    ? candidate.address
                                    : fmt::format("{} ({})", candidate.address, candidate.name);
    const std::string error = candidate.trial.error.empty() ? "no answer yet" : candidate.trial.error;
    const std::string key = address + '\n' + error;
    auto entry = std::find_if(ports.begin(), ports.end(), [&key](const auto& e) { return e.first == key; });
    if (entry == ports.end()) entry = ports.insert(ports.end(), {key, {}});
    entry->second.push_back(candidate.port);
  }
  for (const auto& [key, of_them] : ports) {
    const std::size_t cut = key.find('\n');
    pieces.push_back(
        fmt::format("{} {}: {}", key.substr(0, cut), describe_ports(of_them), key.substr(cut + 1)));
  }
  return pieces;
}

bool MemberJoin::was_answered() const {
  return std::any_of(candidates_.begin(), candidates_.end(),
                     [](const Candidate& candidate) { return !candidate.answer.empty(); });
}

// Tries come every two seconds, so the next one after the limit is early enough.
bool MemberJoin::refused_for_good(TimePoint now) const {
  return settings_.refusal_patience &&
         std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& each) {
           return each.refused_since && now >= *each.refused_since + *settings_.refusal_patience;
         });
}

GiveUp MemberJoin::give_up(Milliseconds after) const {
  const std::string failures = join(describe_failures(), "; ");
  const std::string limit = describe_duration(after);
  if (settings_.coordinator.empty()) {
    return {
        fmt::format("cannot find the coordinator within {}: {}", limit, failures),
        settings_.rendezvous_file.empty()
            ? "name the host of rank 0 with --master-addr"
            : fmt::format("check that ddprun runs on all hosts and that all see {}, or name a folder that "
                          "they share with --rdzv-dir, or the host of rank 0 with --master-addr",
                          folder_of(settings_.rendezvous_file))};
  }
  const std::string what =
      fmt::format("cannot {} the coordinator {} within {}: {}", was_answered() ? "join" : "reach",
                  doubted_name(settings_), limit, failures);
  // Neither its name nor a firewall is at fault.
  if (was_answered()) return {what, ""};
  return {what,
          fmt::format("check that ddprun runs on {}, that its name resolves to an address of the compute "
                      "network and that no firewall blocks it; --master-addr names another address",
                      settings_.coordinator)};
}

}  // namespace ddprun::rendezvous
