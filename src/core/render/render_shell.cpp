// render_shell: the variables as lines for the eval of a shell.
#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/expected_assignment.hpp"
#include "plan/ports.hpp"
#include "render/render_plan.hpp"

namespace ddprun::render {

namespace {

// Reports whether a shell accepts the name as a variable's; the environment may hold other names, which no
// shell can unset.
bool is_shell_name(const std::string& name) {
  static constexpr const char* k_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  const bool digit_first = !name.empty() && name[0] >= '0' && name[0] <= '9';
  return !name.empty() && !digit_first && name.find_first_not_of(k_letters) == std::string::npos;
}

// Returns the value that all readers of these lines agree on without meeting.
std::optional<std::string> first_candidate(const std::string& name, const plan::RendezvousPlan& rendezvous) {
  if (name == "MASTER_ADDR" && !rendezvous.addresses.value.empty()) return rendezvous.addresses.value.front();
  if (name != "MASTER_PORT") return std::nullopt;
  const std::vector<int>& ports = rendezvous.ports.value;
  return std::to_string(ports.empty() ? plan::make_port_sequence(rendezvous.key, 1).front() : ports.front());
}

}  // namespace

std::optional<allocation::Notice> find_missing_ranks(const plan::LaunchPlan& plan) {
  const int workers = static_cast<int>(plan.planned.size());
  if (workers < 2) return std::nullopt;
  const int rank = plan.planned.front().rank.value;
  return allocation::Notice{fmt::format("these are the variables of rank {} alone, one of {} on {}: a script "
                                        "that joins the others waits for them, and nothing starts them",
                                        rank, count_of(workers, "worker"), plan.node->host),
                            "to train, ddprun SCRIPT; for one process per host, --nproc-per-node 1; a script "
                            "that starts its processes itself (mp.spawn) needs neither"};
}

std::string render_shell(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  std::string lines;
  for (const auto& [change, open] : plan::expected_variables(plan, snapshot.environment, 0)) {
    if (!is_shell_name(change.name)) continue;
    std::optional<std::string> value =
        open.empty() ? change.value : first_candidate(change.name, plan.node->rendezvous);
    // No ddprun will be there to host the store.
    if (change.name == "TORCHELASTIC_USE_AGENT_STORE") value = "False";
    if (value) {
      lines += fmt::format("export {}={}\n", change.name, shell_quote(*value));
    } else if (open.empty()) {
      lines += fmt::format("unset {}\n", change.name);
    }
  }
  return lines;
}

}  // namespace ddprun::render
