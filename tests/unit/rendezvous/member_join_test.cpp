#include "rendezvous/membership/member_join.hpp"

#include <set>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace std::chrono_literals;

namespace {

const TimePoint k_start{};

MemberJoinSettings settings(std::vector<std::string> addresses, std::vector<int> ports = {20480, 20481}) {
  return {"n1", std::move(addresses), std::move(ports), 60s, {}, {}, {}};
}

// Nobody knows the coordinator's host.
MemberJoinSettings settings_of_strangers() {
  return {"", {}, {20480}, 60s, "/home/u/.ddprun/meet.1", "PMI", {}};
}

template <class T>
std::vector<T> all_of(const MemberJoin::Actions& actions) {
  std::vector<T> found;
  for (const MemberJoinAction& action : actions) {
    if (const T* wanted = std::get_if<T>(&action)) found.push_back(*wanted);
  }
  return found;
}

std::vector<std::string> dials(const MemberJoin::Actions& actions) {
  std::vector<std::string> found;
  for (const auto& dial : all_of<DialCandidate>(actions)) {
    found.push_back(dial.address + " " + std::to_string(dial.port));
  }
  return found;
}

using Texts = std::vector<std::string>;

const std::vector<Milliseconds> k_pauses{10ms, 20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1280ms, 2000ms, 2000ms};

}  // namespace

TEST_CASE("spare ports are tried a moment later and less often, and are not spoken of") {
  MemberJoinSettings with_spare = settings({"10.0.0.1"}, {20480});
  with_spare.spare_ports = {20490, 20491};
  MemberJoin join(with_spare, k_start);
  CHECK(dials(join.start(k_start)) == Texts{"10.0.0.1 20480"});
  CHECK(dials(join.on_time(k_start + 500ms)) == Texts{"10.0.0.1 20490", "10.0.0.1 20491"});
  TimePoint now = k_start + 500ms;
  for (const Milliseconds pause :
       {10ms, 20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1280ms, 2560ms, 5120ms, 8000ms, 8000ms}) {
    CHECK(dials(join.on_failed(CandidateId{1}, "connection refused", now)).empty());
    now += pause;
    CHECK(dials(join.on_time(now)) == Texts{"10.0.0.1 20490"});
  }
  const auto given_up = all_of<GiveUp>(join.on_time(k_start + 60s));
  REQUIRE(given_up.size() == 1);
  CHECK(given_up.front().what.find("2049") == std::string::npos);
}

TEST_CASE("numeric addresses need no look-up") {
  CHECK(is_numeric_address("10.0.0.1"));
  CHECK(is_numeric_address("fd00::1"));
  CHECK_FALSE(is_numeric_address("n1"));
  CHECK_FALSE(is_numeric_address(""));
}

TEST_CASE("all ports of the best address are tried at once, the next address a moment later") {
  MemberJoin join(settings({"10.0.0.1", "10.1.0.1"}), k_start);
  CHECK(dials(join.start(k_start)) == Texts{"10.0.0.1 20480", "10.0.0.1 20481"});
  REQUIRE(join.deadline());
  CHECK(*join.deadline() == k_start + 200ms);
  CHECK(dials(join.on_time(k_start + 200ms)) == Texts{"10.1.0.1 20480", "10.1.0.1 20481"});
}

TEST_CASE("a name is looked up first, and again when it is not known yet") {
  MemberJoin join(settings({"n1"}), k_start);
  REQUIRE(all_of<ResolveName>(join.start(k_start)).size() == 1);
  CHECK(join.on_resolve_failed("n1", "the name is not known", k_start).empty());
  CHECK(*join.deadline() == k_start + 500ms);
  CHECK(all_of<ResolveName>(join.on_time(k_start + 500ms)).size() == 1);
  CHECK(dials(join.on_resolved("n1", {"10.0.0.1"}, k_start + 501ms)).size() == 2);
}

TEST_CASE("a coordinator whose name is unknown twice is shown at once") {
  MemberJoin join(settings({"typo"}), k_start);
  join.start(k_start);
  CHECK(all_of<ShowJoinStatus>(join.on_resolve_failed("typo", "the name is not known", k_start)).empty());
  join.on_time(k_start + 500ms);
  const auto shown =
      all_of<ShowJoinStatus>(join.on_resolve_failed("typo", "the name is not known", k_start + 501ms));
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].text == "looking for ddprun on n1: typo: the name is not known");
  join.on_time(k_start + 1501ms);
  CHECK(all_of<ShowJoinStatus>(join.on_resolve_failed("typo", "the name is not known", k_start + 1502ms))
            .empty());
}

