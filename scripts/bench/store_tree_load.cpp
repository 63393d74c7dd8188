// What a group of gloo or NCCL asks of the store, by the ranks themselves and by relays: prints one line of
// JSON. KIND is gloo or nccl.
//
//   store_tree_load KIND ranks PORT COUNT WORLD [FIRST]
//       ranks FIRST to FIRST + COUNT - 1 at a store or a relay
//   store_tree_load KIND root LINKS WORLD
//       a store (a process of its own) that LINKS relays ask
//   store_tree_load KIND relay WORLD
//       prints a relay's port and answers what it asks, until standard input ends; then what it has cost
//
// gloo: each rank SETs one value of 154 + 8 WORLD bytes (where host names have two letters), then WAITs twice
// for each rank's and GETs it (torch 2.13 and 2.15, measured). nccl: of each 128 ranks one SETs an id of 128
// bytes, and each rank WAITs for all ids and gets them by one MULTI_GET (read in torch 2.15, not measured).
// All connections between stores are sealed, as between hosts.
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/text.hpp"
#include "net/authentication.hpp"
#include "net/connection.hpp"
#include "net/store_server.hpp"
#include "rendezvous/codec.hpp"
#include "store/tree_message.hpp"

namespace {

using namespace ddprun;
using net::Tcp;
using Clock = std::chrono::steady_clock;
namespace asio = boost::asio;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void put_text(std::string& bytes, std::string_view text) {
  const std::uint64_t size = text.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += text;
}

std::string key_of(int number) { return fmt::format("/default_pg/0//cpu//0/{}", number); }

struct Pattern {
  bool nccl = false;
  int world = 0;

  int keys() const { return nccl ? (world + 127) / 128 : world; }
  bool sets(int rank) const { return !nccl || rank % 128 == 0; }
  std::string value() const {
    return std::string(nccl ? 128 : 154 + 8 * static_cast<std::size_t>(world), 'v');
  }
  std::string body_of_set(int rank) const {
    std::string body;
    put_text(body, key_of(nccl ? rank / 128 : rank));
    put_text(body, value());
    return body;
  }
};

// ---- ranks

struct Rank {
  int socket = -1;
  int peer = 0;            // whose value it asks for
  int step = 0;            // 0 and 1: WAIT, 2: GET
  std::uint64_t left = 0;  // bytes of the answer's value that are still to come
  std::string begun;       // of the value's length
  int values = 0;          // that have come of the answer
};

void send_all(int socket, const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0) throw std::runtime_error("the store has closed the connection");
    sent += static_cast<std::size_t>(count);
  }
}

void ask(Rank& rank, const Pattern& pattern) {
  std::string bytes(1, rank.step < 2 ? '\6' : pattern.nccl ? '\12' : '\3');
  const std::uint64_t count = pattern.nccl ? static_cast<std::uint64_t>(pattern.keys()) : 1;
  if (rank.step < 2 || pattern.nccl) bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
  for (int i = 0; i < static_cast<int>(count); ++i) put_text(bytes, key_of(rank.peer + i));
  send_all(rank.socket, bytes);
}

// False once it has everybody's value.
bool take(Rank& rank, std::string_view bytes, const Pattern& pattern) {
  while (!bytes.empty()) {
    if (rank.step == 2 && rank.begun.size() < sizeof(std::uint64_t)) {
      const std::size_t part = std::min(sizeof(std::uint64_t) - rank.begun.size(), bytes.size());
      rank.begun += bytes.substr(0, part);
      bytes.remove_prefix(part);
      if (rank.begun.size() < sizeof rank.left) return true;
      std::memcpy(&rank.left, rank.begun.data(), sizeof rank.left);
      continue;
    }
    const std::size_t part = rank.step < 2 ? 1 : std::min<std::size_t>(rank.left, bytes.size());
    bytes.remove_prefix(part);
    if (rank.step == 2 && (rank.left -= part) > 0) return true;
    rank.begun.clear();
    if (pattern.nccl && rank.step == 2 && ++rank.values < pattern.keys()) continue;
    if (pattern.nccl && rank.step == 2) return false;
    rank.step = pattern.nccl ? 2 : (rank.step + 1) % 3;
    if (rank.step == 0 && ++rank.peer == pattern.world) return false;
    ask(rank, pattern);
  }
  return true;
}

