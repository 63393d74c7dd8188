// Files of tests/data.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "test_paths.hpp"

namespace ddprun {

// All of it. `path`: below tests/data.
inline std::string test_data(const std::string& path) {
  std::ifstream file(std::string(DDPRUN_TEST_DATA) + "/" + path);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace ddprun
