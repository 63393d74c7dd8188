#include "agent/job_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "console/console.hpp"
#include "net/tcp_tools.hpp"
#include "net/timers.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/system_failure.hpp"
#include "rendezvous/coordinator_address.hpp"

namespace ddprun::agent {

namespace {

constexpr int k_ports_kept = 16;  // ports kept; further attempts use them in turn
constexpr int k_highest_port = 65535;
constexpr std::uint64_t k_memory = std::uint64_t{16} << 30;  // assumed if the host does not show it
// Addresses, each once an attempt: strangers shall make neither noise nor load.
constexpr std::size_t k_refusals_told = 8;
constexpr std::size_t k_strange_addresses = 16;
// Connections at once.
constexpr std::size_t k_waiting_of_stranger = 16;
constexpr std::size_t k_waiting_of_host = 4096;

}  // namespace

JobStore::JobStore(boost::asio::io_context& context, JobStoreSettings settings)
    : context_(context), settings_(std::move(settings)), silence_(context) {}

void JobStore::allow(const std::vector<std::string>& addresses) {
  for (const std::string& text : addresses) {
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(text, error);
    if (!error) allowed_.insert(address);
  }
}

net::Admission JobStore::admit(const net::TcpEnds& ends) {
  if (settings_.access == options::StoreAccess::host) return admit_by_host(ends);
  const rendezvous::Holder holder = net::find_holder(ends, ::geteuid());
  const auto& client = ends.client.address();
  if (holder == rendezvous::Holder::own) return net::Admission::yes;
  if (holder == rendezvous::Holder::foreign) return refuse(client, holder);
  if (!client.is_loopback()) return ask_about(ends);
  if (holder == rendezvous::Holder::elsewhere) return refuse(client, holder);
  tell_unproven(client);
  return net::Admission::yes;
}

net::Admission JobStore::admit_by_host(const net::TcpEnds& ends) {
  const auto& client = ends.client.address();
  const bool known = client.is_loopback() || allowed_.contains(client) || admitted_.contains(client);
  return known ? net::Admission::yes : ask_about(ends);
}

// Admits or asks about a connection. Strangers must neither make load nor keep the job's own workers out.
net::Admission JobStore::ask_about(const net::TcpEnds& ends) {
  const auto& client = ends.client.address();
  const bool announced = allowed_.contains(client);
  const bool new_address = !announced && strange_.size() < k_strange_addresses &&
                           rendezvous::crosses_hosts(client.to_string()) && strange_.insert(client).second;
  const bool may_ask = ask_ && (announced || new_address || strange_.contains(client)) &&
                       waiting_[client] < (announced ? k_waiting_of_host : k_waiting_of_stranger);
  if (!may_ask) return refuse(client, rendezvous::Holder::elsewhere);
  unjudged_.insert(ends);
  ++waiting_[client];
  ask_({net::as_text(ends), settings_.access});
  return net::Admission::wait;
}

void JobStore::judge(const rendezvous::ClientVerdict& verdict) {
  const auto ends = net::from_text(verdict.connection);
  if (!ends || unjudged_.erase(*ends) == 0) return;
  const auto& client = ends->client.address();
  --waiting_[client];
  const bool unproven = verdict.holder == rendezvous::Holder::unknown && allowed_.contains(client);
  const bool good = verdict.holder == rendezvous::Holder::own || unproven;
  if (unproven) tell_unproven(client);
  if (good && !allowed_.contains(client) && admitted_.insert(client).second)
    console::say_detail(
        fmt::format("the store admits {}, a new address of a host of the job", client.to_string()));
  if (!good) refuse(client, verdict.holder);
  if (server_) server_->decide(*ends, good);
}

net::Admission JobStore::refuse(const boost::asio::ip::address& address, rendezvous::Holder holder) {
  if (told_.size() >= k_refusals_told || !told_.insert(address).second) return net::Admission::no;
  const bool known = address.is_loopback() || allowed_.contains(address);
  const char* const why = holder == rendezvous::Holder::foreign ? "which belongs to another user"
                          : known                               ? "which no process of the job's user holds"
                                  : "which is not an address of the job's nodes";
  console::say_notice(
      fmt::format("the store refused a connection from {}, {}", address.to_string(), why),
      known ? "if a worker in a container with its own network or user namespace opened it, add "
              "--store-access host, which accepts all processes on the job's nodes"
            : "");
  return net::Admission::no;
}

void JobStore::tell_unproven(const boost::asio::ip::address& address) {
  if (std::exchange(unproven_told_, true)) return;
  console::say_notice(
      fmt::format("the store cannot check which user connects from {}, since the kernel there does "
                  "not report it; it accepts all processes on that node",
                  address.to_string()),
      "allow NETLINK_SOCK_DIAG or /proc/net/tcp there, or add --store-access host");
}

// Says why a connection was closed: the protocol has no answer that carries a reason, and torch raises an
// exception about a closed connection.
void JobStore::tell_closed(const std::string& what, bool memory) {
  if (++closed_told_ > k_refusals_told) {
    const bool power_of_two = (closed_told_ & (closed_told_ - 1)) == 0;  // they may be thousands a second
    return power_of_two ? console::say_detail(fmt::format("{} ({} such)", what, closed_told_)) : void();
  }
  console::say_notice(what,
                      memory ? "raise --store-memory, as in 8G, or send large data by collectives" : "");
}

int JobStore::open(Attempt attempt, bool worker_hosts) {
  close();
  served_ = false;
  const auto take = worker_hosts ? &JobStore::keep : &JobStore::serve;
  if (!settings_.port && settings_.range) return first_free_of(*settings_.range, take);
  if (!settings_.port) return (this->*take)(0);
  if (settings_.port_is_shared && attempt.value == 0 && !worker_hosts) {
    shared_open_ = true;
    serve(0);
    return *settings_.port;
  }
  if (attempt.value == 0 && !settings_.port_is_shared) return take_exactly(*settings_.port, take);
  // The rendezvous has the first port, so a worker's store takes its turn one later.
  const int turn = std::max(next_turn_, attempt.value + (settings_.port_is_shared && worker_hosts ? 1 : 0));
  return first_free(*settings_.port, turn, take);
}

int JobStore::take_exactly(int port, int (JobStore::*take)(int)) {
  try {
    return (this->*take)(port);
  } catch (const Error& error) {
    throw Error(error.what(), settings_.port_hint);
  }
}

int JobStore::first_free(int port, int turn, int (JobStore::*take)(int)) {
  const int span = std::min(k_port_span, k_highest_port - port + 1);
  for (int i = 0; i < span; ++i) {
    try {
      const int chosen = (this->*take)(port + (turn + i) % span);
      next_turn_ = turn + i + 1;
      return chosen;
    } catch (const Error&) {  // taken: the next one
      continue;
    }
  }
  const int chosen = (this->*take)(0);
  console::say_notice(fmt::format("no port from {} to {} is free for the store, so it listens on {}", port,
                                  port + span - 1, chosen),
                      "choose another --master-port if a firewall is in between");
  return chosen;
}

// Takes the first free port from the end of the range: the agents of other launches begin anywhere in it.
int JobStore::first_free_of(std::pair<int, int> range, int (JobStore::*take)(int)) {
  for (int candidate = range.second; candidate >= range.first; --candidate) {
    try {
      return (this->*take)(candidate);
    } catch (const Error&) {  // taken: the next one
      continue;
    }
  }
  throw Error(
      fmt::format("no port of the site's range, {} to {}, is free for the store", range.first, range.second),
      "widen the range in the site's profile, or choose a --master-port");
}

int JobStore::serve(int port) {
  net::StoreServerOptions options;
  options.port = port;
  options.old_dialect = old_dialect_;
  options.admit = [this](const net::TcpEnds& ends) { return admit(ends); };
  options.connected = connected_;
  options.limits.memory =
      settings_.memory > 0 ? settings_.memory : os::usable_memory().value_or(k_memory) / 4;
  options.report = [this](const std::string& what, bool memory) { tell_closed(what, memory); };
  server_ = std::make_unique<net::StoreServer>(context_, std::move(options));
  served_ = true;
  reached_ = false;
  listen_for_silence();
  return server_->port();
}

// Keeps the port for the worker of rank 0, which will listen there.
int JobStore::keep(int port) {
  const net::BoundSocket socket = net::bind_port(port, 0);
  if (socket.error != 0) {
    throw Error(fmt::format("cannot use port {}: {}", port, os::describe_errno(socket.error)));
  }
  kept_.emplace_back(socket.descriptor);
  return socket.port;
}

std::vector<int> JobStore::keep_ports(int count) {
  std::vector<int> ports;
  auto range = settings_.range;
  for (int i = 0; i < std::min(count, k_ports_kept); ++i) {
    ports.push_back(range ? first_free_of(*range, &JobStore::keep) : keep(0));
    // A port that is bound and not listened at could be bound again.
    if (range) range->second = ports.back() - 1;
  }
  return ports;
}

void JobStore::listen_for_silence() {
  if (!settings_.on_silence) return;
  net::call_after(silence_, settings_.silence, [this] {
    if (!server_ || server_->reached()) return;
    const auto ask = std::exchange(settings_.on_silence, nullptr);
    if (ask) ask();
  });
}

void JobStore::close() {
  silence_.cancel();
  if (server_) {
    reached_ = server_->reached();
    server_->close();
  }
  server_.reset();
  for (Addresses* judged : {&strange_, &admitted_, &told_}) judged->clear();
  closed_told_ = 0;
  unjudged_.clear();
  waiting_.clear();
  kept_.clear();
  shared_open_ = false;
}

bool JobStore::adopt(boost::asio::ip::tcp::socket& socket, std::string& first_bytes) {
  if (!shared_open_ || !server_) return false;
  server_->adopt(std::move(socket), std::move(first_bytes));
  return true;
}

}  // namespace ddprun::agent
