#include "commands/write_file.hpp"

#include <fmt/format.h>

#include <fstream>

#include "base/error.hpp"

namespace ddprun::commands {

void write_file(const std::string& path, const std::string& text, const char* hint) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}", path), hint);
}

}  // namespace ddprun::commands
