// Words on the command line of a worker of --check.
#pragma once

#include <nlohmann/json.hpp>
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
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckWords, json, strict, deep, log_folder, exclude_file)

}  // namespace ddprun::commands
