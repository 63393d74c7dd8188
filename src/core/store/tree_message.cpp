#include "store/tree_message.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "store/request.hpp"

namespace ddprun::store {
namespace {

// The fields of a kind in their order: c channel, n number, o operation, i idle, k key, t text.
constexpr std::array<std::string_view, 11> k_fields = {"cot", "c",  "k", "k", "n", "cnit",
                                                       "ct",  "kt", "k", "k", "nk"};
static_assert(k_fields.size() == static_cast<std::size_t>(TreeMessageKind::recall) + 1);

void put_number(std::string& bytes, std::size_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& bytes, std::string_view text) {
  put_number(bytes, text.size());
  bytes.append(text);
}

bool has_shape(const TreeMessage& message, const StoreLimits& limits) {
  if (message.operation == StoreOperation::validate || message.operation > StoreOperation::watch_key)
    return false;
  RequestScanner scanner;
  scanner.begin(message.operation);
  return scanner.scan(message.text, limits) == RequestScanner::Result::complete &&
         scanner.length() == message.text.size();
}

// Takes fields as long as there are bytes for them.
class Fields {
 public:
  explicit Fields(std::string_view body) : rest_(body) {}

  std::uint8_t byte() {
    const std::string_view taken = take(1);
    return taken.empty() ? 0 : static_cast<std::uint8_t>(taken.front());
  }
  std::uint32_t number() {
    std::uint32_t value = 0;
    const std::string_view taken = take(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number()); }
  bool complete() const { return !short_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t length) {
    short_ = short_ || length > rest_.size();
    const std::string_view taken = short_ ? std::string_view() : rest_.substr(0, length);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
  bool short_ = false;
};

}  // namespace

void write_message(std::string& bytes, const TreeMessage& message) {
  const std::size_t begin = bytes.size();
  put_number(bytes, 0);
  bytes.push_back(static_cast<char>(message.kind));
  for (const char field : k_fields[static_cast<std::size_t>(message.kind)]) {
    if (field == 'c') put_number(bytes, message.channel);
    if (field == 'n') put_number(bytes, message.number);
    if (field == 'o') bytes.push_back(static_cast<char>(message.operation));
    if (field == 'i') bytes.push_back(message.idle ? 1 : 0);
    if (field == 'k') put_text(bytes, message.key);
    if (field == 't') put_text(bytes, message.text);
  }
  const auto length = static_cast<std::uint32_t>(bytes.size() - begin - sizeof(std::uint32_t));
  std::memcpy(bytes.data() + begin, &length, sizeof length);
}

std::optional<std::size_t> TreeReader::length_of(std::string_view bytes, const StoreLimits& limits) {
  std::uint32_t length = 0;
  if (bytes.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::size_t most = std::max(limits.request, limits.reply) + limits.key + limits.value;
  return k_header + std::min<std::size_t>(length, most);  // parse() refuses what is longer
}

std::optional<TreeMessage> TreeReader::parse(std::string_view body, const StoreLimits& limits) {
  Fields fields(body);
  const std::uint8_t kind = fields.byte();
  if (body.empty() || kind >= k_fields.size()) return std::nullopt;
  TreeMessage message;
  message.kind = static_cast<TreeMessageKind>(kind);
  for (const char field : k_fields[kind]) {
    if (field == 'c') message.channel = fields.number();
    if (field == 'n') message.number = fields.number();
    if (field == 'o') message.operation = static_cast<StoreOperation>(fields.byte());
    if (field == 'i') message.idle = fields.byte() != 0;
    if (field == 'k') message.key = fields.text();
    if (field == 't') message.text = fields.text();
  }
  if (!fields.complete()) return std::nullopt;
  if (message.kind == TreeMessageKind::request && !has_shape(message, limits)) return std::nullopt;
  return message;
}

bool is_from_child(TreeMessageKind kind) { return kind <= TreeMessageKind::recalled; }

}  // namespace ddprun::store
