#include "inspect/pickle.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::inspect {

namespace {

using Json = nlohmann::json;

constexpr std::size_t k_text_of_a_value = 32;  // bytes that count as one

// A value on the stack, with what it costs to copy it.
struct Value {
  Json json;
  std::size_t values = 1, depth = 1;
  bool mark = false;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // Returns the value; nullopt if anything in the text is not as expected.
  std::optional<Json> read() {
    while (good_ && !done_) act(number<char>());
    if (!good_ || stack_.size() != 1 || stack_.back().mark) return std::nullopt;
    return std::move(stack_.back().json);
  }

 private:
  std::string_view bytes(std::size_t count) {
    good_ = good_ && count <= text_.size() - at_;
    if (!good_) return {};
    return text_.substr(std::exchange(at_, at_ + count), count);
  }
  // Numbers are in the order of little-endian machines.
  template <class Number>
  Number number() {
    Number value{};
    const std::string_view from = bytes(sizeof value);
    if (good_) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::int64_t long_number() {
    const std::string_view from = bytes(number<std::uint8_t>());
    good_ = good_ && from.size() <= sizeof(std::int64_t);
    std::int64_t value = !from.empty() && (static_cast<unsigned char>(from.back()) & 0x80U) != 0 ? -1 : 0;
    if (good_) std::memcpy(&value, from.data(), from.size());
    return value;
  }
  double real_number() {  // its bytes are in the other order
    std::string from(bytes(sizeof(double)));
    std::ranges::reverse(from);
    double value = 0;
    if (good_) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }

  void push(Value value) {
    made_ += value.values;
    good_ = good_ && made_ <= k_most_pickled && value.depth <= k_deepest_pickle;
    stack_.push_back(std::move(value));
  }

  void act(char code) {
    switch (code) {
      case '\x80':
        return void(bytes(1));  // the protocol
      case '(':
        return push({{}, 1, 1, true});
      case '}':
        return push({Json::object()});
      case ']':
        return push({Json::array()});
      case '\x86':
        return push_pair(take(2));
      case 'e':
        return extend(take_marked());
      case 'u':
        return fill(take_marked());
      case 'q':
        return note(number<std::uint8_t>());
      case 'r':
        return note(number<std::uint32_t>());
      case 'h':
        return repeat(number<std::uint8_t>());
      case 'j':
        return repeat(number<std::uint32_t>());
      case '.':
        return void(done_ = true);
      default:
        read_plain(code);
    }
  }

  void read_plain(char code) {
    switch (code) {
      case 'N':
        return push({Json()});
      case '\x88':
      case '\x89':
        return push({Json(code == '\x88')});
      case 'K':
        return push({Json(number<std::uint8_t>())});
      case 'M':
        return push({Json(number<std::uint16_t>())});
      case 'J':
        return push({Json(number<std::int32_t>())});
      case '\x8a':
        return push({Json(long_number())});
      case 'G':
        return push({Json(real_number())});
      case 'X':
        return push_text(std::string(bytes(number<std::uint32_t>())));
      default:
        good_ = false;
    }
  }

  std::vector<Value> take(std::size_t count) {
    good_ = good_ && count <= stack_.size();
    if (!good_) return {};
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    good_ = std::none_of(first, stack_.end(), [](const Value& each) { return each.mark; });
    std::vector<Value> taken(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
    stack_.erase(first, stack_.end());
    return taken;
  }
  std::vector<Value> take_marked() {
    const auto mark =
        std::find_if(stack_.rbegin(), stack_.rend(), [](const Value& each) { return each.mark; });
    good_ = good_ && mark != stack_.rend();
    std::vector<Value> taken = take(static_cast<std::size_t>(mark - stack_.rbegin()));
    if (good_) stack_.pop_back();
    return taken;
  }
  void push_text(std::string text) {
    const std::size_t values = 1 + text.size() / k_text_of_a_value;
    push({Json(std::move(text)), values});
  }
  void push_pair(std::vector<Value> values) {
    push({Json::array()});
    extend(std::move(values));
  }

  // Returns the container on top, to which these are added; nullptr if there is none of that kind.
  Value* target(const std::vector<Value>& added, bool object) {
    good_ = good_ && !stack_.empty() && !stack_.back().mark &&
            (object ? stack_.back().json.is_object() : stack_.back().json.is_array());
    if (!good_) return nullptr;
    Value& whole = stack_.back();
    for (const Value& each : added) {
      whole.values += each.values;
      whole.depth = std::max(whole.depth, each.depth + 1);
    }
    good_ = whole.depth <= k_deepest_pickle;
    return &whole;
  }
  void extend(std::vector<Value> values) {
    Value* const list = target(values, false);
    for (std::size_t i = 0; good_ && i < values.size(); ++i) list->json.push_back(std::move(values[i].json));
  }
  void fill(std::vector<Value> values) {
    Value* const object = target(values, true);
    good_ = good_ && values.size() % 2 == 0;
    for (std::size_t i = 0; good_ && i < values.size(); i += 2) {
      good_ = values[i].json.is_string();
      if (good_) object->json[values[i].json.get<std::string>()] = std::move(values[i + 1].json);
    }
  }

  // torch notes texts, and dictionaries that are whole.
  void note(std::size_t name) {
    good_ = good_ && !stack_.empty() && !stack_.back().mark;
    if (!good_) return;
    made_ += stack_.back().values;
    good_ = made_ <= k_most_pickled;
    if (good_) memo_[name] = stack_.back();
  }
  void repeat(std::size_t name) {
    const auto found = memo_.find(name);
    good_ = good_ && found != memo_.end() && made_ + found->second.values <= k_most_pickled;
    if (good_) push(found->second);
  }

  std::string_view text_;
  std::size_t at_ = 0, made_ = 0;
  bool good_ = true, done_ = false;
  std::vector<Value> stack_;
  std::map<std::size_t, Value> memo_;
};

}  // namespace

bool is_pickle(std::string_view text) { return text.size() > 2 && text[0] == '\x80' && text[1] >= 2; }

Json read_pickle(std::string_view text) {
  std::optional<Json> found = is_pickle(text) ? Reader(text).read() : std::nullopt;
  return found ? std::move(*found) : Json(Json::value_t::discarded);
}

}  // namespace ddprun::inspect
