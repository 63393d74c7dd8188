#include "store/store_state.hpp"

#include <utility>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::store;

namespace {

constexpr StoreClient k_first{0};
constexpr StoreClient k_second{1};
constexpr StoreClient k_third{2};

struct Fixture {
  StoreMemory memory{1024 * 1024};
  StoreState state{100, memory};
  StoreEffects effects;

  std::vector<StoreClient> woken() { return std::exchange(effects.woken, {}); }
  void wait(StoreClient client, std::initializer_list<const char*> keys) {
    state.cancel_wait(client);
    for (const char* key : keys) state.wait_for(client, key);
  }
};

using Clients = std::vector<StoreClient>;

}  // namespace

TEST_CASE_METHOD(Fixture, "a value is the last one set") {
  state.set("k", "1", effects);
  state.set("k", "two", effects);
  CHECK(state.get("k") == "two");
  CHECK(state.get("absent") == std::nullopt);
  CHECK(state.size() == 1);
}

TEST_CASE_METHOD(Fixture, "a wait ends when the last of its keys appears") {
  state.set("b", "", effects);
  wait(k_first, {"a", "b", "c", "a"});
  CHECK(state.waiting(k_first));
  state.set("a", "", effects);
  CHECK(woken().empty());
  state.add("c", 1, effects);
  CHECK(woken() == Clients{k_first});
  CHECK_FALSE(state.waiting(k_first));
  CHECK(state.listed() == 0);
}

TEST_CASE_METHOD(Fixture, "every way to make a key wakes who waits for it") {
  wait(k_first, {"k"});
  SECTION("set") { state.set("k", "", effects); }
  SECTION("add") { state.add("k", 1, effects); }
  SECTION("append") { state.append("k", "x", effects); }
  SECTION("compare_set") { state.compare_set("k", "", "x", effects); }
  SECTION("push") { state.push("k", "x", effects); }
  SECTION("barrier") { state.enter_barrier(k_second, "k", 2, effects); }
  CHECK(woken() == Clients{k_first});
}

TEST_CASE_METHOD(Fixture, "compare_set that stores nothing wakes nobody") {
  wait(k_first, {"k"});
  CHECK(state.compare_set("k", "something", "else", effects) == "something");
  CHECK(woken().empty());
  CHECK(state.waiting(k_first));
}

TEST_CASE_METHOD(Fixture, "a key that went again still counts for the wait that saw it") {
  wait(k_first, {"a", "b"});
  state.set("a", "", effects);
  state.erase("a", effects);
  state.set("b", "", effects);
  CHECK(woken() == Clients{k_first});
}

TEST_CASE_METHOD(Fixture, "a push wakes one client, the one that has waited longest") {
  wait(k_second, {"q"});
  wait(k_first, {"q"});
  wait(k_third, {"q"});
  state.push("q", "1", effects);
  CHECK(woken() == Clients{k_second});
  state.push("q", "2", effects);
  CHECK(woken() == Clients{k_first});
  CHECK(state.pop("q") == "1");
  CHECK(state.pop("q") == "2");
  CHECK(state.pop("q") == std::nullopt);
  CHECK(state.queue_length("q") == 0);
  CHECK(state.waiting(k_third));
}

TEST_CASE_METHOD(Fixture, "a barrier opens for all when the last comes and stays open") {
  CHECK(state.enter_barrier(k_first, "b", 3, effects));
  CHECK(state.enter_barrier(k_second, "b", 3, effects));
  CHECK(woken().empty());
  CHECK(state.enter_barrier(k_third, "b", 3, effects));
  CHECK(woken() == Clients{k_first, k_second, k_third});
  CHECK(state.enter_barrier(k_first, "b", 3, effects));
  CHECK(woken() == Clients{k_first});
  CHECK(state.get("b") == "4");
  CHECK(state.listed() == 0);
}

TEST_CASE_METHOD(Fixture, "who changes a barrier's key, or tries to, wakes those who wait there") {
  state.enter_barrier(k_first, "b", 9, effects);
  state.enter_barrier(k_second, "b", 9, effects);
  CHECK(woken().empty());
  SECTION("set") { state.set("b", "7", effects); }
  SECTION("add") { state.add("b", 1, effects); }
  SECTION("append") { state.append("b", "7", effects); }
  SECTION("compare_set") { state.compare_set("b", "2", "7", effects); }
  SECTION("compare_set that does not match") { state.compare_set("b", "nothing", "7", effects); }
  CHECK(woken() == Clients{k_first, k_second});
  CHECK(state.listed() == 0);
}

TEST_CASE_METHOD(Fixture, "a value that is not a number stays as it is") {
  for (const char* value : {"x12", "", " ", "- 7", "+-7", "9223372036854775808"}) {
    CAPTURE(value);
    state.set("k", value, effects);
    CHECK(state.add("k", 1, effects) == std::nullopt);
    CHECK_FALSE(state.enter_barrier(k_first, "k", 1, effects));
    CHECK(state.get("k") == value);
  }
}

TEST_CASE_METHOD(Fixture, "a number is read as torch's stoll reads it") {
  const std::vector<std::pair<const char*, std::int64_t>> sums{{" 7", 8},
                                                               {"7abc", 8},
                                                               {"+7", 8},
                                                               {"-7x", -6},
                                                               {"\t 9", 10},
                                                               {"0x10", 1},
                                                               {"9223372036854775807", INT64_MIN}};
  for (const auto& [value, expected] : sums) {
    CAPTURE(value);
    state.set("k", value, effects);
    CHECK(state.add("k", 1, effects) == expected);
  }
}

TEST_CASE_METHOD(Fixture, "a value cannot be appended to past the limit") {
  state.set("k", std::string(99, 'x'), effects);
  CHECK(state.append("k", "y", effects));
  CHECK_FALSE(state.append("k", "y", effects));
  CHECK(state.get("k")->size() == 100);
}

TEST_CASE_METHOD(Fixture, "a cancelled wait leaves nothing behind") {
  wait(k_first, {"a", "b"});
  wait(k_second, {"a"});
  state.set("b", "", effects);
  state.cancel_wait(k_first);
  CHECK_FALSE(state.waiting(k_first));
  CHECK(state.listed() == 1);
  state.set("a", "", effects);
  CHECK(woken() == Clients{k_second});
}

TEST_CASE_METHOD(Fixture, "a client that goes is removed from every list") {
  wait(k_first, {"a", "b", "c"});
  state.enter_barrier(k_second, "barrier", 2, effects);
  state.watch(k_third, "w");
  state.watch(k_third, "x");
  for (const StoreClient client : {k_first, k_second, k_third}) state.forget(client);
  CHECK(state.listed() == 0);
  state.set("a", "", effects);
  state.set("w", "", effects);
  CHECK(woken().empty());
  CHECK(effects.notices.empty());
}

TEST_CASE_METHOD(Fixture, "a watcher learns of each change with the old value and the new") {
  state.watch(k_first, "w");
  state.set("w", "1", effects);
  state.append("w", "2", effects);
  state.erase("w", effects);
  REQUIRE(effects.notices.size() == 3);
  CHECK(effects.notices[0].change == KeyChange::created);
  CHECK(effects.notices[1].old_value == "1");
  CHECK(effects.notices[1].new_value == "12");
  CHECK(effects.notices[2].change == KeyChange::deleted);
  CHECK(effects.notices[2].old_value == "12");
}
