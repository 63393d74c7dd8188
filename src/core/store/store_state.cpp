#include "store/store_state.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <utility>

namespace ddprun::store {

namespace {

// Room for names that a client keeps from one wait to the next.
constexpr std::size_t k_keys_kept = 16;
constexpr std::size_t k_watches_of_one = 1024;  // no release of torch watches any by itself

// Cost of a key in any of the tables beside its own bytes.
constexpr std::size_t k_entry = 128;

std::size_t heap_bytes(const std::string& text) {
  constexpr std::size_t k_in_place = 15;
  return text.capacity() > k_in_place ? text.capacity() + 1 : 0;
}

std::size_t cost(std::string_view key, const std::string& value) {
  return k_entry + key.size() + heap_bytes(value);
}

// Text of a 64-bit number without an allocation.
struct Decimal {
  char digits[24];
  std::size_t length = 0;
  explicit Decimal(std::int64_t value) {
    length = static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, value).ptr - digits);
  }
  std::string_view view() const { return {digits, length}; }
};

// Assigns a value: small ones reuse their memory, and one large value does not keep its memory for ever.
void assign(std::string& slot, std::string_view value) {
  constexpr std::size_t k_worth_releasing = 4096;
  if (slot.capacity() > k_worth_releasing && value.size() < slot.capacity() / 2) {
    std::string(value).swap(slot);  // an assignment would keep the memory
  } else {
    slot.assign(value);
  }
}

// Parses as std::stoll does, by which torch reads a counter: blanks and a sign may come first, the rest is
// ignored.
std::optional<std::int64_t> leading_integer(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

// Adds up; beyond the largest number it continues at the smallest, as in torch.
std::optional<std::int64_t> sum(std::string_view value, std::int64_t delta) {
  const auto number = leading_integer(value);
  if (!number) return std::nullopt;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(*number) + static_cast<std::uint64_t>(delta));
}

}  // namespace

template <class Value>
Value& StoreState::entry(Map<Value>& map, std::string_view key) {
  const auto found = map.find(key);
  return found != map.end() ? found->second : map.emplace(std::string(key), Value{}).first->second;
}

std::optional<std::string_view> StoreState::get(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return std::string_view(found->second.bytes);
}

void StoreState::set(std::string_view key, std::string_view value, StoreEffects& effects) {
  put(key, value, effects);
  release_barrier(key, effects);
}

void StoreState::put(std::string_view key, std::string_view value, StoreEffects& effects) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    Kept& made = values_.emplace(std::string(key), Kept{std::string(value)}).first->second;
    made.owner = memory_.add(effects.by, cost(key, made.bytes));
    key_bytes_ += key.size();
    notify(key, KeyChange::created, {}, value, effects);
    arrived(key, effects);
    return;
  }
  notify(key, KeyChange::updated, found->second.bytes, value, effects);
  found->second.changed = true;
  const std::size_t before = cost(key, found->second.bytes);
  assign(found->second.bytes, value);
  charge(key, found->second, before, effects.by);
}

// Charges a value to the client that wrote it last.
void StoreState::charge(std::string_view key, Kept& value, std::size_t before, StoreClient by) {
  const std::size_t now = cost(key, value.bytes);
  if (now == before && static_cast<int>(value.owner.client) == by.value) return;
  memory_.remove(value.owner, before);
  value.owner = memory_.add(by, now);
}

std::optional<std::int64_t> StoreState::add(std::string_view key, std::int64_t delta, StoreEffects& effects) {
  const auto result = sum(get(key).value_or("0"), delta);
  if (result) {
    set(key, Decimal(*result).view(), effects);
    values_.find(key)->second.changed = true;  // others will add to it
  }
  return result;
}

bool StoreState::append(std::string_view key, std::string_view tail, StoreEffects& effects) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    set(key, tail, effects);
    values_.find(key)->second.changed = true;  // others will append to it
    return true;
  }
  std::string& value = found->second.bytes;
  if (tail.size() > max_value_ - std::min(max_value_, value.size())) return false;
  if (!watchers_.empty()) notify(key, KeyChange::updated, value, value + std::string(tail), effects);
  found->second.changed = true;
  const std::size_t before = cost(key, value);
  value.append(tail);
  charge(key, found->second, before, effects.by);
  release_barrier(key, effects);
  return true;
}

std::string_view StoreState::compare_set(std::string_view key, std::string_view expected,
                                         std::string_view desired, StoreEffects& effects) {
  const auto found = values_.find(key);
  if (found == values_.end() && !expected.empty()) return expected;
  if (found != values_.end() && found->second.bytes != expected) {
    release_barrier(key, effects);  // torch wakes who waits although nothing has changed
    return found->second.bytes;
  }
  set(key, desired, effects);
  values_.find(key)->second.changed = true;
  return desired;
}

