// Any environment on any host: an allocation that fits itself, or an Error. Lines are NAME=value; "@host X",
// "@ancestor X", "@cgroup X" and "@standalone", "@nnodes N", "@node-rank N", "@nproc N" are the rest.
#include <cstdint>
#include <cstdlib>

#include "ddprun/allocation/detect.hpp"
#include "ddprun/base/error.hpp"
#include "environment_lines.hpp"

using namespace ddprun;

namespace {

void read_fact(const std::string& line, Snapshot& snapshot, PlaceOptions& options) {
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, blank);
  const std::string value = blank == line.size() ? "" : line.substr(blank + 1);
  const auto number = [&] {
    return sourced(static_cast<int>(parse_integer(value).value_or(1) % 1000000), name);
  };
  if (name == "@host") snapshot.host.name = value;
  if (name == "@ancestor") snapshot.host.ancestors.push_back({1, value});
  if (name == "@cgroup") snapshot.host.cgroup = value;
  if (name == "@standalone") options.standalone = true;
  if (name == "@nnodes") options.nodes = number();
  if (name == "@node-rank") options.node_rank = number();
  if (name == "@nproc") options.workers_per_node = number();
  if (name == "@address") options.address = sourced(value, name);
}

void require(bool promise) {
  if (!promise) std::abort();
}

void check_promises(const Allocation& allocation) {
  require(!allocation.hosts.value.empty());
  require(!launch_key(allocation).empty());
  const auto node = allocation.node_index.value.value;
  require(node >= 0 && node < static_cast<int>(allocation.hosts.value.size()));
  require(allocation.task_rank.value >= 0 && allocation.task_rank.value < allocation.task_count.value);
  const Host& host = allocation.hosts.value[static_cast<std::size_t>(node)];
  require(allocation.task_local.value.value < host.tasks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Snapshot snapshot;
  PlaceOptions options;
  snapshot.environment = test::parse_environment_lines(text);
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty() && line[0] == '@') read_fact(line, snapshot, options);
  }
  try {
    check_promises(detect_allocation(snapshot, options));
  } catch (const Error&) {
  }
  return 0;
}
