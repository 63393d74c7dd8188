// store_load HOST PORT CONNECTIONS SECONDS: loads a c10d store the way many ranks do and prints JSON.
//
// Every connection repeats, each time waiting for the answer as torch's client does: SET and WAIT, GET, ADD.
// The connections are served by one thread over epoll with raw sockets, so that the generator costs as little
// as it can. With SECONDS 0 it opens the connections, prints, and holds them until standard input ends.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t k_value_size = 64;
constexpr std::size_t k_steps = 3;

template <class Number>
void put(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, const std::string& text) {
  put(bytes, std::uint64_t{text.size()});
  bytes += text;
}

std::string request(char number, const std::string& key) {
  std::string bytes(1, number);
  put_text(bytes, key);
  return bytes;
}

// What one connection sends over and over, and how many bytes answer each step.
struct Script {
  std::array<std::string, k_steps> steps;
  static constexpr std::array<std::size_t, k_steps> k_answers{1, 8 + k_value_size, 8};
  static constexpr std::array<std::size_t, k_steps> k_requests{2, 1, 1};

  explicit Script(int number) {
    const std::string key = "/load/" + std::to_string(number);
    steps[0] = request(1, key);
    put_text(steps[0], std::string(k_value_size, 'v'));
    steps[0] += '\6';
    put(steps[0], std::uint64_t{1});
    put_text(steps[0], key);
    steps[1] = request(3, key);
    steps[2] = request(4, "/load/counter");
    put(steps[2], std::int64_t{1});
  }
};

struct Connection {
  int descriptor;
  Script script;
  std::size_t step = 0;
  std::size_t awaited = 0;
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int connect_to(const char* host, int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (descriptor < 0 || ::inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("socket");
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail("connect");
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // VALIDATE with its magic number, then PING, as torch's client; the echo shows that the server has
  // accepted.
  constexpr std::array<unsigned char, 10> k_hello{0, 0xCE, 0xF7, 0x85, 0x3C, 13, 1, 2, 3, 4};
  std::array<char, 4> echo{};
  if (::send(descriptor, k_hello.data(), k_hello.size(), 0) != std::ssize(k_hello)) fail("send");
  if (::recv(descriptor, echo.data(), echo.size(), MSG_WAITALL) != std::ssize(echo)) fail("hello");
  return descriptor;
}

void send_step(Connection& connection) {
  const std::string& bytes = connection.script.steps[connection.step];
  const ssize_t sent = ::send(connection.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != std::ssize(bytes)) fail("send");
  connection.awaited = Script::k_answers[connection.step];
}

// The requests answered.
std::size_t read_answer(Connection& connection) {
  std::array<char, 4096> buffer;
  const ssize_t count = ::recv(connection.descriptor, buffer.data(), buffer.size(), 0);
  if (count <= 0) fail("recv");
  connection.awaited -= static_cast<std::size_t>(count);
  if (connection.awaited > 0) return 0;
  const std::size_t answered = Script::k_requests[connection.step];
  connection.step = (connection.step + 1) % k_steps;
  return answered;
}

std::size_t load(std::vector<Connection>& connections, std::chrono::seconds duration) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  for (std::size_t i = 0; i < connections.size(); ++i) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i].descriptor, &event);
    send_step(connections[i]);
  }
  std::size_t answered = 0;
  std::array<epoll_event, 256> events;
  for (const auto end = Clock::now() + duration; Clock::now() < end;) {
    const int count = ::epoll_wait(epoll, events.data(), std::ssize(events), 1000);
    for (int i = 0; i < count; ++i) {
      Connection& connection = connections[events[static_cast<std::size_t>(i)].data.u64];
      answered += read_answer(connection);
      if (connection.awaited == 0) send_step(connection);
    }
  }
  return answered;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int wanted = std::atoi(argv[3]);
  const std::chrono::seconds duration(std::atoi(argv[4]));
  std::vector<Connection> connections;
  for (int i = 0; i < wanted; ++i)
    connections.push_back({connect_to(argv[1], std::atoi(argv[2])), Script(i)});
  if (duration.count() == 0) {
    fmt::print("{{\"connections\": {}}}\n", wanted);
    std::fflush(stdout);
    return std::getchar() == EOF ? 0 : 1;
  }
  const auto start = Clock::now();
  const std::size_t answered = load(connections, duration);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("{{\"connections\": {}, \"requests\": {}, \"seconds\": {:.3f}}}\n", wanted, answered, seconds);
  return 0;
}
