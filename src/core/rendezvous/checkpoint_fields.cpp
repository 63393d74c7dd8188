// Fields of what messages tell of checkpoints.
#include <algorithm>
#include <limits>

#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator_place.hpp"
#include "rendezvous/message_fields.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr std::int64_t k_last_rank = k_max_processes - 1;
constexpr std::size_t k_max_kept = 4;  // steps

struct PartRow {
  std::int64_t step = 0, rank = 0, world = 0, bytes = 0, replica = 0;
};

void describe_parts(Fields& fields, std::vector<checkpoint::Part>& parts) {
  if (!fields.has("parts", !parts.empty())) return;
  const std::size_t left_out = parts.size() - std::min(parts.size(), k_max_parts);
  std::vector<PartRow> rows;
  for (std::size_t i = left_out; i < parts.size(); ++i) {
    const checkpoint::Part& part = parts[i];
    rows.push_back(
        {part.step, part.rank, part.world, static_cast<std::int64_t>(part.bytes), part.replica ? 1 : 0});
  }
  fields.rows("parts", rows, k_max_parts, [](PartRow& row) {
    return std::vector{&row.step, &row.rank, &row.world, &row.bytes, &row.replica};
  });
  parts.clear();
  for (const PartRow& row : rows) {
    const bool valid = row.rank < row.world && row.world <= k_max_processes && row.replica <= 1;
    if (!fields.check(valid, "parts", "have an invalid row")) return;
    parts.push_back({row.step, static_cast<int>(row.rank), static_cast<int>(row.world),
                     static_cast<std::uint64_t>(row.bytes), row.replica == 1});
  }
}

void describe_ranks(Fields& fields, const char* name, std::vector<int>& ranks, std::size_t limit) {
  if (fields.has(name, !ranks.empty())) fields.value(name, ranks, limit);
  fields.check(std::ranges::all_of(ranks, [](int rank) { return rank <= k_last_rank; }), name,
               "are out of range");
}

void describe_holder(Fields& fields, checkpoint::Holder& holder) {
  fields.value("server", holder.server, describe_server);
  describe_ranks(fields, "ranks", holder.ranks, k_max_parts);
}

}  // namespace

void describe_server(Fields& fields, staging::Server& server) {
  fields.value("host", server.host);
  fields.value("door", server.door);
  fields.value("addresses", server.addresses, k_max_addresses);
  fields.check(std::ranges::all_of(server.addresses, is_address), "addresses", "are not numeric");
}

void describe_held(Fields& fields, checkpoint::Held& held) {
  describe_parts(fields, held.parts);
  fields.optional("flushed", held.flushed);
  describe_ranks(fields, "flushed_ranks", held.flushed_ranks, k_max_parts);
  fields.optional("published", held.published);
  fields.optional("published_world", held.published_world, 0, k_max_processes);
  fields.unless(-1, "attempt", held.attempt);
  fields.unless(std::int64_t{-1}, "begun_from", held.begun_from);
}

void describe_restore(Fields& fields, checkpoint::Restore& restore) {
  fields.value("step", restore.step);
  fields.value("world", restore.world, 1, k_max_processes);
  fields.optional("from_flush", restore.from_flush);
  fields.unless(true, "own", restore.own);
  if (!fields.has("holders", !restore.holders.empty())) return;
  fields.value("holders", restore.holders, k_max_holders, describe_holder);
  fields.drop_longer("holders", k_max_holder_bytes);
}

void describe_order(Fields& fields, checkpoint::Order& order) {
  fields.optional("copy_from", order.copy_from, describe_server);
  if (fields.has("complete", !order.complete.empty()))
    fields.value("complete", order.complete, k_max_kept, 0);
  fields.optional("flush", order.flush);
  fields.optional("flush_world", order.flush_world, 0, k_max_processes);
  describe_ranks(fields, "flush_ranks", order.flush_ranks, k_max_parts);
  fields.optional("publish", order.publish);
  fields.optional("ending", order.ending);
}

}  // namespace ddprun::rendezvous
