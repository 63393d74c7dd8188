// Fields of what messages tell of checkpoints.
#include <algorithm>

#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator_place.hpp"
#include "rendezvous/message_fields.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr std::int64_t k_last_rank = k_max_processes - 1, k_most_attempts = 1 << 30;
constexpr std::size_t k_max_kept = 4;  // steps

void describe_part(Fields& fields, checkpoint::Part& part) {
  fields.value("step", part.step);
  fields.value("rank", part.rank);
  fields.value("world", part.world, 1, k_max_processes);
  fields.value("bytes", part.bytes);
  fields.optional("replica", part.replica);
  fields.check(part.rank < part.world, "rank", "is not below \"world\"");
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
  const std::size_t left_out = held.parts.size() - std::min(held.parts.size(), k_max_parts);
  held.parts.erase(held.parts.begin(), held.parts.begin() + static_cast<std::ptrdiff_t>(left_out));
  if (fields.has("parts", !held.parts.empty())) fields.value("parts", held.parts, k_max_parts, describe_part);
  fields.optional("flushed", held.flushed);
  describe_ranks(fields, "flushed_ranks", held.flushed_ranks, k_max_parts);
  fields.optional("flushed_number", held.flushed_number, 0, k_most_attempts);
  fields.optional("published", held.published);
  fields.optional("published_world", held.published_world, 0, k_max_processes);
  fields.unless(-1, "attempt", held.attempt, 0, k_most_attempts);
  fields.unless(std::int64_t{-1}, "begun_from", held.begun_from);
  if (fields.has("before", !held.before.empty()))
    fields.value("before", held.before, checkpoint::k_most_before, -1);
}

void describe_restore(Fields& fields, checkpoint::Restore& restore) {
  fields.value("step", restore.step);
  fields.value("world", restore.world, 1, k_max_processes);
  fields.optional("from_flush", restore.from_flush);
  fields.optional("only_flush", restore.only_flush);
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
  fields.optional("flush_number", order.flush_number, 0, k_most_attempts);
  describe_ranks(fields, "flush_ranks", order.flush_ranks, k_max_parts);
  fields.optional("publish", order.publish);
  fields.optional("ending", order.ending);
}

}  // namespace ddprun::rendezvous
