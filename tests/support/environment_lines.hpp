// "NAME=value" lines, as env(1) prints them.
#pragma once

#include <string>

#include "base/text.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::test {

inline facts::Environment parse_environment_lines(const std::string& text) {
  facts::Environment environment;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return environment;
}

}  // namespace ddprun::test
