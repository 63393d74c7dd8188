#include "store/relay.hpp"

#include <algorithm>
#include <utility>

#include "store/answer.hpp"

namespace ddprun::store {

namespace {

std::string wait_for_one(std::string_view key) {
  const std::uint64_t count = 1;
  std::string body(reinterpret_cast<const char*>(&count), sizeof count);
  append_text(body, key);
  return body;
}

}  // namespace

StoreRelay::StoreRelay(const StoreLimits& limits, std::optional<StoreDialect> old_dialect, std::size_t held)
    : StoreEndpoint(limits, old_dialect), room_(held) {}

StoreRelay::Local& StoreRelay::local(StoreClient client) {
  if (index(client) >= locals_.size()) locals_.resize(index(client) + 1);
  return locals_[index(client)];
}

const StoreRelay::Key* StoreRelay::held(std::string_view key) const {
  const auto found = keys_.find(std::string(key));
  return found == keys_.end() || !found->second.here() ? nullptr : &found->second;
}

// ---- clients

std::optional<std::string> StoreRelay::handle(StoreClient client, const StoreRequest& request,
                                              std::string& reply, std::vector<StoreDelivery>&,
                                              StoreTurn& turn) {
  if (request.operation == StoreOperation::validate) return std::nullopt;
  const std::size_t kept = kept_bytes(request);
  if (kept > 0 && !memory_.has_room(client, kept)) return refuse_memory(client, kept);
  if (congested_) {
    turn.over = turn.not_yet = peer(client).held_back = true;
    held_back_.push_back(client);
    return std::nullopt;
  }
  note_process(client, request);
  end_wait(client);
  if (!local(client).idle() || !answer_here(client, request, reply)) forward(client, request);
  turn.over = reply.size() >= limits_.turn;
  return std::nullopt;
}

void StoreRelay::note_congestion(bool congested) {
  congested_ = congested;
  if (congested) return;
  for (const StoreClient client : std::exchange(held_back_, {})) resume(client);
}

bool StoreRelay::answer_here(StoreClient client, const StoreRequest& request, std::string& reply) {
  FieldReader fields(request.body);
  switch (request.operation) {
    case StoreOperation::ping:
      reply.append(request.body);
      return true;
    case StoreOperation::cancel_wait:
      reply.push_back(k_store_wait_canceled);
      return true;
    case StoreOperation::wait:
      return wait_here(client, request.body, reply);
    case StoreOperation::check:
      for (std::size_t left = fields.count(); left > 0; --left) {
        if (held(fields.text()) == nullptr) return false;
      }
      reply.push_back(k_store_ready);
      return true;
    case StoreOperation::get:
    case StoreOperation::multi_get: {
      const std::size_t before = reply.size();
      std::size_t left = request.operation == StoreOperation::get ? 1 : fields.count();
      for (; left > 0; --left) {
        const Key* const key = held(fields.text());
        const bool known = key != nullptr && key->state == Key::State::valued;
        if (known) append_text(reply, key->value);
        if (known && reply.size() <= limits_.reply) continue;
        reply.resize(before);
        return false;
      }
      return true;
    }
    default:
      return false;
  }
}

bool StoreRelay::wait_here(StoreClient client, std::string_view body, std::string& reply) {
  FieldReader fields(body);
  for (std::size_t left = fields.count(); left > 0; --left) {
    const auto found = keys_.find(std::string(fields.text()));
    if (found != keys_.end() && found->second.state == Key::State::plain) return false;
  }
  fields = FieldReader(body);
  Local& waiting = local(client);
  for (std::size_t left = fields.count(); left > 0; --left) {
    const auto place = entry(fields.text());
    Key& key = place->second;
    if (key.here() || (!key.clients.empty() && key.clients.back() == client)) continue;  // named twice
    if (key.clients.empty() && key.children.empty())
      say(k_parent_link, {.kind = TreeMessageKind::want, .key = place->first});
    key.clients.push_back(client);
    waiting.keys.push_back(place->first);
    ++waiting.missing;
  }
  if (waiting.missing == 0) reply.push_back(k_store_stop_waiting);
  return true;
}

// Ends the client's WAIT, as any request does.
void StoreRelay::end_wait(StoreClient client) {
  Local& waiting = local(client);
  if (waiting.missing == 0) return;
  waiting.missing = 0;
  for (const std::string& name : std::exchange(waiting.keys, {})) {
    const auto place = keys_.find(name);
    if (place == keys_.end()) continue;
    std::erase(place->second.clients, client);
    leave(place);
  }
  for (const std::uint32_t channel : std::exchange(waiting.single_waits, {})) {
    if (routes_.erase(channel) > 0) say(k_parent_link, {.kind = TreeMessageKind::close, .channel = channel});
  }
}

// Leaves a key that no client waits for any more.
void StoreRelay::leave(Keys::iterator place) {
  const Key& key = place->second;
  if (key.state != Key::State::wanted || !key.clients.empty() || !key.children.empty()) return;
  say(k_parent_link, {.kind = TreeMessageKind::unwant, .key = place->first});
  keys_.erase(place);
}

void StoreRelay::forward(StoreClient client, const StoreRequest& request) {
  Local& from = local(client);
  if (from.channel == 0) from.channel = open_channel({client, false, {}, 0});
  ++from.forwarded;
  say(k_parent_link, {.kind = TreeMessageKind::request,
                      .channel = from.channel,
                      .operation = request.operation,
                      .text = request.body});
}

std::uint32_t StoreRelay::open_channel(Route route) {
  do ++last_channel_;
  while (last_channel_ == 0 || routes_.contains(last_channel_));
  routes_.emplace(last_channel_, route);
  return last_channel_;
}

void StoreRelay::forget(StoreClient client) {
  end_wait(client);
  Local& gone = local(client);
  if (gone.channel != 0 && routes_.erase(gone.channel) > 0)
    say(k_parent_link, {.kind = TreeMessageKind::close, .channel = gone.channel});
  gone = Local();
  std::erase(held_back_, client);
}

// ---- keys

StoreRelay::Keys::iterator StoreRelay::entry(std::string_view name) {
  return keys_.try_emplace(std::string(name)).first;
}

// Keeps a key that is wanted no more: all that waited have been told.
void StoreRelay::keep(Keys::iterator place, Key::State state, std::string_view value) {
  Key& key = place->second;
  if (key.state != Key::State::wanted) ages_.erase(key.age);
  held_bytes_ -= key.value.size();
  key.state = state;
  key.value = value;
  key.written.reset();
  held_bytes_ += value.size();
  key.age = ages_.insert(ages_.end(), &place->first);
  constexpr std::size_t k_most_keys = 1 << 20;
  while ((held_bytes_ > room_ || ages_.size() > k_most_keys) && ages_.size() > 1)
    drop(keys_.find(*ages_.front()));
}

void StoreRelay::drop(Keys::iterator place) {
  if (place->second.state != Key::State::wanted) ages_.erase(place->second.age);
  held_bytes_ -= place->second.value.size();
  keys_.erase(place);
}

void StoreRelay::count_down(const std::vector<StoreClient>& clients) {
  StoreDelivery woken{{}, std::string(1, k_store_stop_waiting)};
  for (const StoreClient client : clients) {
    Local& waiting = local(client);
    if (--waiting.missing > 0) continue;
    waiting.keys.clear();
    waiting.single_waits.clear();
    woken.clients.push_back(client);
  }
  if (!woken.clients.empty()) deliver_late(std::move(woken));
}

// ---- the parent

bool StoreRelay::hear(StoreLink link, const TreeMessage& message) {
  if (link == k_parent_link) {
    hear_parent(message);
  } else {
    hear_child(link, message);
  }
  return true;
}

void StoreRelay::hear_parent(const TreeMessage& message) {
  switch (message.kind) {
    case TreeMessageKind::reply:
      return take_reply(message);
    case TreeMessageKind::refuse:
      return take_refusal(message);
    case TreeMessageKind::plain:
      return give_up(message);
    case TreeMessageKind::recall:
      return recall(message);
    default:
      return learn(message);
  }
}

void StoreRelay::take_reply(const TreeMessage& message) {
  const auto found = routes_.find(message.channel);
  if (found == routes_.end()) return;  // the client has gone
  const Route route = found->second;
  if (route.client.value < 0) {
    TreeMessage passed = message;
    passed.channel = route.channel;
    return say(route.child, passed);
  }
  if (route.single_wait) {
    routes_.erase(found);
    say(k_parent_link, {.kind = TreeMessageKind::close, .channel = message.channel});
    return count_down({route.client});
  }
  Local& to = local(route.client);
  to.carried_out = message.number;
  to.waits_there = !message.idle;
  deliver_late({{route.client}, std::string(message.text)});
}

void StoreRelay::take_refusal(const TreeMessage& message) {
  const auto found = routes_.find(message.channel);
  if (found == routes_.end()) return;
  const Route route = found->second;
  routes_.erase(found);
  if (route.client.value >= 0) return refuse(route.client, std::string(message.text));
  child_channels_.erase(place_of(route.child, route.channel));
  TreeMessage passed = message;
  passed.channel = route.channel;
  say(route.child, passed);
}

// Learns that the key is there.
void StoreRelay::learn(const TreeMessage& message) {
  const auto place = entry(message.key);
  const std::vector<StoreClient> clients = std::exchange(place->second.clients, {});
  const std::vector<StoreLink> below = std::exchange(place->second.children, {});
  const bool valued = message.kind == TreeMessageKind::have;
  keep(place, valued ? Key::State::valued : Key::State::present, message.text);
  say(below, message, place->second.written);
  count_down(clients);
}

// Gives up a key: it must be asked about by requests.
void StoreRelay::give_up(const TreeMessage& message) {
  const auto place = entry(message.key);
  const std::vector<StoreClient> clients = std::exchange(place->second.clients, {});
  for (const StoreLink child : std::exchange(place->second.children, {})) say(child, message);
  keep(place, Key::State::plain, {});
  wait_singly(message.key, clients);
}

void StoreRelay::wait_singly(std::string_view name, const std::vector<StoreClient>& clients) {
  const std::string body = wait_for_one(name);
  for (const StoreClient client : clients) {
    const std::uint32_t channel = open_channel({client, true, {}, 0});
    local(client).single_waits.push_back(channel);
    say(k_parent_link, {.kind = TreeMessageKind::request,
                        .channel = channel,
                        .operation = StoreOperation::wait,
                        .text = body});
  }
}

void StoreRelay::recall(const TreeMessage& message) {
  const auto place = keys_.find(std::string(message.key));
  if (place != keys_.end()) {
    const std::vector<StoreClient> clients = std::exchange(place->second.clients, {});
    drop(place);  // children that want it are asked to forget it, too
    wait_singly(message.key, clients);
  }
  const std::vector<StoreLink> below = children();
  if (below.empty()) return say(k_parent_link, {.kind = TreeMessageKind::recalled, .number = message.number});
  Recall& asked = recalls_[++last_recall_];
  asked.number = message.number;
  for (const StoreLink child : below) {
    asked.asked.insert(child.value);
    say(child, {.kind = TreeMessageKind::recall, .number = last_recall_, .key = message.key});
  }
}

void StoreRelay::hear_child(StoreLink child, const TreeMessage& message) {
  switch (message.kind) {
    case TreeMessageKind::request:
      return pass_up(child, message);
    case TreeMessageKind::close:
      return close_from(child, message.channel);
    case TreeMessageKind::want:
      return want(child, message.key);
    case TreeMessageKind::unwant:
      return unwant(child, message.key);
    default:
      return note_recalled(child, message.number);
  }
}

void StoreRelay::pass_up(StoreLink child, const TreeMessage& message) {
  std::uint32_t& channel = child_channels_[place_of(child, message.channel)];
  if (channel == 0) channel = open_channel({StoreClient{-1}, false, child, message.channel});
  TreeMessage passed = message;
  passed.channel = channel;
  say(k_parent_link, passed);
}

void StoreRelay::close_from(StoreLink child, std::uint32_t channel) {
  const auto found = child_channels_.find(place_of(child, channel));
  if (found == child_channels_.end()) return;
  routes_.erase(found->second);
  say(k_parent_link, {.kind = TreeMessageKind::close, .channel = found->second});
  child_channels_.erase(found);
}

void StoreRelay::want(StoreLink child, std::string_view name) {
  const auto place = entry(name);
  Key& key = place->second;
  switch (key.state) {
    case Key::State::valued:
      return say({child}, {.kind = TreeMessageKind::have, .key = name, .text = key.value}, key.written);
    case Key::State::present:
      return say(child, {.kind = TreeMessageKind::present, .key = name});
    case Key::State::plain:
      return say(child, {.kind = TreeMessageKind::plain, .key = name});
    case Key::State::wanted:
      break;
  }
  if (key.clients.empty() && key.children.empty())
    say(k_parent_link, {.kind = TreeMessageKind::want, .key = name});
  if (std::find(key.children.begin(), key.children.end(), child) == key.children.end())
    key.children.push_back(child);
}

void StoreRelay::unwant(StoreLink child, std::string_view name) {
  const auto place = keys_.find(std::string(name));
  if (place == keys_.end() || std::erase(place->second.children, child) == 0) return;
  leave(place);
}

void StoreRelay::note_recalled(StoreLink child, std::uint32_t number) {
  const auto found = recalls_.find(number);
  if (found == recalls_.end() || found->second.asked.erase(child.value) == 0) return;
  if (!found->second.asked.empty()) return;
  say(k_parent_link, {.kind = TreeMessageKind::recalled, .number = found->second.number});
  recalls_.erase(found);
}

void StoreRelay::forget(StoreLink child) {
  std::vector<std::uint32_t> channels;
  for (const auto& [channel, route] : routes_) {
    if (route.client.value < 0 && route.child == child) channels.push_back(route.channel);
  }
  for (const std::uint32_t channel : channels) close_from(child, channel);
  std::vector<std::string> wanted;
  for (const auto& [name, key] : keys_) {
    if (!key.children.empty()) wanted.push_back(name);
  }
  for (const std::string& name : wanted) unwant(child, name);
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, recall] : recalls_) numbers.push_back(number);
  for (const std::uint32_t number : numbers) note_recalled(child, number);
}

}  // namespace ddprun::store
