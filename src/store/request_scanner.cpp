#include "store/request_scanner.hpp"

namespace ddprun::store {
namespace {

std::uint64_t load(std::string_view body, std::size_t position) {
  std::uint64_t value = 0;
  std::memcpy(&value, body.data() + position, sizeof value);
  return value;
}

}  // namespace

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
