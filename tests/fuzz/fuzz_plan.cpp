// The whole way from a captured snapshot to what --dry-run prints: a plan that fits itself, or an Error, in
// bounded memory. The input is a line of options ("nnodes=2 node-rank=1 nproc=gpu ...") and the snapshot's
// JSON.
#include <algorithm>

#include "plan/finalise.hpp"
#include "plan_node.hpp"
#include "promise.hpp"
#include "render/render_plan.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

Sourced<int> number_of(const std::string& value, const std::string& name) {
  return sourced(static_cast<int>(parse_integer(value).value_or(1) % 1000000), name);
}

void read_option(const std::string& word, options::Options& options) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, equals);
  const std::string value = equals == word.size() ? "" : word.substr(equals + 1);
  if (name == "nnodes") options.place.nodes = number_of(value, name);
  if (name == "node-rank") options.place.node_rank = number_of(value, name);
  if (name == "port") options.place.port = number_of(value, name);
  if (name == "address") options.place.address = sourced(value, name);
  if (name == "id") options.place.run_id = sourced(value, name);
  if (name == "local-addr") options.local_address = sourced(value, name);
  if (name == "role") options.role = sourced(value, name);
  if (name == "standalone") options.place.standalone = true;
  if (name == "virtual") options.virtual_local_rank = true;
  if (name == "module") options.module = true;
  if (name == "no-python") options.no_python = true;
  if (name == "store") options.store = options::StoreHost::worker;
  if (name == "nproc") {
    options.workers = options::parse_workers_per_node(value, name);
    if (options.workers.kind == options::WorkersKind::number)
      options.place.workers_per_node = sourced(options.workers.number, name);
  }
  if (equals == word.size()) options.command.push_back(word);
}

void check_promises(const plan::LaunchPlan& plan) {
  require(plan.node->workers.value >= 1 && plan.node->workers.value <= options::k_max_workers);
  require(plan.planned.size() == static_cast<std::size_t>(plan.node->workers.value));
  require(plan.node->rendezvous.agents >= 1 && plan.node->rendezvous.agents <= plan::k_max_agents);
  require(plan.node->rendezvous.agent.value >= 0 &&
          plan.node->rendezvous.agent.value < plan.node->rendezvous.agents);
  require(plan.node->world_size.value >= 1 && plan.node->world_size.value <= plan::k_max_world);
  for (const plan::PlannedWorker& worker : plan.planned)
    require(worker.rank.value >= 0 && worker.rank.value < plan.node->world_size.value);
  if (plan.node->rendezvous.agents > 1) {
    require(!plan.node->rendezvous.addresses.value.empty() && !plan.node->rendezvous.ports.value.empty());
  }
}

void check_text(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const auto columns = std::count_if(
        line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
    require(columns <= 100);
    require(printable(line, line.size()) == line);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(data, data + size);
  const std::size_t end = std::min(input.find('\n'), input.size());
  fuzz::try_to([&] {
    options::Options options;
    for (const std::string& word : split_words(input.substr(0, end))) read_option(word, options);
    const facts::Snapshot snapshot = facts::parse_snapshot(input.substr(end), "fuzz");
    const plan::LaunchPlan plan = test::plan_node(snapshot, options);
    check_promises(plan);
    check_text(render::render_text(plan, snapshot));
    if (static_cast<std::size_t>(plan.node->workers.value) * (1 + options.command.size()) < 1000)
      render::render_json(plan, snapshot);
    render::render_shell(plan, snapshot);
  });
  return 0;
}