TEST_CASE("an address that two names lead to is tried once") {
  MemberJoin join(settings({"n1", "n1.cluster"}, {20480}), k_start);
  join.start(k_start);
  CHECK(dials(join.on_resolved("n1", {"10.0.0.1"}, k_start + 1s)).size() == 1);
  CHECK(dials(join.on_resolved("n1.cluster", {"10.0.0.1"}, k_start + 1s)).empty());
}

TEST_CASE("a candidate that fails is tried again after a pause that doubles up to a limit") {
  MemberJoin join(settings({"10.0.0.1"}, {20480}), k_start);
  join.start(k_start);
  TimePoint now = k_start;
  std::vector<Milliseconds> pauses;
  while (pauses.size() < k_pauses.size()) {
    join.on_failed({0}, "connection refused", now);
    TimePoint due = *join.deadline();
    for (; dials(join.on_time(due)).empty(); due = *join.deadline()) {
    }
    pauses.push_back(std::chrono::duration_cast<Milliseconds>(due - now));
    now = due;
  }
  CHECK(pauses == k_pauses);
}

TEST_CASE("the first that proves itself is taken and nothing is tried any more") {
  MemberJoin join(settings({"10.0.0.1"}), k_start);
  join.start(k_start);
  const auto actions = join.on_authenticated({1}, k_start + 1s);
  REQUIRE(all_of<TakeCandidate>(actions).size() == 1);
  CHECK(all_of<TakeCandidate>(actions)[0].candidate == CandidateId{1});
  CHECK(join.over());
  CHECK_FALSE(join.deadline());
  CHECK(join.on_authenticated({0}, k_start + 1s).empty());
  CHECK(join.on_failed({0}, "connection refused", k_start + 2s).empty());
}

TEST_CASE("the end names each candidate and its last failure") {
  MemberJoin join(settings({"n1", "n1-hsn0", "10.1.0.1"}, {20480, 20481, 20482}), k_start);
  join.start(k_start);
  join.on_resolved("n1", {"10.0.0.1"}, k_start);
  join.on_resolve_failed("n1-hsn0", "the name is not known", k_start);
  join.on_failed({0}, "connection refused", k_start);  // 10.1.0.1 was there first
  join.on_failed({3}, "timed out", k_start);
  join.on_failed({3}, "connection refused", k_start + 1s);
  join.on_failed({4}, "connection refused", k_start + 1s);
  join.on_failed({5}, "the peer refused: the keys differ", k_start + 1s);
  const auto actions = join.on_time(k_start + 60s);
  const auto ends = all_of<GiveUp>(actions);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].what ==
        "cannot reach the coordinator n1 within 60 s: n1-hsn0: the name is not known; 10.1.0.1 port 20480: "
        "connection refused; 10.1.0.1 ports 20481, 20482: no answer yet; 10.0.0.1 (n1) ports 20480, 20481: "
        "connection refused; 10.0.0.1 (n1) port 20482: the peer refused: the keys differ");
  CHECK(ends[0].hint ==
        "check that ddprun runs on n1, that its name resolves to an address of the compute network and that "
        "no firewall blocks it; --master-addr names another address");
  CHECK(join.over());
}

TEST_CASE("a member that cannot find the coordinator says so after a while, and again when it changes") {
  MemberJoin join(settings({"n1"}), k_start);
  join.start(k_start);
  CHECK(all_of<ShowJoinStatus>(join.on_resolve_failed("n1", "the name is not known", k_start + 4s)).empty());
  const auto first = all_of<ShowJoinStatus>(join.on_time(k_start + 5s));
  REQUIRE(first.size() == 1);
  CHECK(first[0].text == "looking for ddprun on n1: n1: the name is not known");
  CHECK(all_of<ShowJoinStatus>(join.on_time(k_start + 30s)).empty());
  CHECK(all_of<ShowJoinStatus>(join.on_resolved("n1", {"10.0.0.1"}, k_start + 35s)).size() == 1);
  const auto taken = all_of<ShowJoinStatus>(join.on_authenticated({0}, k_start + 36s));
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].text.empty());
}

TEST_CASE("a doubt about the coordinator's place stands with its name, and not in the hint") {
  MemberJoinSettings doubted = settings({"127.0.0.1"}, {20480});
  doubted.doubt = "--master-addr localhost is n2 itself";
  MemberJoin join(doubted, k_start);
  join.start(k_start);
  join.on_failed({0}, "connection refused", k_start);
  const auto ends = all_of<GiveUp>(join.on_time(k_start + 60s));
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].what.starts_with(
      "cannot reach the coordinator n1 (--master-addr localhost is n2 itself) within 60 s"));
  CHECK(ends[0].hint.starts_with("check that ddprun runs on n1, "));
}

TEST_CASE("a name with many addresses does not open connections without limit") {
  MemberJoin join(settings({"n1"}, std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), k_start);
  join.start(k_start);
  Texts addresses;
  for (int i = 0; i < 100; ++i) addresses.push_back("10.0.0." + std::to_string(i));
  CHECK(dials(join.on_resolved("n1", addresses, k_start)).size() == 64);
}

