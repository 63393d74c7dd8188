// The requests of the c10d store and how each torch release numbers and lays them out.
//
// Source: torch/csrc/distributed/c10d/TCPStoreBackend.hpp of 2.2 to 2.14 and TCPStore.cpp of 1.13 to 2.0. A
// request is one byte and fields; integers are little-endian; a text is a 64-bit length and its bytes; a list
// is a 64-bit count and its items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace ddprun::store {

enum class StoreOperation : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  count_keys,
  delete_key,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  queue_push,
  queue_pop,
  queue_length,
  list_keys,
  barrier,
  watch_key,  // torch 2.0 and older only
};

enum class StoreDialect : std::uint8_t {
  torch_2_0,  // and older
  torch_2_1,
  torch_2_2,  // and newer: VALIDATE and a magic number come first
};

// Returns the dialect of that torch's clients ("2.1.2+cpu"). nullopt if it is 2.2 or newer, which say so
// themselves, or no version.
std::optional<StoreDialect> old_dialect_of(std::string_view torch_version);

// The first request of torch 2.2 and newer carries it.
inline constexpr std::uint32_t k_store_magic = 0x3C85F7CE;

// Returns nullopt when the dialect has no such number.
std::optional<StoreOperation> store_operation(StoreDialect dialect, std::uint8_t number);
// Returns "SET", "WAIT", for messages.
std::string_view describe(StoreOperation operation);

// The body's fields in order: k key, v value, i 64-bit integer, w 32-bit integer. A counted body starts with
// a 64-bit count and repeats the fields that often.
struct RequestShape {
  bool counted;
  std::string_view fields;
};
RequestShape request_shape(StoreOperation operation);

struct StoreLimits {
  std::size_t key = 8 * 1024;                 // limit of torch's own server
  std::size_t value = 64 * 1024 * 1024;       // torch's own server stops at 8 MiB
  std::uint64_t items = 131072;               // keys in one request, as torch's own server
  std::size_t request = 128 * 1024 * 1024;    // bytes of one request
  std::size_t reply = 256 * 1024 * 1024;      // bytes of one reply
  std::size_t memory = 4096UL * 1024 * 1024;  // bytes of the whole store
  std::size_t turn = 256 * 1024;  // bytes of replies after which a connection's further requests wait
  std::size_t shared = 512;       // bytes of a value from which on all relays are sent the same copy of it
};

// A complete request whose layout has been checked: body holds exactly the fields of its shape.
struct StoreRequest {
  StoreOperation operation;
  std::string_view body;
};

// Takes the fields of a checked body one after the other.
class FieldReader {
 public:
  explicit FieldReader(std::string_view body) : rest_(body) {}

  std::string_view text() { return take(static_cast<std::size_t>(number<std::uint64_t>())); }
  std::int64_t integer() { return number<std::int64_t>(); }
  std::size_t count() { return static_cast<std::size_t>(number<std::uint64_t>()); }
  std::string_view rest() const { return rest_; }

 private:
  template <class Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take(std::size_t length) {
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

  std::string_view rest_;
};

// Finds where a request ends. Remembers how far it has looked, so that a request coming byte by byte costs no
// more than one coming at once.
class RequestScanner {
 public:
  enum class Result { incomplete, complete, illegal };

  // Begins a request of this operation; its number byte is already consumed.
  void begin(StoreOperation operation);
  // Scans `body`, which is what has come so far, from the body's first byte; calls for one request only ever
  // see it grow. Complete: length() bytes make the body. Illegal: complaint() says why. A length is judged as
  // soon as it is there, before the bytes it announces.
  Result scan(std::string_view body, const StoreLimits& limits);

  std::size_t length() const { return position_; }
  std::string_view complaint() const { return complaint_; }

 private:
  Result illegal(std::string_view complaint);
  Result scan_field(char kind, std::string_view body, const StoreLimits& limits);

  RequestShape shape_{};
  std::size_t position_ = 0;  // position of the first field not yet passed
  std::uint64_t fields_left_ = 0;
  bool counted_ = true;  // the count has been read, or there is none
  std::string_view complaint_;
};

}  // namespace ddprun::store
