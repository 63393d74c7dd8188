#include "os/status_socket.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

#include "base/text.hpp"
#include "os/descriptors.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

std::string_view prefix_of(Asks asks) {
  if (asks == Asks::restart) return "ddprun/restart/";
  if (asks == Asks::profile) return "ddprun/profile/";
  return asks == Asks::stacks ? "ddprun/stacks/" : "ddprun/status/";
}
constexpr std::size_t k_largest_table = std::size_t{64} << 20;
constexpr std::size_t k_largest_answer = std::size_t{64} << 20;

struct Asked {
  std::string name;
  Fd socket;
  std::string answer;
  bool complete = false;
};

std::optional<ucred> peer_of(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

Fd connect_to_any(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) return {};
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const bool connected = socket && ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0;
  return connected ? std::move(socket) : Fd();
}

Fd connect_to(const std::string& name) {
  Fd socket = connect_to_any(name);
  return socket && is_of_this_user(socket.get()) ? std::move(socket) : Fd();
}

// Reads some; false when there is no more to come.
bool read_some(Asked& asked) {
  std::array<char, 65536> buffer;
  const ssize_t length = ::read(asked.socket.get(), buffer.data(), buffer.size());
  if (length < 0) return errno == EAGAIN || errno == EINTR;
  asked.answer.append(buffer.data(), static_cast<std::size_t>(length));
  asked.complete = length == 0;
  return length > 0 && asked.answer.size() < k_largest_answer;
}

// Sends a request, which is short and fits into the socket's buffer, and its end.
bool send_request(const Fd& socket, const std::string& request) {
  const ssize_t sent = ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(request.size()) && ::shutdown(socket.get(), SHUT_WR) == 0;
}

}  // namespace

std::string status_socket_name(int pid, Asks asks) {
  return fmt::format("{}{}/{}", prefix_of(asks), ::geteuid(), pid);
}

bool is_of_this_user(int descriptor) {
  const auto peer = peer_of(descriptor);
  return peer && (peer->uid == ::geteuid() || peer->uid == 0);
}

std::string describe_peer(int descriptor, const std::string& own) {
  const auto peer = peer_of(descriptor);
  if (!peer) return own;
  const std::string name = peer->uid == ::geteuid() ? own : "root";
  return peer->pid > 0 ? fmt::format("{} (pid {})", name, peer->pid) : name;
}

std::string process_of_status_socket(const std::string& name) {
  const std::vector<std::string> parts = split(name, '/');
  return parts.size() > 3 ? parts[3] : std::string();
}

std::optional<unsigned> find_other_owner(const std::string& name) {
  const Fd socket = connect_to_any(name);
  const auto peer = socket ? peer_of(socket.get()) : std::nullopt;
  if (!peer || peer->uid == ::geteuid() || peer->uid == 0) return std::nullopt;
  return peer->uid;
}

std::vector<std::string> parse_status_sockets(std::string_view table, unsigned user, Asks asks) {
  const std::string prefix = fmt::format("@{}{}/", prefix_of(asks), user);
  std::set<std::string> names;  // a listening socket and each connection to it have a line
  for (const std::string& line : split(table, '\n')) {
    const std::vector<std::string> words = split_words(line);
    if (!words.empty() && words.back().starts_with(prefix)) names.insert(words.back().substr(1));
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> list_status_sockets(Asks asks) {
  return parse_status_sockets(try_read_file("/proc/net/unix", k_largest_table).value_or(""), ::geteuid(),
                              asks);
}

StatusAnswers ask_status_sockets(const std::vector<std::string>& names, Milliseconds limit,
                                 const std::string& request) {
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  std::vector<Asked> asked;
  StatusAnswers answers;
  for (const std::string& name : names) {
    Fd socket = connect_to(name);
    if (socket && (request.empty() || send_request(socket, request)))
      asked.push_back({name, std::move(socket), {}});
  }
  while (!asked.empty()) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    std::vector<pollfd> polled;
    for (const Asked& each : asked) polled.push_back({each.socket.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) break;
    for (std::size_t i = polled.size(); i-- > 0;) {
      if (polled[i].revents == 0 || read_some(asked[i])) continue;
      if (asked[i].complete) answers.texts.push_back(std::move(asked[i].answer));
      asked.erase(asked.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  for (Asked& each : asked) answers.silent.push_back(std::move(each.name));
  return answers;
}

}  // namespace ddprun::os
