// What a worker of --check is told on its command line.
#pragma once

#include <string>

namespace ddprun::commands {

inline constexpr const char* k_check_node =
    "--check-node";  // the worker's first argument; its second is text

struct CheckWords {
  bool json = false;
  bool strict = false;
  bool deep = false;
  std::string log_folder;
  std::string exclude_file;
};

std::string render_check_words(const CheckWords& words);
// Throws Error.
CheckWords parse_check_words(const std::string& text);

}  // namespace ddprun::commands
