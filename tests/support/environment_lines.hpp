// "NAME=value" lines, as env(1) prints them: a line without '=' goes on with the value before it.
#pragma once

#include <string>

#include "base/text.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::test {

inline facts::Environment parse_environment_lines(const std::string& text) {
  facts::Environment environment;
  std::string name;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) {
      name = line.substr(0, equals);
      environment[name] = line.substr(equals + 1);
    } else if (!line.empty() && !name.empty()) {
      environment[name] += '\n' + line;
    }
  }
  return environment;
}

}  // namespace ddprun::test