bool StoreState::erase(std::string_view key, StoreEffects& effects) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  notify(key, KeyChange::deleted, found->second.bytes, {}, effects);
  memory_.remove(found->second.owner, cost(key, found->second.bytes));
  key_bytes_ -= key.size();
  values_.erase(found);
  return true;
}

void StoreState::push(std::string_view queue, std::string_view value, StoreEffects& effects) {
  Kept& item = entry(queues_, queue).emplace_back(Kept{std::string(value)});
  item.owner = memory_.add(effects.by, cost(queue, item.bytes));
  const auto found = waiters_.find(queue);
  if (found == waiters_.end() || found->second.key.empty()) return;
  const StoreClient longest = found->second.key.front();
  found->second.key.erase(found->second.key.begin());
  if (found->second.empty()) waiters_.erase(found);
  count_down(longest, effects);
}

std::size_t StoreState::queue_length(std::string_view queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? 0 : found->second.size();
}

std::size_t StoreState::next_in_queue(std::string_view queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? 0 : found->second.front().bytes.size();
}

std::optional<std::string> StoreState::pop(std::string_view queue) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return std::nullopt;
  Kept& item = found->second.front();
  memory_.remove(item.owner, cost(queue, item.bytes));
  std::string value = std::move(item.bytes);
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  return value;
}

bool StoreState::present(std::string_view key) const {
  return values_.contains(key) || (!queues_.empty() && queues_.contains(key));
}

StoreState::Wait& StoreState::wait_of(StoreClient client) {
  const auto index = static_cast<std::size_t>(client.value);
  if (index >= waits_.size()) waits_.resize(index + 1);
  return waits_[index];
}

void StoreState::wait_for(StoreClient client, std::string_view key) {
  if (present(key)) return;
  auto& list = entry(waiters_, key).key;
  if (!list.empty() && list.back() == client) return;  // named twice in this wait
  list.push_back(client);
  Wait& wait = wait_of(client);
  remember(client, wait, key);
  ++wait.missing;
}

void StoreState::remember(StoreClient client, Wait& wait, std::string_view key) {
  wait.keys.emplace_back(key);
  const std::size_t bytes = k_entry + 2 * key.size();  // in the list of who waits, too
  memory_.add(client, bytes);
  wait.memory += bytes;
}

bool StoreState::waiting(StoreClient client) const {
  const auto index = static_cast<std::size_t>(client.value);
  return index < waits_.size() && waits_[index].missing > 0;
}

bool StoreState::enter_barrier(StoreClient client, std::string_view key, std::int64_t world,
                               StoreEffects& effects) {
  const auto count = sum(get(key).value_or("0"), 1);
  if (!count) return false;
  put(key, Decimal(*count).view(), effects);
  values_.find(key)->second.changed = true;
  if (*count < world) {
    entry(waiters_, key).barrier.push_back(client);
    Wait& wait = wait_of(client);
    remember(client, wait, key);
    wait.missing = 1;
    return true;
  }
  release_barrier(key, effects);
  effects.woken.push_back(client);
  return true;
}

void StoreState::release_barrier(std::string_view key, StoreEffects& effects) {
  if (waiters_.empty()) return;
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  const std::vector<StoreClient> clients = std::move(found->second.barrier);
  found->second.barrier.clear();
  if (found->second.empty()) waiters_.erase(found);
  for (const StoreClient client : clients) count_down(client, effects);
}

void StoreState::cancel_wait(StoreClient client) {
  if (!waiting(client)) return;
  Wait wait = std::exchange(wait_of(client), Wait{});
  memory_.remove(client, wait.memory);
  for (const std::string& key : wait.keys) {
    const auto found = waiters_.find(key);
    if (found == waiters_.end()) continue;  // key came meanwhile
    std::erase(found->second.key, client);
    std::erase(found->second.barrier, client);
    if (found->second.empty()) waiters_.erase(found);
  }
}

bool StoreState::watch(StoreClient client, std::string_view key) {
  const auto index = static_cast<std::size_t>(client.value);
  if (index >= watched_.size()) watched_.resize(index + 1);
  Watches& mine = watched_[index];
  if (mine.count == k_watches_of_one) return false;
  auto& clients = entry(watchers_, key);
  if (std::find(clients.begin(), clients.end(), client) != clients.end()) return true;
  clients.push_back(client);
  const std::size_t bytes = k_entry + key.size();
  memory_.add(client, bytes);
  mine.memory += bytes;
  ++mine.count;
  return true;
}

