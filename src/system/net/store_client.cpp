#include "net/store_client.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "net/name_lookup.hpp"
#include "store/answer.hpp"
#include "store/request.hpp"

namespace ddprun::net {

namespace {

constexpr Milliseconds k_limit{10000};  // for what the store answers at once
constexpr std::uint64_t k_longest = 64 << 20;

template <class Number>
void append_number(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_text(std::string& bytes, const std::string& text) {
  append_number(bytes, std::uint64_t{text.size()});
  bytes += text;
}

std::string begin(store::StoreOperation operation) { return {static_cast<char>(operation)}; }

}  // namespace

StoreClient::StoreClient(const std::string& address, int port) : address_(address), port_(port) {
  const std::vector<std::string> found = look_up_name(address);
  if (!found.empty()) address_ = found.front();
  connect();
}

void StoreClient::fail(const std::string& why) const {
  throw Error(fmt::format("the store at {} port {} does not answer: {}", address_, port_, why));
}

void StoreClient::connect() {
  socket_ = TimedSocket();
  if (const std::string problem = socket_.connect(address_, port_, k_limit); !problem.empty()) fail(problem);
  std::string bytes = begin(store::StoreOperation::validate);
  append_number(bytes, store::k_store_magic);
  if (!socket_.write(bytes, k_limit)) fail("the connection has ended");
}

void StoreClient::set(const std::string& key, const std::string& value) {
  std::string bytes = begin(store::StoreOperation::set);
  append_text(bytes, key);
  append_text(bytes, value);
  if (!socket_.write(bytes, k_limit)) fail("the connection has ended");
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t number) {
  std::string bytes = begin(store::StoreOperation::add);
  append_text(bytes, key);
  append_number(bytes, number);
  char sum[sizeof number];
  if (!socket_.write(bytes, k_limit) || !socket_.read(sum, sizeof sum, k_limit))
    fail("the connection has ended");
  std::memcpy(&number, sum, sizeof number);
  return number;
}

void StoreClient::ask(const std::string& key) {
  std::string bytes = begin(store::StoreOperation::wait);
  append_number(bytes, std::uint64_t{1});
  append_text(bytes, key);
  if (!socket_.write(bytes, k_limit)) fail("the connection has ended");
  asked_ = key;
}

std::string StoreClient::take() {
  char ready = store::k_store_wait_canceled;
  if (!socket_.read(&ready, 1, k_limit)) fail("the connection has ended");
  return fetch(asked_);
}

std::optional<std::string> StoreClient::get(const std::string& key, Milliseconds limit) {
  ask(key);
  char ready = store::k_store_wait_canceled;
  if (!socket_.read(&ready, 1, limit)) {
    connect();  // the wait is still under way on the former connection
    return std::nullopt;
  }
  return fetch(key);
}

// Reads the value of a key that is there.
std::string StoreClient::fetch(const std::string& key) {
  std::string bytes = begin(store::StoreOperation::get);
  append_text(bytes, key);
  std::uint64_t size = 0;
  char length[sizeof size];
  if (!socket_.write(bytes, k_limit) || !socket_.read(length, sizeof length, k_limit))
    fail("the connection has ended");
  std::memcpy(&size, length, sizeof size);
  if (size > k_longest) fail("its answer is too long");
  std::string value(size, '\0');
  if (!socket_.read(value.data(), value.size(), k_limit)) fail("the connection has ended");
  return value;
}

}  // namespace ddprun::net
