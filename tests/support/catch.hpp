// The one place that knows which Catch2 is installed: version 2 is one header, version 3 has another and
// calls the matcher for a part of a text by another name.
#pragma once

#if CATCH2_MAJOR >= 3
#include <catch2/catch_all.hpp>
using Catch::Matchers::ContainsSubstring;
inline auto Contains(const std::string& part) { return ContainsSubstring(part); }
#else
#include <catch2/catch.hpp>
using Catch::Matchers::Contains;
// As of version 3, but the test case counts as passed. What it says is printed.
#define SKIP(reason)             \
  do {                           \
    WARN("SKIPPED: " << reason); \
    return;                      \
  } while (false)
#endif
