#include "slow/trace.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "base/json_fields.hpp"
#include "base/json_text.hpp"
#include "status/flight_record.hpp"
#include "status/json_values.hpp"

namespace ddprun::slow {

namespace {

using Json = nlohmann::json;
using status::flag_in, status::list_in, status::number_in;

constexpr std::int64_t k_farthest = 1'800'000'000;  // microseconds from the base: fits into an int

Role role_of(const Json& entry, const std::string& operation) {
  if (flag_in(entry, "is_p2p")) return Role::sends;
  for (const char* const name : {"all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter",
                                 "all_to_all", "alltoall", "barrier"}) {
    if (operation.find(name) != std::string::npos) return Role::meets;
  }
  return operation == "send" || operation.starts_with("recv") ? Role::sends : Role::other;
}

// Returns a number that is the same on all hosts (FNV-1a). Input sizes may differ between the ranks of an
// all_to_all: they name the collective of one rank only.
int signature_of(const Json& entry, const std::string& operation) {
  std::uint32_t hash = 2166136261;
  for (const char c : operation + list_in(entry, "input_sizes").dump())
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return static_cast<int>(hash & 0x7fffffff);
}

// Returns what the GPU's clock says: torch notes it of NCCL with TORCH_NCCL_ENABLE_TIMING=1.
int took_in(const Json& entry) {
  const auto took = entry.find("duration_ms");
  const double time = took != entry.end() && took->is_number() ? took->get<double>() * 1000 : 0;
  return time >= 1 && time <= k_farthest ? static_cast<int>(time) : 0;
}

int index_of(std::vector<std::string>& groups, const std::string& name) {
  const auto index = std::ranges::find(groups, name) - groups.begin();
  if (std::cmp_equal(index, groups.size()) && groups.size() < k_most_groups) groups.push_back(name);
  return static_cast<int>(index);
}

void describe_rank(OrderedFields& fields, RankTrace& rank) {
  fields.value("rank", rank.rank);
  fields.rows("entries", rank.entries, k_most_entries, [](Entry& entry) {
    return std::vector{&entry.group, &entry.role, &entry.sequence, &entry.signature, &entry.at, &entry.took};
  });
}

constexpr std::size_t k_most_address = 64;

void describe_connection(OrderedFields& fields, Connection& connection) {
  fields.value("peer", connection.peer, k_most_address);
  fields.value("id", connection.id);
  fields.value("acked", connection.acked);
  fields.value("resent", connection.resent);
  fields.value("busy", connection.busy);
  fields.value("round_trip", connection.round_trip);
  fields.value("segment", connection.segment);
}

void describe_link(OrderedFields& fields, LinkUse& link) {
  fields.value("peer", link.peer, k_most_address);
  fields.value("sent", link.sent);
  fields.value("resent", link.resent);
  fields.value("busy", link.busy);
  fields.value("span", link.span, std::int64_t{1}, std::numeric_limits<std::int64_t>::max());
  fields.value("filled", link.filled);
}

void describe_trace(OrderedFields& fields, NodeTrace& trace) {
  fields.value("base", trace.base, std::numeric_limits<std::int64_t>::min() / 4,
               std::numeric_limits<std::int64_t>::max() / 4);
  fields.value("bound", trace.bound);
  fields.value("step", trace.step);
  fields.value("groups", trace.groups, k_most_groups);
  fields.value("ranks", trace.ranks, k_most_ranks, describe_rank);
  fields.optional("connections", trace.connections, k_most_connections, describe_connection);
  fields.optional("link", trace.link, describe_link);
  for (const RankTrace& rank : trace.ranks) {
    fields.check(std::ranges::all_of(rank.entries,
                                     [&](const Entry& entry) {
                                       return std::cmp_less(entry.group, trace.groups.size()) &&
                                              entry.role <= static_cast<int>(Role::other);
                                     }),
                 "ranks", "have an unknown group or role");
  }
}

}  // namespace

void add_flight_record(NodeTrace& node, int rank, std::string_view text) {
  const Json json = read_json_text(text);
  std::vector<const Json*> entries = status::entries_in(json);
  std::erase_if(entries, [](const Json* entry) { return number_in(*entry, "time_created_ns") == 0; });
  if (entries.empty() || node.ranks.size() == k_most_ranks) return;
  if (node.base == 0) node.base = number_in(*entries.front(), "time_created_ns") / 1000 - k_farthest / 2;
  RankTrace trace{rank, {}};
  for (const Json* const each : entries) {
    const std::string operation = status::operation_in(*each);
    const Role role = role_of(*each, operation);
    const std::int64_t at = number_in(*each, "time_created_ns") / 1000 - node.base;
    const int group = index_of(node.groups, status::process_group_in(*each));
    if (at < 0 || at > k_farthest || std::cmp_equal(group, k_most_groups)) continue;
    trace.entries.push_back({group, static_cast<int>(role),
                             number_in<int>(*each, role == Role::sends ? "p2p_seq_id" : "collective_seq_id"),
                             signature_of(*each, operation), static_cast<int>(at), took_in(*each)});
  }
  node.ranks.push_back(std::move(trace));
}

namespace {

constexpr double k_segments_under_way = 4, k_much_resent = 0.01, k_least_rate = 64 << 10;  // bytes a second

// `use` is that of the time in which the connection has come to what it is `now`.
bool is_filled(const LinkUse& use, const Connection& now) {
  const auto sent = static_cast<double>(use.sent);
  const double under_way = use.busy > 0 ? sent / static_cast<double>(use.busy) * now.round_trip : 0;
  return under_way >= k_segments_under_way * now.segment ||
         static_cast<double>(use.resent) >= k_much_resent * sent;
}

bool has_sent_enough(const LinkUse& use) {
  return use.span > 0 && static_cast<double>(use.sent) * 1e6 >= k_least_rate * static_cast<double>(use.span);
}

}  // namespace

std::optional<LinkUse> find_busiest(const std::vector<Connection>& before, const std::vector<Connection>& now,
                                    std::int64_t span) {
  std::map<std::int64_t, const Connection*> known;
  for (const Connection& connection : before) known[connection.id] = &connection;
  std::optional<LinkUse> busiest;
  for (const Connection& connection : now) {
    const auto found = known.find(connection.id);
    if (found == known.end()) continue;
    const Connection& old = *found->second;
    LinkUse use{connection.peer, connection.acked - old.acked, connection.resent - old.resent,
                connection.busy - old.busy, span};
    const bool is_other = old.peer != connection.peer || use.sent < 0 || use.resent < 0 || use.busy < 0;
    if (is_other || !has_sent_enough(use)) continue;
    use.filled = is_filled(use, connection);
    if (!busiest || std::pair(use.filled, use.busy) > std::pair(busiest->filled, busiest->busy))
      busiest = use;
  }
  return busiest;
}

void shorten(NodeTrace& node, std::size_t most) {
  for (RankTrace& rank : node.ranks) {
    const std::size_t excess = rank.entries.size() - std::min(rank.entries.size(), most);
    rank.entries.erase(rank.entries.begin(), rank.entries.begin() + static_cast<std::ptrdiff_t>(excess));
  }
}

// Leaves ranks out of a trace that is too long.
std::string render_trace(const NodeTrace& trace) {
  std::string text = write_json_text(write_fields(trace, describe_trace));
  NodeTrace part = trace;
  while (text.size() > k_max_trace && !part.ranks.empty()) {
    part.ranks.resize(part.ranks.size() / 2);
    text = write_json_text(write_fields(part, describe_trace));
  }
  return text;
}

std::optional<NodeTrace> parse_trace(std::string_view text) {
  return read_fields<NodeTrace>(read_ordered_json_text(text), describe_trace);
}

}  // namespace ddprun::slow
