#include <algorithm>

#include "store/relay.hpp"

namespace ddprun::store {

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
