// Whether what clients of a store saw can be explained by one store that carries out one request after the
// other (Wing and Gong's search). Keys hold numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

namespace store_history {

enum class Kind { set, get, add, remove, append, compare_set, check, wait, count, push, pop, length };

// One key each: what a request does to several keys is several of them with the same times, in no order.
struct Operation {
  int client = 0;
  int turn = 0;  // of the client's requests; those of a turn come before those of the next
  Kind kind{};
  std::string key;
  std::string value;  // that is set, added, expected
  std::string desired;
  std::string answer;  // as text
  int began = 0;
  int ended = std::numeric_limits<int>::max();  // without an answer: after everything
};

struct State {
  std::map<std::string, std::string> values;
  std::map<std::string, std::vector<std::string>> queues;

  std::string text() const {
    std::string text;
    for (const auto& [key, value] : values) text += key + '=' + value + ';';
    for (const auto& [key, items] : queues) {
      for (const std::string& item : items) text += key + '<' + item + ';';
    }
    return text;
  }
  bool present(const std::string& key) const {
    const auto queue = queues.find(key);
    return values.contains(key) || (queue != queues.end() && !queue->second.empty());
  }
  std::string value(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? "" : found->second;
  }

  // False where it cannot have been answered so now. What was never answered may have been anything.
  bool apply(const Operation& operation) {
    return carry_out(operation) || operation.ended == std::numeric_limits<int>::max();
  }

 private:
  bool carry_out(const Operation& operation) {
    const std::string& key = operation.key;
    switch (operation.kind) {
      case Kind::set:
        values[key] = operation.value;
        return true;
      case Kind::get:
        return value(key) == operation.answer;
      case Kind::add:
        values[key] = std::to_string(std::stoll("0" + value(key)) + std::stoll(operation.value));
        return values[key] == operation.answer;
      case Kind::remove:
        return std::to_string(values.erase(key)) == operation.answer;
      case Kind::append:
        values[key] += operation.value;
        return true;
      case Kind::compare_set:
        return compare_set(operation);
      case Kind::check:
        return operation.answer == (present(key) ? "ready" : "not ready");
      case Kind::wait:
        return present(key);
      case Kind::count:
        return operation.answer == std::to_string(values.size());
      case Kind::push:
        queues[key].push_back(operation.value);
        return true;
      case Kind::pop:
        return pop(operation);
      case Kind::length:
        return operation.answer == std::to_string(queues[key].size());
    }
    return false;
  }

  bool compare_set(const Operation& operation) {
    const bool absent = !values.contains(operation.key);
    std::string answer = value(operation.key);
    if (absent && !operation.value.empty()) {
      answer = operation.value;
    } else if (absent || answer == operation.value) {
      answer = values[operation.key] = operation.desired;
    }
    return answer == operation.answer;
  }
  bool pop(const Operation& operation) {
    auto& items = queues[operation.key];
    const std::string answer = items.empty() ? "empty" : items.front();
    if (!items.empty()) items.erase(items.begin());
    return answer == operation.answer;
  }
};

inline std::string describe(const std::vector<Operation>& operations) {
  static const char* const k_names[] = {"SET",   "GET",  "ADD",   "DELETE", "APPEND", "COMPARE_SET",
                                        "CHECK", "WAIT", "COUNT", "PUSH",   "POP",    "LENGTH"};
  std::string text;
  for (const Operation& each : operations) {
    const bool answered = each.ended != std::numeric_limits<int>::max();
    text += "client " + std::to_string(each.client) + " turn " + std::to_string(each.turn) + ": " +
            k_names[static_cast<int>(each.kind)] + ' ' + each.key + ' ' + each.value + ' ' + each.desired +
            " -> " + each.answer + ", " + std::to_string(each.began) + " to " +
            (answered ? std::to_string(each.ended) : "") + '\n';
  }
  return text;
}

class Search {
 public:
  explicit Search(const std::vector<Operation>& operations) : operations_(operations) {}
  // At most 64 operations.
  bool explained() { return extend(0, State()); }

 private:
  bool may_be_next(std::uint64_t done, std::size_t candidate) const {
    const Operation& next = operations_[candidate];
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (i == candidate || (done >> i & 1U) != 0) continue;
      const Operation& other = operations_[i];
      if (other.ended < next.began) return false;
      if (other.client == next.client && other.turn < next.turn) return false;
    }
    return true;
  }
  // What was never answered may never have happened.
  bool complete(std::uint64_t done) const {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if ((done >> i & 1U) == 0 && operations_[i].ended != std::numeric_limits<int>::max()) return false;
    }
    return true;
  }
  bool extend(std::uint64_t done, const State& state) {
    if (complete(done)) return true;
    if (!seen_.insert(std::to_string(done) + '|' + state.text()).second) return false;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if ((done >> i & 1U) != 0 || !may_be_next(done, i)) continue;
      State next = state;
      if (next.apply(operations_[i]) && extend(done | std::uint64_t{1} << i, next)) return true;
    }
    return false;
  }

  const std::vector<Operation>& operations_;
  std::unordered_set<std::string> seen_;
};

}  // namespace store_history
