#include "programs/replicas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace ddprun::programs {

namespace {

// Returns the words for the ddprun of one replica: its files do not mix with those of the others.
std::vector<std::string> own_words(const Program& replica) {
  const std::string number = std::to_string(replica.replica);
  std::vector<std::string> words = replica.words;
  const auto command = std::ranges::find(words, "--");
  std::for_each(words.begin(), command, [&](std::string& word) {
    if (word.starts_with("--logs=") || word.starts_with("--log-dir=")) word += "/" + number;
    if (word.starts_with("--report=") || word.starts_with("--metrics=")) word += "." + number;
    const std::size_t rank = word.starts_with("--label=") ? word.find("{rank}") : std::string::npos;
    if (rank != std::string::npos) word.replace(rank, std::string_view("{rank}").size(), number);
  });
  words.insert(command, {"--nnodes=1", "--nproc-per-node=1", fmt::format("--env=RANK={}", number),
                         fmt::format("--env=WORLD_SIZE={}", replica.replicas),
                         fmt::format("--rdzv-id={}-{}", replica.name, number)});
  return words;
}

Program make_replica(const Program& program, const Share& share, int number, int count, int on_node) {
  Program replica = program;
  replica.replica = number;
  replica.replicas = count;
  replica.workers = 1;
  replica.gpus = static_cast<int>(share.gpus.size()) / share.workers;
  if (const auto port = parse_integer(program.ready)) replica.ready = std::to_string(*port + on_node);
  replica.words = own_words(replica);
  return replica;
}

Shown& find_shown(std::vector<Shown>& table, const std::string& name) {
  return *std::ranges::find(table, name, &Shown::name);
}

void add(PlacedPrograms& placed, Program program, std::vector<int> nodes, int ranks) {
  placed.programs.push_back(std::move(program));
  placed.nodes.push_back(std::move(nodes));
  placed.ranks.push_back(ranks);
}

}  // namespace

PlacedPrograms place_programs(const std::vector<Program>& programs, const std::vector<JobNode>& nodes) {
  std::vector<std::string> hosts;
  for (const JobNode& node : nodes) hosts.push_back(node.host);
  const auto nodes_of = place(programs, hosts);
  std::vector<std::map<std::size_t, Share>> shares;
  for (std::size_t node = 0; node < nodes.size(); ++node)
    shares.push_back(
        share_node(programs, nodes_of, static_cast<int>(node), nodes[node].host, {}, nodes[node].gpus));
  const auto share = [&](int node, std::size_t program) -> const Share& {
    return shares[static_cast<std::size_t>(node)].at(program);
  };
  PlacedPrograms placed;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    int ranks = 0, number = 0;
    for (const int node : nodes_of[i]) ranks += share(node, i).workers;
    if (!programs[i].independent) {
      add(placed, programs[i], nodes_of[i], ranks);
      continue;
    }
    for (const int node : nodes_of[i]) {
      for (int on_node = 0; on_node < share(node, i).workers; ++on_node)
        add(placed, make_replica(programs[i], share(node, i), number++, ranks, on_node), {node}, 1);
    }
  }
  return placed;
}

std::string name_of(const Program& program) {
  return program.replica < 0 ? program.name : fmt::format("{} {}", program.name, program.replica);
}

std::vector<Shown> make_table(const PlacedPrograms& placed, const std::vector<JobNode>& nodes) {
  std::vector<Shown> table;
  for (std::size_t i = 0; i < placed.programs.size(); ++i) {
    const Program& program = placed.programs[i];
    if (table.empty() || table.back().name != program.name)
      table.push_back({program.name, {}, {}, {}, 0, "waiting", 0, {}});
    Shown& shown = table.back();
    shown.ranks += placed.ranks[i];
    for (const int number : placed.nodes[i]) {
      const JobNode& node = nodes[static_cast<std::size_t>(number)];
      const auto port = parse_integer(program.ready);
      if (program.replica >= 0)
        shown.replicas.push_back(
            {program.replica, node.address, static_cast<int>(port.value_or(0)), "waiting", 0});
      if (std::ranges::find(shown.addresses, node.address) != shown.addresses.end()) continue;
      shown.hosts.push_back(node.host);
      shown.addresses.push_back(node.address);
    }
  }
  return table;
}

void update_table(std::vector<Shown>& table, const std::vector<Program>& programs,
                  const std::vector<ProgramState>& states) {
  constexpr const char* k_order[] = {"ended", "waiting", "running", "ready"};  // the last of them counts
  const auto rank_of = [&](const std::string& state) { return std::ranges::find(k_order, state); };
  for (Shown& shown : table) {
    shown.ready.clear();
    shown.state = k_order[0];
    shown.attempt = 0;
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    Shown& shown = find_shown(table, programs[i].name);
    const ProgramState& now = states[i];
    if (rank_of(now.state) > rank_of(shown.state)) shown.state = now.state;
    shown.attempt += now.attempt;
    for (const std::string& address : now.ready) {
      if (std::ranges::find(shown.ready, address) == shown.ready.end()) shown.ready.push_back(address);
    }
    if (programs[i].replica < 0) continue;
    ShownReplica& replica = shown.replicas[static_cast<std::size_t>(programs[i].replica)];
    replica.state = now.state;
    replica.attempt = now.attempt;
  }
}

}  // namespace ddprun::programs
