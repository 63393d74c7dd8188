#include "commands/check_meeting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "check/record_fields.hpp"
#include "os/clock.hpp"

namespace ddprun::commands {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetNode, rank, host, address, port, word, workers)

namespace {

constexpr Milliseconds k_meeting{15000};   // until all workers are there
constexpr Milliseconds k_checking{25000};  // for a node's record

std::string key_of(const char* what, int number) { return fmt::format("ddprun-check/{}/{}", what, number); }
constexpr const char* k_nodes = "ddprun-check/nodes";
constexpr const char* k_again = "ddprun-check/again";
constexpr const char* k_deep = "ddprun-check/deep";
constexpr Milliseconds k_calling{120000};  // until the first part is over
constexpr Milliseconds k_measuring{190000};
constexpr const char* k_end = "ddprun-check/end";

std::string record_key(int rank, int round) { return key_of(round == 0 ? "record" : "again", rank); }

// Waits for a value that rank 0 sends to all.
template <class Value>
Value wait_for_word(net::StoreClient& store, const char* key, Milliseconds limit, const char* what) {
  const auto text = store.get(key, limit);
  if (!text) throw Error(fmt::format("rank 0 did not send {} within {}", what, describe_duration(limit)));
  return check::parse_json_text<Value>(*text);
}

// Asks for what is there already also when the time is over.
std::optional<std::string> get_until(net::StoreClient& store, const std::string& key, TimePoint deadline) {
  const auto left = std::chrono::ceil<Milliseconds>(deadline - os::now());
  return store.get(key, std::max(left, Milliseconds{1}));
}

// Adds a worker; several workers of one host are one node.
void add_worker(std::vector<MetNode>& nodes, const MetNode& worker) {
  auto node = std::ranges::find_if(nodes, [&](const MetNode& each) { return each.host == worker.host; });
  if (node == nodes.end()) node = nodes.insert(node, worker);
  ++node->workers;
}

}  // namespace

CheckMeeting::CheckMeeting(int rank, int world, const std::string& address, int port)
    : rank_(rank), world_(world) {
  if (world > 1) store_.emplace(address, port);
}

std::string CheckMeeting::local_address() const { return store_ ? store_->local_address() : std::string(); }

std::vector<MetNode> CheckMeeting::meet(const MetNode& own, std::vector<int>& missing) {
  std::vector<MetNode> nodes;
  add_worker(nodes, own);
  if (!store_) return nodes;
  if (rank_ != 0) {
    store_->set(key_of("worker", rank_), check::render_json_text(own));
    return wait_for_word<std::vector<MetNode>>(*store_, k_nodes, 2 * k_meeting, "the list of nodes");
  }
  const TimePoint deadline = os::now() + k_meeting;
  for (int rank = 1; rank < world_; ++rank) {
    const auto told = get_until(*store_, key_of("worker", rank), deadline);
    told ? add_worker(nodes, check::parse_json_text<MetNode>(*told)) : missing.push_back(rank);
  }
  store_->set(k_nodes, check::render_json_text(nodes));
  return nodes;
}

void CheckMeeting::give(const check::HostRecord& record, int round) {
  if (store_) store_->set(record_key(rank_, round), check::render_json_text(record));
}

std::vector<check::HostRecord> CheckMeeting::collect(const std::vector<MetNode>& nodes, int round,
                                                     std::vector<std::string>& silent) {
  std::vector<check::HostRecord> records;
  const TimePoint deadline = os::now() + k_checking;
  for (const MetNode& node : nodes) {
    if (node.rank == rank_) continue;
    const auto told = get_until(*store_, record_key(node.rank, round), deadline);
    told ? records.push_back(check::parse_json_text<check::HostRecord>(*told)) : silent.push_back(node.host);
  }
  return records;
}

void CheckMeeting::ask_again(const std::vector<int>& ranks) {
  if (store_) store_->set(k_again, check::render_json_text(ranks));
}

std::vector<int> CheckMeeting::asked_again() {
  return wait_for_word<std::vector<int>>(*store_, k_again, 2 * k_checking,
                                         "the list of ranks to measure again");
}

void CheckMeeting::wait_for(int rank, int round) { store_->get(record_key(rank, round), k_checking); }

void CheckMeeting::call_deep(bool go) {
  if (store_) store_->set(k_deep, go ? "go" : "no");
}

bool CheckMeeting::called_deep() { return store_->get(k_deep, k_calling) == "go"; }

void CheckMeeting::give_deep(const check::DeepResult& result) {
  store_->set(key_of("deep", rank_), check::render_json_text(result));
}

std::vector<check::DeepResult> CheckMeeting::collect_deep() {
  std::vector<check::DeepResult> results;
  const TimePoint deadline = os::now() + k_measuring;
  for (int rank = 1; rank < world_; ++rank) {
    const auto told = get_until(*store_, key_of("deep", rank), deadline);
    check::DeepResult none;
    none.rank = rank;
    none.error = "gave no result";
    results.push_back(told ? check::parse_json_text<check::DeepResult>(*told) : none);
  }
  return results;
}

void CheckMeeting::end() {
  if (store_) store_->set(k_end, "");
}

void CheckMeeting::wait_for_end() { store_->get(k_end, 2 * k_checking); }

}  // namespace ddprun::commands
