#include "store/service.hpp"

#include <algorithm>
#include <utility>

#include "store/answer.hpp"

namespace ddprun::store {

StoreService::StoreService(const StoreLimits& limits, std::optional<StoreDialect> old_dialect)
    : StoreEndpoint(limits, old_dialect), state_(limits.value, memory_) {}

void StoreService::forget(StoreClient client) { state_.forget(client); }

std::optional<std::string> StoreService::handle(StoreClient client, const StoreRequest& request,
                                                std::string& reply, std::vector<StoreDelivery>& deliveries,
                                                StoreTurn& turn) {
  const std::size_t kept = kept_bytes(request);
  if (kept > 0 && !memory_.has_room(client, kept)) return refuse_memory(client, kept);
  // A relay's client is exempt: its answers are bounded by what that relay's connection may have in transit.
  if (!peer(client).elsewhere && !answer_fits(client, request, reply)) {
    turn.over = turn.not_yet = true;
    if (!reply.empty()) return std::nullopt;  // these go first
    if (unread() == 0) return refuse_memory(client, reply_bytes(request, state_));
    peer(client).starved = true;
    return std::nullopt;
  }
  if (recall_first(client, request)) {
    turn.over = turn.not_yet = peer(client).held_back = true;
    return std::nullopt;
  }
  note_process(client, request);
  effects_.by = client;
  auto complaint = answer(request, client, limits_, state_, effects_, reply);
  std::size_t due = reply.size();
  if (!effects_.woken.empty() || !effects_.notices.empty() || !effects_.wanted.empty())
    due += deliver(client, reply, deliveries);
  turn.over = due >= limits_.turn;
  return complaint;
}

// Reports whether an answer fits into memory: the part that the network does not take at once has to be kept.
bool StoreService::answer_fits(StoreClient client, const StoreRequest& request,
                               const std::string& reply) const {
  if (memory_.has_room(client, reply.size() + limits_.reply)) return true;  // fits any request
  const std::size_t bytes = reply_bytes(request, state_);
  return bytes <= k_small_answer || memory_.has_room(client, reply.size() + bytes);
}

// Delivers an answer. Returns the bytes that others get, each copy counted.
std::size_t StoreService::deliver(StoreClient requester, std::string& reply,
                                  std::vector<StoreDelivery>& deliveries) {
  std::size_t sum = 0;
  const auto hand_out = [&](std::vector<StoreClient> clients, std::string bytes) {
    if (std::erase(clients, requester) > 0) reply.append(bytes);
    take_out_remotes(clients, bytes);
    sum += clients.size() * bytes.size();
    if (!clients.empty()) deliveries.push_back({std::move(clients), std::move(bytes)});
  };
  if (!effects_.woken.empty())
    hand_out(std::exchange(effects_.woken, {}), std::string(1, k_store_stop_waiting));
  for (WatchNotice& notice : effects_.notices) {
    std::string bytes;
    append_watch_notice(bytes, notice);
    hand_out(std::move(notice.clients), std::move(bytes));
  }
  effects_.notices.clear();
  for (const WantedKey& wanted : std::exchange(effects_.wanted, {})) show_to(wanted.links, wanted.key);
  return sum;
}

namespace {

constexpr std::size_t k_shown_value = std::size_t{1}
                                      << 20;  // longer ones are fetched when they are asked for
constexpr std::size_t k_queues_known = 4096;

// Calls visit(key) for each key that the request changes.
template <class Visitor>
void for_each_changed(const StoreRequest& request, Visitor visit) {
  FieldReader fields(request.body);
  switch (request.operation) {
    case StoreOperation::set:
    case StoreOperation::compare_set:
    case StoreOperation::add:
    case StoreOperation::append:
    case StoreOperation::barrier:
    case StoreOperation::delete_key:
    case StoreOperation::queue_push:
      visit(fields.text());
      break;
    case StoreOperation::multi_set:
      for (std::size_t left = fields.count(); left > 0; --left) {
        visit(fields.text());
        fields.text();
      }
      break;
    default:
      break;
  }
}

}  // namespace

bool StoreService::hear(StoreLink link, const TreeMessage& message) {
  switch (message.kind) {
    case TreeMessageKind::request:
      take_request(link, message);
      return true;
    case TreeMessageKind::close:
      close_channel(link, message.channel);
      return true;
    case TreeMessageKind::want:
      answer_want(link, message.key);
      return true;
    case TreeMessageKind::unwant:
      state_.unwant(link, message.key);
      return true;
    case TreeMessageKind::recalled:
      note_recalled(link, message.number);
      return true;
    default:
      return false;
  }
}

// ---- clients of relays

void StoreService::take_request(StoreLink link, const TreeMessage& message) {
  const auto place = place_of(link, message.channel);
  auto found = channels_.find(place);
  if (found == channels_.end()) {
    const StoreClient client = connect_elsewhere();
    remotes_[client.value] = Remote{link, message.channel, 0, {}};
    found = channels_.emplace(place, client).first;
  }
  const StoreClient client = found->second;
  Remote& remote = remotes_.at(client.value);
  if (!peer(client).held_back && remote.waiting.empty())
    return carry_out(client, {message.operation, message.text});
  remote.waiting.push_back({message.operation, std::string(message.text)});
}

// Carries out a request that comes through a relay. If it is held back, it becomes the first of those that
// wait.
void StoreService::carry_out(StoreClient client, const StoreRequest& request) {
  std::string reply;
  StoreTurn turn;
  std::vector<StoreDelivery> deliveries;
  auto complaint = handle(client, request, reply, deliveries, turn);
  for (StoreDelivery& delivery : deliveries) deliver_late(std::move(delivery));
  Remote& remote = remotes_.at(client.value);
  if (complaint) {
    say(remote.link, {.kind = TreeMessageKind::refuse, .channel = remote.channel, .text = *complaint});
    return close_channel(remote.link, remote.channel);
  }
  if (turn.not_yet) return remote.waiting.push_front({request.operation, std::string(request.body)});
  ++remote.carried_out;
  if (!reply.empty()) tell_remote(client, reply);
}

void StoreService::go_on(StoreClient client) {
  peer(client).held_back = false;
  while (remotes_.contains(client.value)) {
    Remote& remote = remotes_.at(client.value);
    if (remote.waiting.empty() || peer(client).held_back) return;
    const Request request = std::move(remote.waiting.front());
    remote.waiting.pop_front();
    carry_out(client, {request.operation, request.body});
  }
}

void StoreService::close_channel(StoreLink link, std::uint32_t channel) {
  const auto found = channels_.find(place_of(link, channel));
  if (found == channels_.end()) return;
  const StoreClient client = found->second;
  channels_.erase(found);
  remotes_.erase(client.value);
  disconnect(client);
}

void StoreService::tell_remote(StoreClient client, std::string_view bytes) {
  const Remote& remote = remotes_.at(client.value);
  say(remote.link, {.kind = TreeMessageKind::reply,
                    .channel = remote.channel,
                    .number = remote.carried_out,
                    .idle = !state_.waiting(client),
                    .text = bytes});
}

void StoreService::take_out_remotes(std::vector<StoreClient>& clients, std::string_view bytes) {
  if (remotes_.empty()) return;
  std::erase_if(clients, [&](StoreClient client) {
    if (!remotes_.contains(client.value)) return false;
    tell_remote(client, bytes);
    return true;
  });
}

// ---- values held by relays

void StoreService::answer_want(StoreLink link, std::string_view key) {
  const bool there = state_.get(key).has_value();
  const bool queue =
      (!there && state_.present(key)) || (!queues_.empty() && queues_.contains(std::string(key)));
  if (queue || (!recalled_.empty() && recalled_.contains(std::string(key))))
    return say(link, {.kind = TreeMessageKind::plain, .key = key});
  if (there) return show_to({link}, key);
  state_.want(link, key);
}

void StoreService::show_to(const std::vector<StoreLink>& links, std::string_view key) {
  const auto value = state_.get(key);
  if (!value) return;
  const bool whole = state_.show(key, k_shown_value) == Shown::value;
  say(links,
      {.kind = whole ? TreeMessageKind::have : TreeMessageKind::present,
       .key = key,
       .text = whole ? *value : std::string_view()},
      state_.written(key));
}

bool StoreService::must_recall(const StoreRequest& request, std::string_view key) const {
  if (request.operation == StoreOperation::queue_push) return state_.wanted(key);
  const Shown least = request.operation == StoreOperation::delete_key ? Shown::presence : Shown::value;
  return state_.shown(key) >= least;
}

// Reports whether the request has to wait until relays have forgotten what it changes.
bool StoreService::recall_first(StoreClient client, const StoreRequest& request) {
  if (!had_children()) return false;
  bool wait = false;
  for_each_changed(request, [&](std::string_view key) {
    if (recalled_.empty() && !must_recall(request, key)) return;
    const auto found = recalled_.find(std::string(key));
    if (found != recalled_.end() && recalls_.at(found->second).asked.empty()) return;  // they have
    if (found == recalled_.end() && !must_recall(request, key)) return;
    recall(key, client);
    wait = wait || !recalls_.at(recalled_.at(std::string(key))).asked.empty();
  });
  if (!wait) end_recalls(request);
  return wait;
}

void StoreService::recall(std::string_view key, StoreClient client) {
  const auto [found, made] = recalled_.try_emplace(std::string(key), last_recall_ + 1);
  Recall& recall = recalls_[found->second];
  if (std::find(recall.held.begin(), recall.held.end(), client) == recall.held.end())
    recall.held.push_back(client);
  if (!made) return;
  ++last_recall_;
  recall.key = key;
  if (state_.wanted(key)) {
    if (queues_.size() == k_queues_known) queues_.clear();  // found out again later
    queues_.insert(recall.key);
  }
  state_.drop_wants(key);
  for (const StoreLink child : children()) {
    recall.asked.insert(child.value);
    say(child, {.kind = TreeMessageKind::recall, .number = found->second, .key = key});
  }
}

void StoreService::note_recalled(StoreLink link, std::uint32_t number) {
  const auto found = recalls_.find(number);
  if (found == recalls_.end() || found->second.asked.erase(link.value) == 0) return;
  if (found->second.asked.empty()) release_held(found->second);
}

// Releases what was held. The key is shown to no other before those that waited have had their turn:
// recalled_ still has it.
void StoreService::release_held(Recall& recall) {
  state_.hide(recall.key);
  for (const StoreClient client : std::exchange(recall.held, {})) {
    if (remotes_.contains(client.value)) {
      go_on(client);
    } else {
      resume(client);
    }
  }
}

// Ends the recalls whose request is carried out now.
void StoreService::end_recalls(const StoreRequest& request) {
  if (recalled_.empty()) return;
  for_each_changed(request, [&](std::string_view key) {
    const auto found = recalled_.find(std::string(key));
    if (found == recalled_.end() || !recalls_.at(found->second).asked.empty()) return;
    recalls_.erase(found->second);
    recalled_.erase(found);
  });
}

void StoreService::forget(StoreLink child) {
  state_.forget(child);
  std::vector<std::uint32_t> channels;
  for (const auto& [client, remote] : remotes_) {
    if (remote.link == child) channels.push_back(remote.channel);
  }
  for (const std::uint32_t channel : channels) close_channel(child, channel);
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, recall] : recalls_) numbers.push_back(number);
  for (const std::uint32_t number : numbers) note_recalled(child, number);
}

}  // namespace ddprun::store
