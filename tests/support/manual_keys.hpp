// The keys that a section of ddprun-formats(5) names.
#pragma once

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "base/text.hpp"
#include "catch.hpp"
#include "test_paths.hpp"

namespace ddprun::test {

// Returns the tags of the section: ".B KEY" after ".TP" or ".TQ".
inline std::set<std::string> keys_in_manual(const std::string& section) {
  std::ifstream file(DDPRUN_MANUAL);
  REQUIRE(file);
  const std::string manual{std::istreambuf_iterator<char>(file), {}};
  const std::size_t start = manual.find(".SH " + section + "\n");
  REQUIRE(start != std::string::npos);
  const auto lines = split(manual.substr(start, manual.find("\n.SH ", start + 1) - start), '\n');
  std::set<std::string> keys;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i - 1] == ".TP" || lines[i - 1] == ".TQ") keys.insert(lines[i].substr(3));
  }
  return keys;
}

}  // namespace ddprun::test
