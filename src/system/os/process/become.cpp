#include "os/process/become.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cerrno>

#include "os/system_failure.hpp"

namespace ddprun::os {

void become_program(const std::string& file, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment, const std::string& directory,
                    const std::string& host) {
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) {
    throw system_failure(fmt::format("cannot change to the folder {} on {}", directory, host), errno);
  }
  ::execve(file.c_str(), pointers_to(arguments).data(), pointers_to(environment).data());
  throw system_failure(fmt::format("cannot run {} on {}", file, host), errno);
}

std::string capture_own_file() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length <= 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(length));
}

int capture_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<int>(mask);
}

void set_umask(int mask) { ::umask(static_cast<mode_t>(mask)); }

std::vector<std::string> capture_environment_strings() {
  std::vector<std::string> strings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) strings.emplace_back(*entry);
  return strings;
}

bool read_standard_input(std::size_t limit, std::string& text) {
  std::array<char, 16384> chunk;
  for (;;) {
    const ssize_t length = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return length == 0;
    text.append(chunk.data(), static_cast<std::size_t>(length));
    if (text.size() > limit) return false;
  }
}

void drop_standard_input() {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return;
  ::dup2(null, STDIN_FILENO);
  if (null != STDIN_FILENO) ::close(null);
}

}  // namespace ddprun::os