TEST_CASE("however many names there are and however late they are known, each of their addresses is tried") {
  Texts names;
  for (int i = 0; i < 33; ++i) names.push_back("n" + std::to_string(i));
  MemberJoin join(settings(names, {1, 2, 3, 4, 5, 6, 7, 8}), k_start);
  TimePoint now = k_start;
  std::set<std::string> tried;
  const auto note = [&](MemberJoin::Actions actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (!std::holds_alternative<DialCandidate>(actions[i])) continue;
      const auto dial = std::get<DialCandidate>(actions[i]);
      tried.insert(dial.address + " " + std::to_string(dial.port));
      const auto more = join.on_failed(dial.candidate, "refused", now);
      actions.insert(actions.end(), more.begin(), more.end());
    }
  };
  note(join.start(now));
  for (int i = 32; i >= 0; --i) {  // the best one last
    now += 100ms;
    const std::string host = std::to_string(i);
    note(join.on_resolved("n" + host, {"10.0.0." + host, "10.1.0." + host}, now));
  }
  constexpr std::size_t k_all = 33 * 2 * 8;
  for (int i = 0; i < 400 && tried.size() < k_all; ++i) note(join.on_time(now += 100ms));
  CHECK(tried.size() == k_all);
  CHECK(tried.count("10.1.0.0 8") == 1);
}

TEST_CASE(
    "a name whose addresses do not answer is looked up again, and what it leads to now is tried instead") {
  MemberJoin join(settings({"n1"}, {20480}), k_start);
  join.start(k_start);
  REQUIRE(dials(join.on_resolved("n1", {"10.0.0.1"}, k_start)) == Texts{"10.0.0.1 20480"});
  CHECK(all_of<ResolveName>(join.on_time(k_start + 4999ms)).empty());
  REQUIRE(all_of<ResolveName>(join.on_time(k_start + 5s)).size() == 1);
  CHECK(dials(join.on_resolved("n1", {"10.0.0.2"}, k_start + 5s)) == Texts{"10.0.0.2 20480"});
  CHECK(dials(join.on_failed({0}, "no answer", k_start + 6s)).empty());
  CHECK(dials(join.on_time(k_start + 9s)).empty());  // neither: one is dropped, one is under way
  // Where the name service has a gap, what is known is kept.
  REQUIRE(all_of<ResolveName>(join.on_time(k_start + 15s)).size() == 1);
  join.on_resolve_failed("n1", "no answer from the name service", k_start + 15s);
  join.on_failed({1}, "connection refused", k_start + 16s);
  CHECK(dials(join.on_time(k_start + 17s)) == Texts{"10.0.0.2 20480"});
}

TEST_CASE("what the launcher's key-value space tells is tried at once") {
  MemberJoin join(settings_of_strangers(), k_start);
  join.start(k_start);
  const CoordinatorPlace place{{"10.0.0.1", "fd00::1"}, 20490};
  CHECK(dials(join.on_place(DiscoveryWay::key_value_space, place, k_start + 1s)) ==
        Texts{"10.0.0.1 20490", "fd00::1 20490"});
  CHECK(all_of<TakeCandidate>(join.on_authenticated({1}, k_start + 2s)).size() == 1);
}

TEST_CASE("the rendezvous file is looked at again and again, with a pause that doubles up to a limit") {
  MemberJoin join(settings_of_strangers(), k_start);
  REQUIRE(all_of<LookAtRendezvousFile>(join.start(k_start)).size() == 1);
  TimePoint now = k_start;
  std::vector<Milliseconds> pauses;
  while (pauses.size() < k_pauses.size()) {
    join.on_no_place(DiscoveryWay::file, "", now);
    TimePoint due = *join.deadline();
    for (; all_of<LookAtRendezvousFile>(join.on_time(due)).empty(); due = *join.deadline()) {
    }
    pauses.push_back(std::chrono::duration_cast<Milliseconds>(due - now));
    now = due;
  }
  CHECK(pauses == k_pauses);
}

TEST_CASE("a newer rendezvous file replaces what an older one told, the same text changes nothing") {
  MemberJoin join(settings_of_strangers(), k_start);
  join.start(k_start);
  const CoordinatorPlace stale{{"10.0.0.9"}, 20480};
  CHECK(dials(join.on_place(DiscoveryWay::file, stale, k_start)) == Texts{"10.0.0.9 20480"});
  CHECK(dials(join.on_place(DiscoveryWay::file, stale, k_start + 50ms)).empty());
  join.on_failed({0}, "connection refused", k_start + 60ms);
  CHECK(dials(join.on_place(DiscoveryWay::file, {{"10.0.0.1"}, 20481}, k_start + 1s)) ==
        Texts{"10.0.0.1 20481"});
  // back again, for instance where two file servers disagree
  CHECK(dials(join.on_place(DiscoveryWay::file, stale, k_start + 2s)) == Texts{"10.0.0.9 20480"});
}

