// Any environment on any host, of every scheduler and launcher: an allocation that fits itself, or an Error.
// Lines are NAME=value; "@host X", "@ancestor X", "@cgroup X" and "@standalone", "@nnodes N", "@node-rank N",
// "@nproc N", "@address X", "@port N", "@id X", "@scheduler X", "@hosts LIST" are the rest; "@file X" begins
// the contents of a file, X being its path or the variable that has it, and "@end" ends them.
#include <algorithm>

#include "allocation/detection/detect.hpp"
#include "allocation/detection/started.hpp"
#include "environment_lines.hpp"
#include "promise.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

void read_fact(const std::string& line, facts::Snapshot& snapshot, allocation::PlaceOptions& options) {
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, blank);
  const std::string value = blank == line.size() ? "" : line.substr(blank + 1);
  // The command line takes no less.
  const auto number = [&](int least) {
    return sourced(std::max(least, static_cast<int>(parse_integer(value).value_or(1) % 1000000)), name);
  };
  if (name == "@host") snapshot.host.name = value;
  if (name == "@ancestor") snapshot.host.ancestors.push_back({1, value});
  if (name == "@cgroup") snapshot.host.cgroup = value;
  if (name == "@standalone") options.standalone = true;
  if (name == "@nnodes") options.nodes = number(1);
  if (name == "@node-rank") options.node_rank = number(0);
  if (name == "@nproc") options.workers_per_node = number(1);
  if (name == "@port") options.port = number(1);
  if (name == "@address") options.address = sourced(value, name);
  if (name == "@id") options.run_id = sourced(value, name);
  if (name == "@scheduler") options.scheduler = sourced(value, name);
  if (name == "@hosts") options.hosts = sourced(allocation::parse_hosts(value, name), name);
}

void read_lines(const std::string& text, facts::Snapshot& snapshot, allocation::PlaceOptions& options) {
  snapshot.environment = test::parse_environment_lines(text);
  std::string* file = nullptr;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("@file ")) {
      const std::string name = line.substr(6);
      file =
          &snapshot.files[name.starts_with('/') ? name : facts::find_variable(snapshot, name).value_or(name)];
    } else if (line == "@end") {
      file = nullptr;
    } else if (file != nullptr) {
      *file += line + "\n";
    } else if (line.starts_with('@')) {
      read_fact(line, snapshot, options);
    }
  }
}

void check_promises(const allocation::Allocation& allocation) {
  require(!allocation::launch_key(allocation).empty());
  const std::vector<allocation::Host>& hosts = allocation.hosts.value;
  const int node = allocation.node_index.value.value_or(NodeIndex{-1}).value;
  // A launcher's numbers may be all that is known: then there are no hosts.
  require(node >= -1 && (hosts.empty() || node < static_cast<int>(hosts.size())));
  require(allocation.task_rank.value >= 0 && allocation.task_local.value.value >= 0);
  require(allocation.task_count.value >= 1 && allocation.tasks_here.value >= 0);
  for (const allocation::Notice& notice : allocation.notices) require(!notice.what.empty());
  if (allocation.style.value == allocation::LaunchStyle::not_started) return require(!hosts.empty());
  require(allocation.task_rank.value < allocation.task_count.value);
  if (node < 0 || hosts.empty()) return;
  const int tasks = hosts[static_cast<std::size_t>(node)].tasks;
  require(tasks == 0 || allocation.task_local.value.value < tasks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::try_to([&] {
    facts::Snapshot snapshot;
    allocation::PlaceOptions options;
    read_lines(fuzz::text_of(data, size), snapshot, options);
    check_promises(allocation::detect_allocation(snapshot, options));
  });
  return 0;
}
