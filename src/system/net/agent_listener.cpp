#include "net/agent_listener.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"
#include "net/authentication.hpp"
#include "net/timers.hpp"

namespace ddprun::net {

namespace {

using Code = boost::system::error_code;

constexpr std::chrono::milliseconds k_retry{200};
// A ddprun greets at once. A c10d client of torch before 2.1 opens a second connection and may never speak
// there.
constexpr Milliseconds k_silence_of_foreigners{1000};
// Limits of what is reported: reasons per address, and addresses. A refused process may connect 10,000 times
// a second.
constexpr std::size_t k_most_reasons = 4, k_most_refused = 256;

// Whole clusters knock at once.
constexpr std::size_t k_most_strangers = 4096;

int take_bound(Tcp::acceptor& acceptor, const BoundSocket& socket) {
  acceptor.assign(socket.ipv6 ? Tcp::v6() : Tcp::v4(), socket.descriptor);
  return socket.port;
}

int bind_first_free(Tcp::acceptor& acceptor, const std::vector<int>& ports, const std::string& hint) {
  std::vector<std::pair<std::string, std::vector<int>>> problems;  // the ports that have it
  bool taken = true;
  for (const int port : ports) {
    const BoundSocket socket = bind_port(port, Tcp::acceptor::max_listen_connections);
    if (socket.error == 0) {
      return take_bound(acceptor, socket);
    }
    const std::string why = describe_error(Code(socket.error, boost::system::system_category()));
    if (problems.empty() || problems.back().first != why) problems.push_back({why, {}});
    problems.back().second.push_back(port);
    taken = taken && socket.error == EADDRINUSE;
  }
  std::vector<std::string> texts;
  for (const auto& [why, those] : problems)
    texts.push_back(fmt::format("{} ({})", fmt::join(those, ", "), why));
  const std::string what = fmt::format("cannot listen for the other nodes on port {}", join(texts, ", "));
  const std::string remedy = "another program uses the port, perhaps an earlier run; " +
                             (hint.empty() ? "choose another port with --master-port" : hint);
  if (taken) throw PortTaken(what, remedy);
  throw Error(what, remedy);
}

}  // namespace

// The store and the workers' pipes need descriptors too.
std::size_t most_strangers(std::size_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return most;
  return std::min<std::size_t>(most, std::max<rlim_t>(limit.rlim_cur / 8, 1));
}

AgentListener::AgentListener(boost::asio::io_context& context, AgentListenerSettings settings,
                             AgentListenerHooks hooks)
    : settings_(std::move(settings)), hooks_(std::move(hooks)), acceptor_(context), retry_(context) {
  if (settings_.max_strangers == 0) settings_.max_strangers = most_strangers(k_most_strangers);
  port_ = settings_.bound ? take_bound(acceptor_, *settings_.bound)
                          : bind_first_free(acceptor_, settings_.ports, settings_.port_hint);
}

void AgentListener::start() { accept(); }

void AgentListener::close() {
  Code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  for (const Stranger& stranger : std::exchange(strangers_, {})) stranger.conversation->cancel();
}

void AgentListener::accept() {
  if (accepting_ || !acceptor_.is_open()) return;
  accepting_ = true;
  acceptor_.async_accept([weak = weak_from_this()](const Code& error, Tcp::socket socket) {
    const auto self = weak.lock();
    if (!self || error == boost::asio::error::operation_aborted) return;
    self->accepting_ = false;
    // Out of descriptors or memory: the connection stays in the kernel's queue until there are some again.
    if (error && error != boost::asio::error::connection_aborted) return self->pause();
    if (!error) self->admit(std::move(socket));
    self->accept();
  });
}

void AgentListener::pause() {
  call_after(retry_, k_retry, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self) self->accept();
  });
}

void AgentListener::admit(Tcp::socket socket) {
  const std::string address = remote_address(socket);
  watch_connection(socket, settings_.host_timeout);
  make_room();
  const auto place = strangers_.insert(strangers_.end(), {address, nullptr});
  ++counts_[address];
  place->conversation = std::make_shared<Authentication>(
      std::move(socket),
      rendezvous::Handshake(rendezvous::HandshakeRole::coordinator, settings_.launch_key, make_key_exchange(),
                            settings_.authenticator),
      AuthenticationLimits{settings_.handshake_limit,
                           hooks_.on_foreign ? k_silence_of_foreigners : settings_.handshake_limit},
      [weak = weak_from_this(), place](AuthenticationResult result) {
        const auto self = weak.lock();
        if (!self) return;
        const std::string from = place->address;
        place->refused = result.state == rendezvous::HandshakeStep::State::failed;
        if (!place->refused) self->forget(place);
        self->conclude(from, std::move(result));
      },
      [weak = weak_from_this(), place] {
        if (const auto self = weak.lock()) self->forget(place);
      });
  place->conversation->start();
}

void AgentListener::make_room() {
  if (strangers_.size() < settings_.max_strangers) return;
  const auto most = std::max_element(counts_.begin(), counts_.end(), [](const auto& one, const auto& other) {
    return one.second < other.second;
  });
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(),
                                   [&](const Stranger& stranger) { return stranger.address == most->first; });
  oldest->conversation->cancel();
  const Stranger gone = *oldest;
  forget(oldest);
  if (!gone.refused) refuse(gone.address, "too many unauthenticated connections");
}

void AgentListener::refuse(const std::string& address, const std::string& why) {
  const auto known = told_.find(address);
  if (known == told_.end() && told_.size() >= k_most_refused) return;
  std::set<std::string>& reasons = known == told_.end() ? told_[address] : known->second;
  if (reasons.size() >= k_most_reasons || !reasons.insert(why).second) return;
  hooks_.on_refused(address, why);
}

void AgentListener::forget(std::list<Stranger>::iterator stranger) {
  const auto count = counts_.find(stranger->address);
  if (--count->second == 0) counts_.erase(count);
  strangers_.erase(stranger);
}

void AgentListener::conclude(const std::string& address, AuthenticationResult result) {
  using State = rendezvous::HandshakeStep::State;
  if (result.state == State::done) return hooks_.on_agent(std::move(result));
  if (result.state == State::foreign && hooks_.on_foreign && hooks_.on_foreign(result.socket, result.text)) {
    return;
  }
  if (result.state != State::foreign) return refuse(address, result.text);
  refuse(address, result.text.empty() ? "it sent nothing"
                                      : fmt::format("it is not ddprun (its first bytes: {})",
                                                    printable(result.text.substr(0, 16))));
}

}  // namespace ddprun::net
