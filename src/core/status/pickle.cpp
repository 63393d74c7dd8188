#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "status/flight_record.hpp"

namespace ddprun::status {

namespace {

using Json = nlohmann::json;

constexpr std::size_t k_text_of_a_value = 32;  // bytes that count as one
constexpr std::size_t k_deepest_pickle = 32, k_most_pickled = 4'000'000;

// Counts the values that a copy makes.
std::size_t count_values(const Json& value) {
  if (value.is_string()) return 1 + value.get_ref<const std::string&>().size() / k_text_of_a_value;
  std::size_t count = 1;
  if (value.is_structured()) {
    for (const Json& each : value) count += count_values(each);
  }
  return count;
}

// Lists and dictionaries are filled with what is above a mark, so that they nest no deeper than there are
// marks.
class PickleReader {
 public:
  explicit PickleReader(std::string_view text) : text_(text) {}

  Json read() {
    while (good_ && !done_) act(number<char>());
    const bool whole = good_ && marks_.empty() && stack_.size() == 1;
    return whole ? std::move(stack_.back()) : Json(Json::value_t::discarded);
  }

 private:
  std::string_view bytes(std::size_t count) {
    good_ = good_ && count <= text_.size() - at_;
    return good_ ? text_.substr(std::exchange(at_, at_ + count), count) : std::string_view();
  }
  // Numbers are in the order of little-endian machines; a shorter one is negative by its highest bit.
  template <class Number>
  Number number(std::size_t size = sizeof(Number)) {
    const std::string_view from = bytes(size);
    good_ = good_ && size <= sizeof(Number);
    const bool negative = good_ && size > 0 && (from.back() & 0x80) != 0;
    auto value = static_cast<Number>(negative ? -1 : 0);
    if (good_) std::memcpy(&value, from.data(), size);
    return value;
  }
  double real_number() {  // its bytes are in the other order
    std::string from(bytes(sizeof(double)));
    std::ranges::reverse(from);
    double value = 0;
    if (good_) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }

  void act(char code) {
    if (code == '\x80') return void(bytes(1));  // the protocol
    if (code == '.') return void(done_ = true);
    if (code == '(') return marks_.push_back(stack_.size()), void(good_ = marks_.size() <= k_deepest_pickle);
    if (code == '\x86') return push_pair();
    if (code == 'e' || code == 'u') return fill(code == 'u');
    if (code == 'q' || code == 'r')
      return note(code == 'q' ? number<std::uint8_t>() : number<std::uint32_t>());
    if (code == 'h' || code == 'j')
      return repeat(code == 'h' ? number<std::uint8_t>() : number<std::uint32_t>());
    if (code == '}') return push(Json::object());
    if (code == ']') return push(Json::array());
    if (code == 'N') return push(nullptr);
    if (code == '\x88' || code == '\x89') return push(code == '\x88');
    if (code == 'K') return push(number<std::uint8_t>());
    if (code == 'M') return push(number<std::uint16_t>());
    if (code == 'J') return push(number<std::int32_t>());
    if (code == '\x8a') return push(number<std::int64_t>(number<std::uint8_t>()));
    if (code == 'G') return push(real_number());
    if (code == 'X') return push(std::string(bytes(number<std::uint32_t>())));
    good_ = false;
  }

  void push(Json value) {
    spend(value);
    stack_.push_back(std::move(value));
  }
  void spend(const Json& value) { good_ = good_ && (made_ += count_values(value)) <= k_most_pickled; }
  // Reports whether there are so many values above the last mark.
  bool has(std::size_t count) const {
    return good_ && stack_.size() >= count + (marks_.empty() ? 0 : marks_.back());
  }

  void push_pair() {
    good_ = has(2) && stack_.back().is_primitive() && stack_[stack_.size() - 2].is_primitive();
    if (!good_) return;
    Json pair = Json::array({std::move(stack_[stack_.size() - 2]), std::move(stack_.back())});
    stack_.resize(stack_.size() - 2);
    push(std::move(pair));
  }

  // Moves what is above the last mark into the list or dictionary below it.
  void fill(bool object) {
    const std::size_t mark = marks_.empty() ? 0 : marks_.back();
    if (!marks_.empty()) marks_.pop_back();
    good_ = mark > 0 && has(stack_.size() - mark + 1) &&
            (object ? stack_[mark - 1].is_object() : stack_[mark - 1].is_array()) &&
            (!object || (stack_.size() - mark) % 2 == 0);
    for (std::size_t i = mark; good_ && i < stack_.size(); i += object ? 2 : 1) {
      if (!object) stack_[mark - 1].push_back(std::move(stack_[i]));
      good_ = !object || stack_[i].is_string();
      if (object && good_) stack_[mark - 1][stack_[i].get<std::string>()] = std::move(stack_[i + 1]);
    }
    stack_.resize(mark);
  }

  void note(std::size_t name) {
    good_ = has(1);
    if (good_) spend(stack_.back());
    if (good_) memo_[name] = stack_.back();
  }
  void repeat(std::size_t name) {
    const auto found = memo_.find(name);
    good_ = good_ && found != memo_.end();
    if (good_) spend(found->second);
    if (good_) stack_.push_back(found->second);
  }

  std::string_view text_;
  std::size_t at_ = 0, made_ = 0;
  bool good_ = true, done_ = false;
  std::vector<Json> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::map<std::size_t, Json> memo_;
};

}  // namespace

bool is_pickle(std::string_view text) { return text.size() > 2 && text[0] == '\x80' && text[1] >= 2; }

Json read_pickle(std::string_view text) {
  return is_pickle(text) ? PickleReader(text).read() : Json(Json::value_t::discarded);
}

}  // namespace ddprun::status
