#include "ddprun/net/agent_listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/net/key_prover.hpp"
#include "ddprun/rendezvous/address_choice.hpp"

namespace ddprun {

namespace {

using Code = boost::system::error_code;

constexpr std::chrono::milliseconds k_retry{200};

// [::] takes IPv4 too; a host without IPv6 has 0.0.0.0.
Code listen_on(Tcp::acceptor& acceptor, const Tcp& protocol, int port) {
  Code error;
  acceptor.open(protocol, error);
  if (!error && protocol == Tcp::v6()) acceptor.set_option(boost::asio::ip::v6_only(false), error);
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind({protocol, static_cast<unsigned short>(port)}, error);
  if (!error) acceptor.listen(Tcp::acceptor::max_listen_connections, error);
  Code ignored;
  if (error) acceptor.close(ignored);
  return error;
}

int bind_first_free(Tcp::acceptor& acceptor, const std::vector<int>& ports) {
  std::vector<std::string> problems;
  for (const int port : ports) {
    Code error = listen_on(acceptor, Tcp::v6(), port);
    if (error && error != boost::asio::error::address_in_use) error = listen_on(acceptor, Tcp::v4(), port);
    if (!error) return acceptor.local_endpoint().port();
    problems.push_back(fmt::format("{} ({})", port, describe_error(error)));
  }
  throw Error(fmt::format("cannot listen for the other nodes on port {}", join(problems, ", ")),
              "another program holds it, perhaps an earlier run; choose another one with --master-port");
}

}  // namespace

AgentListener::AgentListener(boost::asio::io_context& context, AgentListenerSettings settings,
                             AgentListenerHooks hooks)
    : settings_(std::move(settings)), hooks_(std::move(hooks)), acceptor_(context), retry_(context) {
  port_ = bind_first_free(acceptor_, settings_.ports);
}

void AgentListener::start() { accept(); }

void AgentListener::close() {
  Code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  for (const auto& stranger : std::exchange(strangers_, {})) stranger->cancel();
}

void AgentListener::accept() {
  if (accepting_ || !acceptor_.is_open() || strangers_.size() >= settings_.max_strangers) return;
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
  retry_.expires_after(k_retry);
  retry_.async_wait([weak = weak_from_this()](const Code& error) {
    const auto self = weak.lock();
    if (self && !error) self->accept();
  });
}

void AgentListener::admit(Tcp::socket socket) {
  const std::string address = remote_address(socket);
  const auto& allowed = settings_.allowed;
  const auto is_peer = [&address](const std::string& peer) { return plain_address(peer) == address; };
  if (!allowed.empty() && std::none_of(allowed.begin(), allowed.end(), is_peer)) {
    return hooks_.on_refused(address, "it is not a host of this job");
  }
  watch_connection(socket);
  auto slot = std::make_shared<std::weak_ptr<Authentication>>();
  const auto stranger = std::make_shared<Authentication>(
      std::move(socket),
      Handshake(HandshakeRole::coordinator, settings_.launch_key, make_nonce(), settings_.prover),
      settings_.handshake_limit, [weak = weak_from_this(), slot, address](AuthenticationResult result) {
        const auto self = weak.lock();
        if (!self) return;
        self->strangers_.erase(slot->lock());
        self->conclude(address, std::move(result));
        self->accept();
      });
  *slot = stranger;
  strangers_.insert(stranger);
  stranger->start();
}

void AgentListener::conclude(const std::string& address, AuthenticationResult result) {
  using State = HandshakeStep::State;
  if (result.state == State::done) {
    return hooks_.on_agent(std::move(result.socket), std::move(result.text));
  }
  if (result.state == State::foreign && hooks_.on_foreign) {
    return hooks_.on_foreign(std::move(result.socket), std::move(result.text));
  }
  hooks_.on_refused(address, result.state == State::foreign
                                 ? fmt::format("it is not ddprun (its first bytes: {})",
                                               printable(result.text.substr(0, 16)))
                                 : result.text);
}

}  // namespace ddprun
