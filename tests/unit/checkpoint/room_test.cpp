#include "checkpoint/register.hpp"

#include "catch.hpp"

using namespace ddprun::checkpoint;
using Steps = std::vector<std::int64_t>;

TEST_CASE("steps older than the complete ones are needless, and none before one is complete") {
  const StepSizes steps{{1, 10}, {2, 10}, {3, 10}, {4, 10}};
  CHECK(needless_steps(steps, {}).empty());
  CHECK(needless_steps(steps, {3}) == Steps{1, 2});
  CHECK(needless_steps(steps, {4, 2}) == Steps{1});
}

TEST_CASE(
    "room is made by the steps between, then by the complete step before the newest, never by the newest") {
  const StepSizes steps{{2, 10}, {3, 10}, {4, 10}, {5, 10}};
  CHECK(steps_to_remove(steps, {4, 2}, 10) == Steps{3});
  CHECK(steps_to_remove(steps, {4, 2}, 11) == Steps{3, 2});
  CHECK(steps_to_remove(steps, {4, 2}, 20) == Steps{3, 2});
  CHECK(steps_to_remove(steps, {4, 2}, 21).empty());
  CHECK(steps_to_remove(steps, {2}, 1).empty());
  CHECK(steps_to_remove(steps, {}, 1).empty());
}

TEST_CASE("the parts of the newest step that lacks replicas are copied first, needless ones never") {
  const auto offer = [](std::int64_t step, int rank) { return Offer{step, rank, {4, {{"a", 1, ""}}}}; };
  const auto copied = [&](const std::vector<Offer>& offers, const std::vector<Part>& here,
                          const Steps& complete) {
    std::vector<std::pair<std::int64_t, int>> parts;
    for (const Offer& each : parts_to_copy(offers, here, complete)) parts.emplace_back(each.step, each.rank);
    return parts;
  };
  using Parts = std::vector<std::pair<std::int64_t, int>>;
  const std::vector<Offer> offers{offer(1, 0), offer(1, 1), offer(2, 0), offer(2, 1)};
  CHECK(copied(offers, {}, {}) == Parts{{2, 0}, {2, 1}});
  CHECK(copied(offers, {{2, 0, 4, 1, true}}, {}) == Parts{{2, 1}});
  CHECK(copied(offers, {{2, 0, 4, 1, false}}, {}) == Parts{{2, 0}, {2, 1}});
  CHECK(copied(offers, {{2, 0, 4, 1, true}, {2, 1, 4, 1, true}}, {}) == Parts{{1, 0}, {1, 1}});
  CHECK(copied(offers, {{2, 0, 4, 1, true}, {2, 1, 4, 1, true}}, {2}).empty());
}
