#include "net/connection_check.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "net/agent_listener.hpp"
#include "net/timed_socket.hpp"

namespace ddprun::net {

namespace {

constexpr char k_ask_time = 't';    // one byte there, the clock back
constexpr char k_ask_stream = 's';  // bytes until their end, their number back
constexpr int k_samples = 21;
constexpr Milliseconds k_sampling{300};
constexpr std::size_t k_piece = 256 << 10;
constexpr std::size_t k_most_askers = 512;

std::int64_t clock_microseconds() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

double seconds_since(TimePoint start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One connection of the answering end.
class Answerer {
 public:
  Answerer(int descriptor, std::string address, const std::string& word)
      : descriptor_(descriptor), address_(std::move(address)), word_(&word) {}
  int descriptor() const { return descriptor_; }
  const std::string& address() const { return address_; }
  bool is_stranger() const { return said_.size() < k_check_word; }

  // Takes what has come; false at the end.
  bool take(std::vector<char>& buffer) {
    const ssize_t count = ::recv(descriptor_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return streams_ && send_number(received_), false;
    std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
    const std::size_t missing = std::min(k_check_word - said_.size(), bytes.size());
    said_ += bytes.substr(0, missing);
    bytes.remove_prefix(missing);
    if (said_.size() < k_check_word) return true;
    return said_ == *word_ && answer(bytes);
  }

 private:
  bool answer(std::string_view bytes) {
    for (; !streams_ && !bytes.empty(); bytes.remove_prefix(1)) {
      streams_ = bytes.front() == k_ask_stream;
      if (!streams_ && !send_number(clock_microseconds())) return false;
    }
    received_ += static_cast<std::int64_t>(bytes.size());
    return true;
  }

  bool send_number(std::int64_t number) const {
    return ::send(descriptor_, &number, sizeof number, MSG_NOSIGNAL) == sizeof number;
  }

  int descriptor_;
  std::string address_;
  const std::string* word_;
  std::string said_;
  bool streams_ = false;
  std::int64_t received_ = 0;
};

std::string text_of(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int shown = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text.data(), text.size(),
                                  nullptr, 0, NI_NUMERICHOST);
  return shown == 0 ? text.data() : std::string();
}

// Closes, like AgentListener, the oldest stranger of the address that has most of them if there are too many.
bool make_room(std::vector<Answerer>& clients) {
  if (clients.size() < most_strangers(k_most_askers)) return true;
  std::map<std::string_view, std::size_t> counts;
  for (const Answerer& each : clients) counts[each.address()] += each.is_stranger() ? 1 : 0;
  const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  const auto oldest = std::ranges::find_if(
      clients, [&](const Answerer& each) { return each.is_stranger() && each.address() == most->first; });
  if (oldest == clients.end()) return false;
  ::close(oldest->descriptor());
  clients.erase(oldest);
  return true;
}

void accept_client(int listener, const std::string& word, std::vector<Answerer>& clients) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const int descriptor = ::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC);
  if (descriptor < 0) return;
  if (make_room(clients)) {
    clients.emplace_back(descriptor, text_of(address, size), word);
  } else {
    ::close(descriptor);
  }
}

std::optional<std::int64_t> read_number(TimedSocket& socket, Milliseconds limit) {
  std::int64_t number = 0;
  char bytes[sizeof number];
  if (!socket.read(bytes, sizeof bytes, limit)) return std::nullopt;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

// Measures the latency; false if an answer did not come.
bool measure_latency(TimedSocket& socket, Milliseconds limit, MeasuredConnection& measured) {
  const TimePoint start = std::chrono::steady_clock::now();
  for (int sample = 0; sample < k_samples; ++sample) {
    if (sample > 1 && std::chrono::steady_clock::now() - start > k_sampling) break;
    const std::int64_t sent = clock_microseconds();
    const TimePoint asked = std::chrono::steady_clock::now();
    if (!socket.write({&k_ask_time, 1}, limit)) return false;
    const auto there = read_number(socket, limit);
    if (!there) return false;
    const double time = seconds_since(asked);
    if (sample > 0 && time >= measured.latency) continue;
    measured.latency = time;
    measured.clock_offset = static_cast<double>(*there - sent) * 1e-6 - time / 2;
    measured.clock_uncertainty = time / 2;
  }
  return true;
}

void measure_rate(TimedSocket& socket, Milliseconds time, Milliseconds limit, MeasuredConnection& measured) {
  const std::string piece(k_piece, 'x');
  const TimePoint start = std::chrono::steady_clock::now();
  measured.stalled = !socket.write({&k_ask_stream, 1}, limit);
  while (!measured.stalled && std::chrono::steady_clock::now() - start < time)
    measured.stalled = socket.write_some(piece, limit) <= 0;
  if (measured.stalled || !socket.end_writing()) return;
  const auto arrived = read_number(socket, limit);
  measured.stalled = !arrived;
  if (arrived) measured.rate = static_cast<double>(*arrived) / seconds_since(start);
}

}  // namespace

void answer_checks(const BoundSocket& listener, const std::string& word) {
  std::vector<Answerer> clients;
  std::vector<char> buffer(k_piece);
  while (true) {
    std::vector<pollfd> entries{{listener.descriptor, POLLIN, 0}};
    for (const Answerer& each : clients) entries.push_back({each.descriptor(), POLLIN, 0});
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    for (std::size_t i = clients.size(); i > 0; --i) {
      if (entries[i].revents == 0 || clients[i - 1].take(buffer)) continue;
      ::close(clients[i - 1].descriptor());
      clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
    if (entries[0].revents != 0) accept_client(listener.descriptor, word, clients);
  }
}

MeasuredConnection measure_connection(const std::string& address, int port, const std::string& word,
                                      std::optional<Milliseconds> stream_for, Milliseconds limit) {
  MeasuredConnection measured;
  TimedSocket socket;
  measured.problem = socket.connect(address, port, limit);
  if (!measured.problem.empty()) return measured;
  measured.path_mtu = socket.path_mtu();
  if (!socket.write(word, limit) || !measure_latency(socket, limit, measured)) {
    measured.problem = "the node accepts the connection but does not answer";
    return measured;
  }
  if (stream_for) measure_rate(socket, *stream_for, limit, measured);
  return measured;
}

}  // namespace ddprun::net
