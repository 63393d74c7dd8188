// --check: whether the nodes are fit for a job, before there is one.
#pragma once

#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/sourced.hpp"

namespace ddprun::options {

struct CheckOptions {
  bool wanted = false;       // --check: check, and run nothing
  bool json = false;         // --check=json
  bool deep = false;         // --check=deep: with a real all-reduce by torch
  bool automatic = false;    // --check=auto: what takes no time, before the first attempt
  bool strict = false;       // --strict: a warning fails too
  std::string exclude_file;  // --exclude-file: gets the names of nodes that fail, one a line
  Sourced<std::vector<std::string>> command{};                    // --check-command; no words: none
  Sourced<Milliseconds> limit = by_default(Milliseconds{30000});  // --check-timeout
  Sourced<std::vector<std::string>> on_failure{};                 // --on-failure; no words: none
  Milliseconds release_timeout{50000};                            // --gpu-release-timeout; 0: not waited for
  Sourced<int> replace_after = by_default(2);                     // --replace-after, failures; 0: never
};

// Parses "table", "json", "deep", "auto", or several with commas as in "deep,json". Throws UsageError.
CheckOptions parse_check(const std::string& text, const std::string& origin);

}  // namespace ddprun::options
