#include "allocation/node_file.hpp"

#include <fmt/format.h>

#include <map>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(fmt::format("the node file {} {}", printable(path), why),
              "the scheduler writes one host name per line; clear the variable if it was set manually");
}

}  // namespace

NodeFile parse_node_file(const std::string& contents, const std::string& path) {
  if (contents.size() > k_node_file_limit)
    fail(path, fmt::format("is longer than {} bytes", k_node_file_limit));
  NodeFile file;
  std::map<std::string, std::size_t> places;
  int line_number = 0;
  for (const std::string& line : split(contents, '\n')) {
    ++line_number;
    const std::string_view name = trim(line);
    if (name.empty()) continue;
    if (name.size() > k_max_host_name)
      fail(path, fmt::format("has more than {} bytes in line {}", k_max_host_name, line_number));
    if (!is_host_name(name)) {
      fail(path, fmt::format("names no host in line {}: \"{}\"", line_number, printable(name, 80)));
    }
    const auto [place, added] = places.emplace(to_lower(short_host_name(name)), file.hosts.size());
    if (added) {
      file.hosts.emplace_back(name);
      file.slots.push_back(0);
    }
    ++file.slots[place->second];
  }
  if (file.hosts.empty()) fail(path, "is empty");
  return file;
}

}  // namespace ddprun::allocation
