// The one place that knows which Catch2 is installed.
#pragma once

#if CATCH2_MAJOR >= 3
#include <catch2/catch_all.hpp>
using Catch::Matchers::Contains;
#else
#include <catch2/catch.hpp>
#endif
