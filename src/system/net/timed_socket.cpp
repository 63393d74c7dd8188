#include "net/timed_socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "net/name_lookup.hpp"
#include "net/tcp_tools.hpp"
#include "store/answer.hpp"
#include "store/request.hpp"

namespace ddprun::net {

namespace {

using Clock = std::chrono::steady_clock;

std::string describe_number(int error) {
  return describe_error(boost::system::error_code(error, boost::system::system_category()));
}

// Reports whether it is ready before the deadline.
bool wait_until_ready(int descriptor, short events, TimePoint deadline) {
  while (true) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<Milliseconds::rep>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

TimedSocket::~TimedSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

TimedSocket::TimedSocket(TimedSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

TimedSocket& TimedSocket::operator=(TimedSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

std::string TimedSocket::connect(const std::string& address, int port, Milliseconds limit) {
  const TimePoint deadline = Clock::now() + limit;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0)
    return "not a numeric address";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  descriptor_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor_ < 0) return describe_number(errno);
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(descriptor_, found->ai_addr, found->ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS) return describe_number(errno);
  if (!wait_until_ready(descriptor_, POLLOUT, deadline))
    return fmt::format("no answer within {}", describe_duration(limit));
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::string() : describe_number(error);
}

std::ptrdiff_t TimedSocket::write_some(std::string_view bytes, Milliseconds limit) {
  const TimePoint deadline = Clock::now() + limit;
  while (true) {
    const ssize_t written = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written >= 0) return written;
    if (!would_block()) return -1;
    if (!wait_until_ready(descriptor_, POLLOUT, deadline)) return 0;
  }
}

bool TimedSocket::write(std::string_view bytes, Milliseconds limit) {
  const TimePoint deadline = Clock::now() + limit;
  while (!bytes.empty()) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
    const std::ptrdiff_t written = write_some(bytes, std::max(left, Milliseconds{0}));
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool TimedSocket::read(char* target, std::size_t size, Milliseconds limit) {
  const TimePoint deadline = Clock::now() + limit;
  while (size > 0) {
    const ssize_t count = ::recv(descriptor_, target, size, 0);
    if (count == 0 || (count < 0 && !would_block())) return false;
    if (count < 0 && !wait_until_ready(descriptor_, POLLIN, deadline)) return false;
    if (count < 0) continue;
    target += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

std::ptrdiff_t TimedSocket::read_some(char* target, std::size_t most, Milliseconds limit) {
  const TimePoint deadline = Clock::now() + limit;
  while (true) {
    const ssize_t count = ::recv(descriptor_, target, most, 0);
    if (count > 0) return count;
    if (count == 0 || !would_block()) return -1;
    if (!wait_until_ready(descriptor_, POLLIN, deadline)) return 0;
  }
}

bool TimedSocket::end_writing() { return ::shutdown(descriptor_, SHUT_WR) == 0; }

std::string TimedSocket::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> text{};
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return {};
  const std::string name = text.data();
  static constexpr std::string_view k_mapped = "::ffff:";
  return name.starts_with(k_mapped) ? name.substr(k_mapped.size()) : name.substr(0, name.find('%'));
}

int TimedSocket::path_mtu() const {
  int mtu = 0;
  socklen_t size = sizeof mtu;
  if (::getsockopt(descriptor_, IPPROTO_IP, IP_MTU, &mtu, &size) == 0) return mtu;
  size = sizeof mtu;
  return ::getsockopt(descriptor_, IPPROTO_IPV6, IPV6_MTU, &mtu, &size) == 0 ? mtu : 0;
}

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
