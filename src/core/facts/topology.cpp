#include "facts/topology.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::facts {

namespace {

// Takes hexadecimal digits and the separator behind them from the front of `text`.
std::optional<unsigned> take_hexadecimal(std::string_view& text, std::size_t most_digits, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view digits = text.substr(0, end);
  if (end == std::string_view::npos || digits.empty() || digits.size() > most_digits) return std::nullopt;
  unsigned value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  text.remove_prefix(end + 1);
  return value;
}

}  // namespace

Topology make_flat_topology(const std::vector<int>& cpus) {
  Topology topology;
  topology.source = "affinity mask alone";
  for (const int cpu : cpus) topology.cores.push_back({{cpu}, 0, 0, 0});
  topology.nodes.push_back({0, cpus, 0});
  return topology;
}

std::vector<int> all_cpus(const Topology& topology) {
  std::vector<int> cpus;
  for (const Core& core : topology.cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::ranges::sort(cpus);
  return cpus;
}

std::string normal_pci_address(const std::string& address) {
  const std::string ended = address + ".";
  std::string_view rest = ended;
  const auto colons = std::ranges::count(address, ':');
  const auto domain = colons == 2 ? take_hexadecimal(rest, 8, ':') : std::optional(0U);
  const auto bus = take_hexadecimal(rest, 2, ':');
  const auto device = take_hexadecimal(rest, 2, '.');
  const auto function = take_hexadecimal(rest, 1, '.');
  if (!domain || !bus || !device || !function || !rest.empty()) return address;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", *domain, *bus, *device, *function);
}

namespace {

constexpr std::size_t k_most = 4096;  // NUMA nodes; GPUs and network cards
constexpr int k_most_parts = 64;
constexpr std::size_t k_topology_limit = 4 << 20;
// Distance above any in a SLIT (255 is "unreachable") and far below overflow.
constexpr int k_farthest = 65535;

bool same_place(const Core& a, const Core& b) {
  return std::tie(a.package, a.node, a.cache, a.kind) == std::tie(b.package, b.node, b.cache, b.kind);
}

// Renders a row for each run of cores at the same place: {"package", "node", "cache", "cores": "0,64 1,65"}.
OrderedJson render_cores(const std::vector<Core>& cores) {
  OrderedJson rows = OrderedJson::array();
  for (std::size_t i = 0; i < cores.size();) {
    std::vector<std::string> lists;
    std::size_t end = i;
    for (; end < cores.size() && same_place(cores[i], cores[end]); ++end)
      lists.push_back(render_cpu_list(cores[end].cpus));
    OrderedJson row;
    row["package"] = cores[i].package;
    row["node"] = cores[i].node;
    row["cache"] = cores[i].cache;
    if (cores[i].kind != 0) row["kind"] = cores[i].kind;
    row["cores"] = join(lists, " ");
    rows.push_back(std::move(row));
    i = end;
  }
  return rows;
}

constexpr std::array<std::pair<const char*, CardLink>, 3> k_links{
    {{"infiniband", CardLink::infiniband}, {"ethernet", CardLink::ethernet}, {"down", CardLink::down}}};

OrderedJson render_device(const PciDevice& device) {
  OrderedJson row;
  row["kind"] = device.kind == DeviceKind::gpu ? "gpu" : "network";
  row["address"] = escape_bytes(device.address);
  if (!device.names.empty()) row["names"] = escape_bytes(join(device.names, " "));
  if (!device.path.empty()) row["path"] = escape_bytes(join(device.path, " "));
  if (!device.cpus.empty()) row["cpus"] = render_cpu_list(device.cpus);
  if (!device.vendor.empty()) row["vendor"] = escape_bytes(device.vendor);
  if (!device.model.empty()) row["model"] = escape_bytes(device.model);
  if (device.parts != 1) row["parts"] = device.parts;
  if (!device.rdma.empty()) row["rdma"] = escape_bytes(device.rdma);
  for (const auto& [word, link] : k_links) {
    if (link == device.link) row["link"] = word;
  }
  return row;
}

std::optional<std::vector<std::vector<int>>> parse_core_lists(const std::string& text) {
  std::vector<std::vector<int>> cores;
  for (const std::string& word : split_words(text)) {
    auto cpus = parse_cpu_list(word);
    if (!cpus || cpus->empty()) return std::nullopt;
    cores.push_back(std::move(*cpus));
  }
  return cores;
}

std::optional<std::vector<int>> parse_distances(const std::string& text) {
  std::vector<int> row;
  for (const std::string& word : split_words(text)) {
    const auto number = parse_integer(word);
    if (!number || *number < 0 || *number > k_farthest) return std::nullopt;
    row.push_back(static_cast<int>(*number));
  }
  return row;
}

std::optional<DeviceKind> parse_kind(const std::string& text) {
  if (text == "gpu") return DeviceKind::gpu;
  if (text == "network") return DeviceKind::network;
  return std::nullopt;
}

std::optional<CardLink> parse_link(const std::string& text) {
  for (const auto& [word, link] : k_links) {
    if (text == word) return link;
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> parse_words(const std::string& text) { return split_words(text); }

// Reads one topology; what it learns on the way is what the later keys are checked against.
class TopologyReader {
 public:
  explicit TopologyReader(JsonReader object) : object_(std::move(object)) {}

  Topology read() {
    object_.read("source", topology_.source);
    object_.read("host", topology_.host);
    object_.read_number("packages", topology_.packages, 1, k_highest_cpu + 1);
    read_nodes();
    read_cores();
    read_distances();
    read_devices();
    object_.read_as("allowed", topology_.allowed, parse_cpu_list, k_cpu_list);
    object_.finish();
    check_known(topology_.allowed, object_.name("allowed"));
    check_node_cpus();
    return std::move(topology_);
  }

 private:
  void limit(std::size_t size, const char* key) const {
    if (size >= k_most) object_.fail(object_.name(key), fmt::format("has more than {} entries", k_most));
  }

  void read_nodes() {
    object_.each("nodes", [&](const Json& value, const std::string& where) {
      limit(topology_.nodes.size(), "nodes");
      JsonReader row = object_.element(value, where);
      MemoryNode node;
      row.read_number("number", node.number, 0, k_highest_cpu);
      row.read_as("cpus", node.cpus, parse_cpu_list, k_cpu_list);
      row.read_number("bytes", node.bytes);
      row.finish();
      if (!topology_.nodes.empty() && topology_.nodes.back().number >= node.number)
        object_.fail(where + ".number", "must be above the one before it");
      topology_.nodes.push_back(std::move(node));
    });
    if (topology_.nodes.empty()) object_.fail(object_.name("nodes"), "must list one NUMA node or more");
  }

  void read_cores() {
    const int last_node = static_cast<int>(topology_.nodes.size()) - 1;
    object_.each("cores", [&](const Json& value, const std::string& where) {
      JsonReader row = object_.element(value, where);
      Core core;
      std::vector<std::vector<int>> lists;
      row.read_number("package", core.package, 0, topology_.packages - 1);
      row.read_number("node", core.node, 0, last_node);
      row.read_number("cache", core.cache, 0, k_highest_cpu);
      row.read_number("kind", core.kind, 0, k_highest_cpu);
      row.read_as("cores", lists, parse_core_lists, "the CPUs of each core such as 0,64 1,65");
      row.finish();
      for (std::vector<int>& cpus : lists) {
        for (const int cpu : cpus) claim(cpu, where);
        core.cpus = std::move(cpus);
        topology_.cores.push_back(core);
      }
    });
    if (topology_.cores.empty()) object_.fail(object_.name("cores"), "must list one core or more");
    std::ranges::sort(topology_.cores, [](const Core& a, const Core& b) {
      return std::tie(a.package, a.node, a.cache, a.cpus) < std::tie(b.package, b.node, b.cache, b.cpus);
    });
  }

  void claim(int cpu, const std::string& where) {
    if (!cpus_.insert(cpu).second)
      object_.fail(where + ".cores", fmt::format("holds CPU {}, which another core has", cpu));
  }

  void check_known(const std::vector<int>& cpus, const std::string& where) const {
    for (const int cpu : cpus) {
      if (!cpus_.contains(cpu)) object_.fail(where, fmt::format("holds CPU {}, which no core has", cpu));
    }
  }

  void check_node_cpus() const {
    for (std::size_t i = 0; i < topology_.nodes.size(); ++i)
      check_known(topology_.nodes[i].cpus, fmt::format("{}[{}].cpus", object_.name("nodes"), i));
  }

  void read_distances() {
    const std::size_t count = topology_.nodes.size();
    const auto fail = [&] {
      object_.fail(object_.name("distances"),
                   fmt::format("must be {0} rows of {0} numbers such as \"10 21\"", count));
    };
    std::vector<std::string> rows;
    object_.read("distances", rows);
    for (const std::string& text : rows) {
      auto row = parse_distances(text);
      if (!row || row->size() != count) fail();
      topology_.distances.push_back(std::move(*row));
    }
    if (!rows.empty() && rows.size() != count) fail();
  }

  void read_devices() {
    object_.each("devices", [&](const Json& value, const std::string& where) {
      limit(topology_.devices.size(), "devices");
      JsonReader row = object_.element(value, where);
      PciDevice device;
      row.read_as("kind", device.kind, parse_kind, "gpu or network");
      row.read("address", device.address);
      row.read_as("names", device.names, parse_words, "words");
      row.read_as("path", device.path, parse_words, "words");
      row.read_as("cpus", device.cpus, parse_cpu_list, k_cpu_list);
      row.read("vendor", device.vendor);
      row.read("model", device.model);
      row.read_number("parts", device.parts, 1, k_most_parts);
      row.read("rdma", device.rdma);
      row.read_as("link", device.link, parse_link, "infiniband, ethernet or down");
      row.finish();
      device.address = normal_pci_address(device.address);
      check_known(device.cpus, where + ".cpus");
      topology_.devices.push_back(std::move(device));
    });
    std::ranges::stable_sort(topology_.devices,
                             [](const PciDevice& a, const PciDevice& b) { return a.address < b.address; });
  }

  JsonReader object_;
  Topology topology_;
  std::set<int> cpus_;
};

}  // namespace

OrderedJson render_topology_object(const Topology& topology) {
  OrderedJson object;
  object["source"] = escape_bytes(topology.source);
  if (!topology.host.empty()) object["host"] = escape_bytes(topology.host);
  object["packages"] = topology.packages;
  object["nodes"] = OrderedJson::array();
  for (const MemoryNode& node : topology.nodes) {
    OrderedJson row;
    row["number"] = node.number;
    row["cpus"] = render_cpu_list(node.cpus);
    row["bytes"] = node.bytes;
    object["nodes"].push_back(std::move(row));
  }
  object["cores"] = render_cores(topology.cores);
  if (!topology.distances.empty()) object["distances"] = OrderedJson::array();
  for (const std::vector<int>& row : topology.distances)
    object["distances"].push_back(fmt::format("{}", fmt::join(row, " ")));
  if (!topology.allowed.empty()) object["allowed"] = render_cpu_list(topology.allowed);
  if (!topology.devices.empty()) object["devices"] = OrderedJson::array();
  for (const PciDevice& device : topology.devices) object["devices"].push_back(render_device(device));
  return object;
}

Topology read_topology(JsonReader object) { return TopologyReader(std::move(object)).read(); }

std::string render_topology(const Topology& topology) {
  return render_topology_object(topology).dump(2) + "\n";
}

Topology parse_topology(const std::string& json, const std::string& source) {
  const JsonSource named{fmt::format("the topology {}", printable(source)), k_topology_forms};
  if (json.size() > k_topology_limit)
    named.refuse(fmt::format("it is larger than {} MiB", k_topology_limit >> 20));
  const Json file = parse_strictly(json, named);
  return read_topology(JsonReader(file, named, ""));
}

}  // namespace ddprun::facts
