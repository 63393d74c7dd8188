#include "store/request.hpp"

#include <array>
#include <bit>

#include "base/text.hpp"

namespace ddprun::store {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers on the wire are little-endian");

struct OperationFacts {
  StoreOperation operation;
  std::string_view name;
  RequestShape shape;
};

// Operations in the order of torch 2.2 and newer, whose numbers are the positions; watch_key comes last and
// has none.
constexpr std::array k_operations = {
    OperationFacts{StoreOperation::validate, "VALIDATE", {false, "w"}},
    OperationFacts{StoreOperation::set, "SET", {false, "kv"}},
    OperationFacts{StoreOperation::compare_set, "COMPARE_SET", {false, "kvv"}},
    OperationFacts{StoreOperation::get, "GET", {false, "k"}},
    OperationFacts{StoreOperation::add, "ADD", {false, "ki"}},
    OperationFacts{StoreOperation::check, "CHECK", {true, "k"}},
    OperationFacts{StoreOperation::wait, "WAIT", {true, "k"}},
    OperationFacts{StoreOperation::count_keys, "GETNUMKEYS", {false, ""}},
    OperationFacts{StoreOperation::delete_key, "DELETE_KEY", {false, "k"}},
    OperationFacts{StoreOperation::append, "APPEND", {false, "kv"}},
    OperationFacts{StoreOperation::multi_get, "MULTI_GET", {true, "k"}},
    OperationFacts{StoreOperation::multi_set, "MULTI_SET", {true, "kv"}},
    OperationFacts{StoreOperation::cancel_wait, "CANCEL_WAIT", {false, ""}},
    OperationFacts{StoreOperation::ping, "PING", {false, "w"}},
    OperationFacts{StoreOperation::queue_push, "QUEUE_PUSH", {false, "kv"}},
    OperationFacts{StoreOperation::queue_pop, "QUEUE_POP", {false, "k"}},
    OperationFacts{StoreOperation::queue_length, "QUEUE_LEN", {false, "k"}},
    OperationFacts{StoreOperation::list_keys, "LIST_KEYS", {false, ""}},
    OperationFacts{StoreOperation::barrier, "BARRIER", {false, "ki"}},
    OperationFacts{StoreOperation::watch_key, "WATCH_KEY", {false, "k"}},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < k_operations.size(); ++i) {
    if (static_cast<std::size_t>(k_operations[i].operation) != i) return false;
  }
  return true;
}
static_assert(in_order());

const OperationFacts& facts_of(StoreOperation operation) {
  return k_operations[static_cast<std::size_t>(operation)];
}

std::uint64_t load(std::string_view body, std::size_t position) {
  std::uint64_t value = 0;
  std::memcpy(&value, body.data() + position, sizeof value);
  return value;
}

}  // namespace

std::optional<StoreDialect> old_dialect_of(std::string_view torch_version) {
  const std::vector<std::string> parts = split(torch_version, '.');
  if (parts.size() < 2) return std::nullopt;
  const auto major = parse_integer(parts[0]);
  const auto minor = parse_integer(parts[1]);
  if (!major || !minor) return std::nullopt;
  if (*major < 2 || (*major == 2 && *minor == 0)) return StoreDialect::torch_2_0;
  if (*major == 2 && *minor == 1) return StoreDialect::torch_2_1;
  return std::nullopt;
}

std::optional<StoreOperation> store_operation(StoreDialect dialect, std::uint8_t number) {
  std::uint8_t current = number;
  switch (dialect) {
    case StoreDialect::torch_2_2:
      if (number > static_cast<std::uint8_t>(StoreOperation::barrier)) return std::nullopt;
      break;
    case StoreDialect::torch_2_1:  // 2.2 without VALIDATE, up to CANCEL_WAIT
      if (number > 11) return std::nullopt;
      current = static_cast<std::uint8_t>(number + 1);
      break;
    case StoreDialect::torch_2_0:  // 2.1 up to GETNUMKEYS, then WATCH_KEY and DELETE_KEY
      if (number > 8) return std::nullopt;
      if (number == 7) return StoreOperation::watch_key;
      current = number == 8 ? 8 : static_cast<std::uint8_t>(number + 1);
      break;
  }
  return static_cast<StoreOperation>(current);
}

std::string_view describe(StoreOperation operation) { return facts_of(operation).name; }

RequestShape request_shape(StoreOperation operation) { return facts_of(operation).shape; }

void RequestScanner::begin(StoreOperation operation) {
  shape_ = request_shape(operation);
  position_ = 0;
  counted_ = !shape_.counted;
  fields_left_ = counted_ ? shape_.fields.size() : 0;
  complaint_ = {};
}

RequestScanner::Result RequestScanner::illegal(std::string_view complaint) {
  complaint_ = complaint;
  return Result::illegal;
}

RequestScanner::Result RequestScanner::scan(std::string_view body, const StoreLimits& limits) {
  if (!counted_) {
    if (body.size() < sizeof(std::uint64_t)) return Result::incomplete;
    const std::uint64_t count = load(body, 0);
    if (count > limits.items) return illegal("too many keys in one request");
    position_ = sizeof count;
    fields_left_ = count * shape_.fields.size();
    counted_ = true;
  }
  while (fields_left_ > 0) {
    const std::size_t index =
        (shape_.fields.size() - fields_left_ % shape_.fields.size()) % shape_.fields.size();
    const Result result = scan_field(shape_.fields[index], body, limits);
    if (result != Result::complete) return result;
    --fields_left_;
  }
  return Result::complete;
}

RequestScanner::Result RequestScanner::scan_field(char kind, std::string_view body,
                                                  const StoreLimits& limits) {
  const std::size_t available = body.size() - position_;
  if (kind == 'w' || kind == 'i') {
    const std::size_t size = kind == 'w' ? sizeof(std::uint32_t) : sizeof(std::int64_t);
    if (available < size) return Result::incomplete;
    position_ += size;
    return Result::complete;
  }
  if (available < sizeof(std::uint64_t)) return Result::incomplete;
  const std::uint64_t length = load(body, position_);
  if (length > (kind == 'k' ? limits.key : limits.value)) {
    return illegal(kind == 'k' ? "a key is too long" : "a value is too long");
  }
  const std::size_t size = sizeof length + static_cast<std::size_t>(length);
  if (position_ + size > limits.request) return illegal("a request is too long");
  if (available < size) return Result::incomplete;
  position_ += size;
  return Result::complete;
}

}  // namespace ddprun::store
