#include "lifecycle/watchdog_timers.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/exit_status.hpp"
#include "base/json_text.hpp"

namespace ddprun::lifecycle {

namespace {

using Json = nlohmann::json;

constexpr std::size_t k_longest_line = 4096;  // PIPE_BUF
constexpr std::size_t k_most_timers = 65536;

bool is_whole_number(const Json& value, int least, int most) {
  return value.is_number_integer() && value >= least && value <= most;
}

}  // namespace

void WatchdogTimers::feed(std::string_view bytes) {
  unfinished_ += bytes;
  std::size_t start = 0;
  for (std::size_t end = unfinished_.find('\n'); end != std::string::npos;
       end = unfinished_.find('\n', start)) {
    read_line(std::string_view(unfinished_).substr(start, end - start));
    start = end + 1;
  }
  unfinished_.erase(0, start);
  if (unfinished_.size() > k_longest_line) unfinished_.clear();
}

void WatchdogTimers::read_line(std::string_view line) {
  const Json json = read_json_text(line);
  if (!json.is_object() || !json.contains("pid") || !json.contains("scope_id") ||
      !json.contains("expiration_time") || !json.contains("signal")) {
    return;
  }
  const Json& pid = json["pid"];
  const bool valid = is_whole_number(pid, 2, std::numeric_limits<int>::max()) &&
                     json["scope_id"].is_string() && json["expiration_time"].is_number() &&
                     is_whole_number(json["signal"], -1, k_highest_signal);
  if (!valid) return;
  const std::pair key(pid.get<int>(), json["scope_id"].get<std::string>());
  const auto expires = json["expiration_time"].get<double>();
  if (expires < 0) {
    timers_.erase(key);
  } else if (timers_.size() < k_most_timers || timers_.contains(key)) {
    timers_[key] = {expires, json["signal"].get<int>()};
  }
}

std::vector<WatchdogTimers::Expired> WatchdogTimers::take_expired(double unix_seconds) {
  std::map<int, std::pair<double, Expired>> earliest;
  for (const auto& [key, timer] : timers_) {
    if (timer.expires > unix_seconds) continue;
    const auto [entry, added] = earliest.try_emplace(key.first, timer.expires, Expired{key.first, {}, 0});
    Expired& told = entry->second.second;
    if (timer.signal <= 0 || (told.signal > 0 && entry->second.first <= timer.expires)) continue;
    entry->second = {timer.expires, {key.first, key.second, timer.signal}};
  }
  std::erase_if(timers_, [&](const auto& entry) { return earliest.contains(entry.first.first); });
  std::vector<Expired> expired;
  for (auto& [pid, entry] : earliest) {
    if (entry.second.signal > 0) expired.push_back(std::move(entry.second));
  }
  return expired;
}

std::optional<double> WatchdogTimers::next() const {
  const auto sooner = [](const auto& one, const auto& other) {
    return one.second.expires < other.second.expires;
  };
  const auto first = std::min_element(timers_.begin(), timers_.end(), sooner);
  return first == timers_.end() ? std::nullopt : std::optional(first->second.expires);
}

}  // namespace ddprun::lifecycle