TEST_CASE("where nobody knows the coordinator's host, status and end say how it was looked for") {
  MemberJoin join(settings_of_strangers(), k_start);
  join.start(k_start);
  const auto status = all_of<ShowJoinStatus>(join.on_no_place(DiscoveryWay::file, "", k_start + 5s));
  REQUIRE(status.size() == 1);
  CHECK(status[0].text ==
        "looking for the first ddprun of this launch: PMI: no coordinator address yet; no rendezvous file "
        "appeared in /home/u/.ddprun");
  join.on_no_place(DiscoveryWay::key_value_space, "it closed the connection", k_start + 6s);
  join.on_no_place(DiscoveryWay::file, "its mode is 0644, not 0600", k_start + 7s);
  const auto ends = all_of<GiveUp>(join.on_time(k_start + 60s));
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].what ==
        "cannot find the coordinator within 60 s: PMI: it closed the connection; rendezvous file "
        "/home/u/.ddprun/meet.1: its mode is 0644, not 0600");
  CHECK(ends[0].hint ==
        "check that ddprun runs on all hosts and that all see /home/u/.ddprun, or name a folder that they "
        "share "
        "with --rdzv-dir, or the host of rank 0 with --master-addr");
}

TEST_CASE("a place that nobody answers at is named with the way it was told") {
  MemberJoin join(settings_of_strangers(), k_start);
  join.start(k_start);
  join.on_place(DiscoveryWay::file, {{"10.0.0.9"}, 20480}, k_start);
  join.on_place(DiscoveryWay::key_value_space, {{"10.0.0.1"}, 20481}, k_start);
  join.on_failed({0}, "connection refused", k_start);
  const auto ends = all_of<GiveUp>(join.on_time(k_start + 60s));
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].what ==
        "cannot find the coordinator within 60 s: 10.0.0.9 (rendezvous file) port 20480: connection refused; "
        "10.0.0.1 (PMI) port 20481: no answer yet");
  MemberJoinSettings only_key_value_space = settings_of_strangers();
  only_key_value_space.rendezvous_file.clear();
  MemberJoin other(only_key_value_space, k_start);
  CHECK(all_of<LookAtRendezvousFile>(other.start(k_start)).empty());
  const auto other_ends = all_of<GiveUp>(other.on_time(k_start + 60s));
  REQUIRE(other_ends.size() == 1);
  CHECK(other_ends[0].what == "cannot find the coordinator within 60 s: PMI: no coordinator address yet");
  CHECK(other_ends[0].hint == "name the host of rank 0 with --master-addr");
}

TEST_CASE("a refusal stays the cause when the one who refused is gone later") {
  MemberJoin join(settings({"10.0.0.1"}, {29500}), k_start);
  join.start(k_start);
  join.on_failed({0}, "the peer refused: the keys differ", k_start, true);
  join.on_failed({0}, "connection refused", k_start + 1s);
  join.on_failed({0}, "connection refused", k_start + 2s);
  const auto ends = all_of<GiveUp>(join.on_time(k_start + 60s));
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].what ==
        "cannot join the coordinator n1 within 60 s: 10.0.0.1 port 29500: the peer refused: the keys differ "
        "(later: "
        "connection refused)");
  CHECK(ends[0].hint.empty());  // neither its name nor a firewall is at fault
}

TEST_CASE("who is refused all the time at the place that the user named gives up before the join time-out") {
  MemberJoinSettings chosen = settings({"10.0.0.1"}, {29500});
  chosen.refusal_patience = 10s;
  MemberJoin join(chosen, k_start);
  join.start(k_start);
  const auto refuse_until = [&join](TimePoint from, TimePoint end, bool answered) {
    for (TimePoint now = from; now < end; now += 2s) {
      CHECK(all_of<GiveUp>(join.on_time(now)).empty());
      CHECK(all_of<GiveUp>(join.on_failed({0}, "this is another job", now, answered)).empty());
    }
  };
  refuse_until(k_start, k_start + 8s, true);
  refuse_until(k_start + 8s, k_start + 10s, false);  // it has ended: what comes next may be ours
  refuse_until(k_start + 10s, k_start + 20s, true);
  const auto given_up = all_of<GiveUp>(join.on_failed({0}, "this is another job", k_start + 20s, true));
  REQUIRE(given_up.size() == 1);
  CHECK(given_up[0].what ==
        "cannot join the coordinator n1 within 10 s: 10.0.0.1 port 29500: this is another job");
}
