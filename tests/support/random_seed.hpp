// What a random test starts from: DDPRUN_TEST_SEED, else a new number each time.
#pragma once

#include <cstdlib>
#include <random>

#include "catch.hpp"

namespace ddprun::test {

inline unsigned seed_from_environment_or_new() {
  const char* const given = std::getenv("DDPRUN_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

}  // namespace ddprun::test

// Declares `seed`, which a failure prints.
#define RANDOM_SEED(seed)                                             \
  const unsigned seed = ddprun::test::seed_from_environment_or_new(); \
  INFO("DDPRUN_TEST_SEED=" << seed)
