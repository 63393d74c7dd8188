#include "commands/write_file.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/files/slow_files.hpp"

namespace ddprun::commands {

void write_file(const std::string& path, const std::string& text, const char* hint) {
  const std::string why = os::replace_slow_file(path, text);
  if (!why.empty()) throw Error(fmt::format("cannot write {}: {}", printable(path), why), hint);
}

}  // namespace ddprun::commands
