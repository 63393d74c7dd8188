// What a random test starts from: DDPRUN_TEST_SEED, else a new number each time. How long it goes on:
// DDPRUN_TEST_TIMES=100 makes it a hundred times as many rounds.
#pragma once

#include <cstdlib>
#include <random>

#include "catch.hpp"

namespace ddprun::test {

inline unsigned seed_from_environment_or(unsigned usual) {
  const char* const given = std::getenv("DDPRUN_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : usual;
}

inline unsigned seed_from_environment_or_new() { return seed_from_environment_or(std::random_device{}()); }

inline int rounds(int usual) {
  const char* const times = std::getenv("DDPRUN_TEST_TIMES");
  return times != nullptr ? usual * static_cast<int>(std::strtol(times, nullptr, 10)) : usual;
}

}  // namespace ddprun::test

// Declares `seed`, which a failure prints.
#define RANDOM_SEED(seed)                                             \
  const unsigned seed = ddprun::test::seed_from_environment_or_new(); \
  INFO("DDPRUN_TEST_SEED=" << seed)

// The same, for tests that are to be alike in every run: what is rare and no error of the change at hand
// would fail here and there.
#define USUAL_SEED(seed, usual)                                        \
  const unsigned seed = ddprun::test::seed_from_environment_or(usual); \
  INFO("DDPRUN_TEST_SEED=" << seed)