void StoreState::forget(StoreClient client) {
  cancel_wait(client);
  const auto index = static_cast<std::size_t>(client.value);
  if (index >= watched_.size() || watched_[index].count == 0) return;
  memory_.remove(client, std::exchange(watched_[index], Watches{}).memory);
  for (auto watched = watchers_.begin(); watched != watchers_.end();) {
    std::erase(watched->second, client);
    watched = watched->second.empty() ? watchers_.erase(watched) : std::next(watched);
  }
}

std::size_t StoreState::listed() const {
  std::size_t total = 0;
  for (const auto& [key, waiters] : waiters_) total += waiters.key.size() + waiters.barrier.size();
  for (const auto& [key, clients] : watchers_) total += clients.size();
  return total;
}

std::size_t StoreState::bytes() const {
  std::size_t total = 0;
  for (const auto& [key, value] : values_) total += cost(key, value.bytes);
  for (const auto& [key, queue] : queues_) {
    for (const Kept& item : queue) total += cost(key, item.bytes);
  }
  return total;
}

void StoreState::arrived(std::string_view key, StoreEffects& effects) {
  if (waiters_.empty()) return;
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  const std::vector<StoreClient> clients = std::move(found->second.key);
  found->second.key.clear();
  if (!found->second.links.empty())
    effects.wanted.push_back({std::string(key), std::exchange(found->second.links, {})});
  if (found->second.empty()) waiters_.erase(found);
  for (const StoreClient client : clients) count_down(client, effects);
}

void StoreState::want(StoreLink link, std::string_view key) {
  auto& links = entry(waiters_, key).links;
  if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
}

void StoreState::unwant(StoreLink link, std::string_view key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  std::erase(found->second.links, link);
  if (found->second.empty()) waiters_.erase(found);
}

bool StoreState::wanted(std::string_view key) const {
  const auto found = waiters_.find(key);
  return found != waiters_.end() && !found->second.links.empty();
}

void StoreState::drop_wants(std::string_view key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  found->second.links.clear();
  if (found->second.empty()) waiters_.erase(found);
}

void StoreState::forget(StoreLink link) {
  for (auto each = waiters_.begin(); each != waiters_.end();) {
    std::erase(each->second.links, link);
    each = each->second.empty() ? waiters_.erase(each) : std::next(each);
  }
}

Shown StoreState::show(std::string_view key, std::size_t max_value) {
  Kept& value = values_.find(key)->second;
  const bool whole = !value.changed && value.bytes.size() <= max_value;
  value.shown = std::max(value.shown, whole ? Shown::value : Shown::presence);
  return whole ? Shown::value : Shown::presence;
}

Shown StoreState::shown(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? Shown::nothing : found->second.shown;
}

std::weak_ptr<const std::string>& StoreState::written(std::string_view key) {
  return values_.find(key)->second.written;
}

void StoreState::hide(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return;
  found->second.shown = Shown::nothing;
  found->second.written.reset();
  found->second.changed = true;
}

void StoreState::count_down(StoreClient client, StoreEffects& effects) {
  Wait& wait = wait_of(client);
  if (--wait.missing > 0) return;
  memory_.remove(client, std::exchange(wait.memory, 0));
  if (wait.keys.capacity() > k_keys_kept) {
    wait = Wait{};
  } else {
    wait.keys.clear();
  }
  effects.woken.push_back(client);
}

void StoreState::notify(std::string_view key, KeyChange change, std::string_view old_value,
                        std::string_view new_value, StoreEffects& effects) const {
  if (watchers_.empty()) return;
  const auto found = watchers_.find(key);
  if (found == watchers_.end()) return;
  effects.notices.push_back(
      {found->second, change, std::string(key), std::string(old_value), std::string(new_value)});
}

namespace {

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024 * 1024));
}

}  // namespace

StoreMemory::Owner StoreMemory::add(StoreClient client, std::size_t bytes) {
  if (index(client) >= lives_.size()) lives_.resize(index(client) + 1);
  lives_[index(client)].held += bytes;
  used_ += bytes;
  return owner(client);
}

void StoreMemory::remove(Owner owner, std::size_t bytes) {
  used_ -= std::min(used_, bytes);
  if (owner.client >= lives_.size()) return;
  Life& life = lives_[owner.client];
  if (life.number == owner.life) life.held -= std::min(life.held, bytes);
}

void StoreMemory::forget(StoreClient client) {
  if (index(client) >= lives_.size()) return;
  Life& life = lives_[index(client)];
  ++life.number;
  life.held = 0;
}

std::string StoreMemory::complaint(StoreClient client, std::size_t more) const {
  return fmt::format(
      "it holds {} of the store's {} and needs {} more, but {} are free, and no connection may hold "
      "more than is left for the others",
      mebibytes(held(client)), mebibytes(limit_), mebibytes(more), mebibytes(left()));
}

}  // namespace ddprun::store