int connect_to(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("cannot connect");
  const int on = 1;
  ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

int run_ranks(const Pattern& pattern, int port, int count, int first) {
  std::vector<Rank> ranks(static_cast<std::size_t>(count));
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  for (Rank& rank : ranks) {
    rank.socket = connect_to(port);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &rank;
    ::epoll_ctl(poll, EPOLL_CTL_ADD, rank.socket, &event);
  }
  const auto begin = Clock::now();
  const std::string hello("\0\xCE\xF7\x85\x3C", 5);
  for (int i = 0; i < count; ++i) {
    Rank& rank = ranks[static_cast<std::size_t>(i)];
    send_all(rank.socket, hello);
    if (pattern.sets(first + i)) send_all(rank.socket, '\1' + pattern.body_of_set(first + i));
    ask(rank, pattern);
  }
  std::vector<char> input(256 * 1024);
  std::array<epoll_event, 256> events;
  double bytes = 0;
  for (int open = count; open > 0;) {
    const int ready = ::epoll_wait(poll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      Rank& rank = *static_cast<Rank*>(events[static_cast<std::size_t>(i)].data.ptr);
      const ssize_t size = ::recv(rank.socket, input.data(), input.size(), 0);
      if (size <= 0) throw std::runtime_error("the store has closed a connection");
      bytes += static_cast<double>(size);
      if (take(rank, {input.data(), static_cast<std::size_t>(size)}, pattern)) continue;
      ::close(rank.socket);
      --open;
    }
  }
  fmt::print("{{\"seconds\": {:.3f}, \"bytes\": {:.0f}}}\n", seconds_since(begin), bytes);
  return 0;
}

// ---- stores of a tree

struct Pair {
  Tcp::socket above;
  Tcp::socket below;
};

Pair make_pair(asio::io_context& context) {
  Tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  Pair pair{Tcp::socket(context), Tcp::socket(context)};
  pair.below.connect(acceptor.local_endpoint());
  acceptor.accept(pair.above);
  return pair;
}

// The same at both ends of all links, which is enough for bytes that nobody else reads.
rendezvous::SessionKeys keys_of(const SecretKey& key) { return {key, key}; }

std::shared_ptr<net::Connection> begin(
    Tcp::socket socket, const SecretKey& key, std::function<void(const std::string&)> hear,
    std::function<void()> drained = [] {}) {
  auto connection = std::make_shared<net::Connection>(std::move(socket), keys_of(key));
  net::Connection::Hooks hooks;
  hooks.on_frame = std::move(hear);
  hooks.on_closed = [](const std::string&, rendezvous::ConnectionEnd) {};
  hooks.on_drained = std::move(drained);
  connection->start(std::move(hooks), {});
  return connection;
}

void send(net::Connection& connection, const std::string& bytes) {
  constexpr std::size_t k_piece = 256 * 1024;
  for (std::size_t at = 0; at < bytes.size(); at += k_piece)
    connection.send(rendezvous::make_frame(std::string_view(bytes).substr(at, k_piece)));
}

void serve_root(asio::io_context& context, std::vector<Pair>& pairs, const SecretKey& key) {
  net::StoreServer server(context, {});
  for (Pair& pair : pairs) {
    pair.below.close();
    auto link = std::make_shared<store::StoreLink>();
    *link = server.links().add_child(begin(
        std::move(pair.above), key,
        [&server, link](const std::string& bytes) {
          server.links().hear(*link, bytes);
          server.flush();
        },
        [&server, link] { server.links().note_drained(*link); }));
  }
  context.run();
}

int run_root(const Pattern& pattern, int links) {
  asio::io_context context;
  std::vector<Pair> pairs;
  for (int i = 0; i < links; ++i) pairs.push_back(make_pair(context));
  const SecretKey key = net::make_random_key();
  context.notify_fork(asio::execution_context::fork_prepare);
  const pid_t store = ::fork();
  context.notify_fork(store == 0 ? asio::execution_context::fork_child
                                 : asio::execution_context::fork_parent);
  if (store == 0) {
    serve_root(context, pairs, key);
    ::_exit(0);
  }
  double bytes = 0;
  int missing = links * pattern.keys();
  const auto begun = Clock::now();
  std::vector<std::shared_ptr<net::Connection>> connections;
  std::vector<store::TreeReader> readers(static_cast<std::size_t>(links));
  for (int i = 0; i < links; ++i) {
    Pair& pair = pairs[static_cast<std::size_t>(i)];
    pair.above.close();
    connections.push_back(begin(std::move(pair.below), key, [&, i](const std::string& frame) {
      bytes += static_cast<double>(frame.size());
      readers[static_cast<std::size_t>(i)].receive(frame, {}, [&](const store::TreeMessage&) {
        --missing;
        return true;
      });
      if (missing == 0) context.stop();
    }));
    std::string asked;
    for (int rank = i; rank < pattern.world; rank += links) {
      if (!pattern.sets(rank)) continue;
      const std::string body = pattern.body_of_set(rank);
      store::write_message(asked, {.kind = store::TreeMessageKind::request,
                                   .channel = static_cast<std::uint32_t>(rank + 1),
                                   .operation = store::StoreOperation::set,
                                   .text = body});
    }
    for (int number = 0; number < pattern.keys(); ++number) {
      const std::string name = key_of(number);
      store::write_message(asked, {.kind = store::TreeMessageKind::want, .key = name});
    }
    send(*connections.back(), asked);
  }
  context.run();
  const double took = seconds_since(begun);
  ::kill(store, SIGTERM);
  rusage usage{};
  ::wait4(store, nullptr, 0, &usage);
  const auto cpu = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  fmt::print("{{\"seconds\": {:.3f}, \"bytes\": {:.0f}, \"cpu\": {:.3f}, \"MiB\": {}}}\n", took, bytes,
             cpu(usage.ru_utime) + cpu(usage.ru_stime), usage.ru_maxrss / 1024);
  return 0;
}

// The relay and its parent, which has all values, share this process: what the ranks wait for is the relay.
int run_relay(const Pattern& pattern) {
  asio::io_context context;
  net::StoreServerOptions options;
  options.relay = true;
  net::StoreServer relay(context, options);
  Pair pair = make_pair(context);
  const SecretKey key = net::make_random_key();
  relay.links().set_parent(begin(
      std::move(pair.below), key,
      [&](const std::string& frame) {
        relay.links().hear(store::k_parent_link, frame);
        relay.flush();
      },
      [&] {
        relay.links().note_drained(store::k_parent_link);
        relay.flush();
      }));
  const std::string value = pattern.value();
  store::TreeReader reader;
  std::shared_ptr<net::Connection> parent;
  double bytes = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> requests;
  parent = begin(std::move(pair.above), key, [&](const std::string& frame) {
    std::string answers;
    reader.receive(frame, {}, [&](const store::TreeMessage& message) {
      if (message.kind == store::TreeMessageKind::want)
        store::write_message(answers,
                             {.kind = store::TreeMessageKind::have, .key = message.key, .text = value});
      if (message.kind != store::TreeMessageKind::request) return true;
      const std::uint32_t number = ++requests[message.channel];
      if (message.operation == store::StoreOperation::wait)  // the first behind a rank's SET
        store::write_message(answers, {.kind = store::TreeMessageKind::reply,
                                       .channel = message.channel,
                                       .number = number,
                                       .idle = true,
                                       .text = std::string_view("\0", 1)});
      return true;
    });
    bytes += static_cast<double>(answers.size());
    send(*parent, answers);
  });
  fmt::print("{}\n", relay.port());
  std::fflush(stdout);
  asio::posix::stream_descriptor input(context, 0);
  std::array<char, 64> ignored;
  input.async_read_some(asio::buffer(ignored), [&](const auto&, std::size_t) { context.stop(); });
  context.run();
  fmt::print("{{\"bytes\": {:.0f}}}\n", bytes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const auto number = [&](std::size_t i) {
    return i < words.size() ? static_cast<int>(parse_integer(words[i]).value_or(0)) : 0;
  };
  try {
    const bool nccl = !words.empty() && words[0] == "nccl";
    if (words.size() >= 5 && words[1] == "ranks")
      return run_ranks({nccl, number(4)}, number(2), number(3), number(5));
    if (words.size() == 4 && words[1] == "root") return run_root({nccl, number(3)}, number(2));
    if (words.size() == 3 && words[1] == "relay") return run_relay({nccl, number(2)});
  } catch (const std::exception& error) {
    fmt::print(stderr, "store_tree_load: {}\n", error.what());
    return 1;
  }
  fmt::print(stderr, "store_tree_load: see the first lines of its source for how it is called\n");
  return 2;
}
