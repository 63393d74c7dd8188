#include "os/machine/port_holder.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

constexpr std::size_t k_table_limit = std::size_t{8} << 20;

std::string target_of(const std::filesystem::path& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).string();
}

// "socket:[INODE]" of the listeners on the port: "sl local_address rem_address st ...", state 0A, the inode
// in the tenth column (proc_pid_net(5)).
std::set<std::string> listeners_of(int port) {
  const std::string ending = fmt::format(":{:04X}", port);
  std::set<std::string> sockets;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    for (const std::string& line : split(try_read_file(table, k_table_limit).value_or(""), '\n')) {
      const std::vector<std::string> columns = split_words(line);
      if (columns.size() < 10 || columns[3] != "0A" || !columns[1].ends_with(ending)) continue;
      sockets.insert(fmt::format("socket:[{}]", columns[9]));
    }
  }
  return sockets;
}

bool holds(int pid, const std::set<std::string>& sockets) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(fmt::format("/proc/{}/fd", pid), error), end;
       !error && entry != end; entry.increment(error)) {
    if (sockets.contains(target_of(entry->path()))) return true;
  }
  return false;
}

}  // namespace

std::optional<PortHolder> find_port_holder(int port) {
  const std::set<std::string> sockets = listeners_of(port);
  if (sockets.empty()) return std::nullopt;
  for (const ProcessEntry& process : capture_processes()) {
    if (!holds(process.pid, sockets)) continue;
    const std::string file = target_of(fmt::format("/proc/{}/exe", process.pid));
    return PortHolder{process.pid, process.name, !file.empty() && file == target_of("/proc/self/exe")};
  }
  return std::nullopt;
}

}  // namespace ddprun::os
