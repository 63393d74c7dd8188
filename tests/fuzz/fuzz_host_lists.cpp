// Any text as hosts or numbers, the way schedulers, launchers and users write them: names or an Error, and a
// list of names survives compression.
#include <set>

#include "allocation/asked_tasks.hpp"
#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
#include "promise.hpp"

using namespace ddprun;
using fuzz::require;
using fuzz::try_to;

namespace {

void require_hosts(const std::vector<std::string>& hosts) {
  require(!hosts.empty() && hosts.size() <= allocation::k_max_hosts);
  for (const std::string& host : hosts) fuzz::require_printable(host);
}

void require_once(const std::vector<std::string>& hosts) {
  require_hosts(hosts);
  require(std::set<std::string>(hosts.begin(), hosts.end()).size() == hosts.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  try_to([&] {
    const auto hosts = allocation::expand_hostlist(text, "LIST");
    require(allocation::expand_hostlist(allocation::compress_hostlist(hosts), "LIST") == hosts);
  });
  try_to([&] { allocation::expand_counts(text, "COUNTS"); });
  try_to([&] {
    for (const int number : allocation::expand_numbers(text, "NUMBERS", 65535))
      require(number >= 0 && number <= 65535);
  });
  try_to([&] { require_hosts(allocation::expand_node_regex(text, "REGEX")); });
  try_to([&] {
    const allocation::NodeFile file = allocation::parse_node_file(text, "FILE");
    require_once(file.hosts);
    require(file.slots.size() == file.hosts.size());
  });
  try_to([&] { require_once(allocation::parse_hostfile(text, "--hostfile").hosts); });
  try_to([&] { require_once(allocation::parse_hosts(text, "--hosts")); });
  try_to([&] {
    const auto asked = allocation::parse_asked_tasks(text, "TASKS");
    require(allocation::parse_asked_tasks(allocation::write_asked_tasks(asked), "TASKS") == asked);
  });
  return 0;
}
