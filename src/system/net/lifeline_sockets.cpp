#include "net/lifeline_sockets.hpp"

#include <boost/asio/buffer.hpp>
#include <utility>

#include "base/text.hpp"
#include "net/connection.hpp"
#include "net/timers.hpp"

namespace ddprun::net {

namespace {

constexpr std::chrono::milliseconds k_telling_limit{1000};

}  // namespace

LifelineClient::LifelineClient(boost::asio::io_context& context, rendezvous::FrontEndAddress front_end,
                               rendezvous::Authenticator authenticator, rendezvous::lifeline::Hello hello,
                               Hooks hooks, Milliseconds host_timeout)
    : authenticator_(std::move(authenticator)),
      hello_(std::move(hello)),
      hooks_(std::move(hooks)),
      host_timeout_(host_timeout),
      timer_(context),
      dial_(context, std::move(front_end), authenticator_, host_timeout,
            [this](AuthenticationResult result) { conclude(std::move(result)); }) {}

LifelineClient::~LifelineClient() {
  if (connection_) connection_->close();
}

void LifelineClient::start() { dial_.start(); }

void LifelineClient::conclude(AuthenticationResult result) {
  if (result.state != rendezvous::HandshakeStep::State::done) return hooks_.on_unreachable(result.text);
  connection_ = std::make_shared<Connection>(std::move(result.socket), result.keys, host_timeout_);
  connection_->send(encode(rendezvous::lifeline::Message(hello_)));
  Connection::Hooks hooks;
  hooks.on_frame = [this](const std::string& payload) { take(payload); };
  hooks.on_closed = [this](const std::string& why, rendezvous::ConnectionEnd) {
    connection_.reset();
    told_ ? std::exchange(told_, nullptr)() : hooks_.on_gone(why);
  };
  connection_->start(std::move(hooks), std::move(result.text));
  hooks_.on_connected();
}

void LifelineClient::take(const std::string& payload) {
  if (told_) return;
  const auto message = rendezvous::lifeline::decode(payload);
  if (!message) return;
  if (const auto* signal = std::get_if<rendezvous::lifeline::Signal>(&*message)) hooks_.on_signal(*signal);
  if (const auto* task = std::get_if<rendezvous::lifeline::Task>(&*message)) hooks_.on_task(task->bytes);
}

void LifelineClient::end(const rendezvous::lifeline::Ended& ended, std::function<void()> told) {
  dial_.cancel();
  if (!connection_) return told();
  told_ = std::move(told);
  connection_->send(encode(rendezvous::lifeline::Message(ended)));
  connection_->finish();
  call_after(timer_, k_telling_limit, [this] {
    if (told_) std::exchange(told_, nullptr)();
  });
}

LifelineServer::LifelineServer(boost::asio::io_context& context, rendezvous::Authenticator authenticator,
                               const std::string& id, Hooks hooks, Milliseconds host_timeout)
    : authenticator_(std::move(authenticator)), hooks_(std::move(hooks)), host_timeout_(host_timeout) {
  AgentListenerSettings settings;
  settings.ports = {0};
  settings.launch_key = rendezvous::lifeline_key(id);
  settings.authenticator = authenticator_;
  settings.host_timeout = host_timeout_;
  AgentListenerHooks listening;
  listening.on_agent = [this](AuthenticationResult agent) { admit(std::move(agent)); };
  listening.on_refused = [this](const std::string& address, const std::string& why) {
    hooks_.on_refused(address, why);
  };
  listener_ = std::make_shared<AgentListener>(context, std::move(settings), std::move(listening));
  listener_->start();
}

LifelineServer::~LifelineServer() { close(); }

std::size_t LifelineServer::connected() const {
  std::size_t count = 0;
  for (const auto& [number, peer] : peers_) {
    if (peer.greeted && !peer.ended && !peer.hello.wants_task) ++count;
  }
  return count;
}

void LifelineServer::signal_all(const rendezvous::lifeline::Signal& signal) {
  for (auto& [arrival, peer] : peers_) {
    if (peer.greeted && !peer.hello.wants_task)
      peer.connection->send(encode(rendezvous::lifeline::Message(signal)));
  }
}

void LifelineServer::close() {
  listener_->close();
  for (auto& [number, peer] : std::exchange(peers_, {})) {
    forget_link(peer);
    peer.connection->close();
  }
}

void LifelineServer::admit(AuthenticationResult agent) {
  const int number = arrived_++;
  Peer& peer = peers_[number];
  peer.connection = std::make_shared<Connection>(std::move(agent.socket), agent.keys, host_timeout_);
  Connection::Hooks hooks;
  hooks.on_frame = [this, number](const std::string& payload) { take(number, payload); };
  hooks.on_closed = [this, number](const std::string& why, rendezvous::ConnectionEnd) { lose(number, why); };
  peer.connection->start(std::move(hooks), std::move(agent.text));
}

void LifelineServer::take(int number, const std::string& payload) {
  const auto found = peers_.find(number);
  if (found == peers_.end()) return;
  auto message = rendezvous::lifeline::decode(payload);
  Peer& peer = found->second;
  if (message && !peer.greeted && std::holds_alternative<rendezvous::lifeline::Hello>(*message)) {
    return handle(number, std::get<rendezvous::lifeline::Hello>(std::move(*message)));
  }
  if (message && !peer.greeted && std::holds_alternative<rendezvous::lifeline::Output>(*message)) {
    return hand_over(number, std::get<rendezvous::lifeline::Output>(*message));
  }
  const auto* ended = message ? std::get_if<rendezvous::lifeline::Ended>(&*message) : nullptr;
  if (ended == nullptr || !peer.greeted || peer.ended) {
    forget_link(peer);
    peer.connection->close();
    return lose(number, "it sent something unexpected");
  }
  peer.ended = true;
  const rendezvous::lifeline::Hello hello = peer.hello;
  peer.connection->finish();
  hooks_.on_ended(hello, *ended);
}

void LifelineServer::handle(int number, rendezvous::lifeline::Hello hello) {
  Peer& peer = peers_.at(number);
  peer.greeted = true;
  hello.host = printable(hello.host);
  peer.hello = std::move(hello);
  if (!peer.hello.wants_task) {
    peer.link = peer.connection->descriptor();
    if (hooks_.on_link) hooks_.on_link(peer.link, true);
    return hooks_.on_agent(peer.hello);
  }
  peer.connection->send(encode(rendezvous::lifeline::Task{hooks_.make_task(peer.hello)}));
  peer.connection->finish();
}

void LifelineServer::hand_over(int number, const rendezvous::lifeline::Output& output) {
  const std::shared_ptr<Connection> connection = peers_.at(number).connection;
  peers_.erase(number);
  auto [socket, first_bytes] = connection->release();
  boost::system::error_code error;
  socket.send(boost::asio::buffer(&rendezvous::lifeline::k_output_taken, 1), 0, error);
  if (error) return;  // the agent finds it closed, and writes elsewhere
  hooks_.on_output(output, std::move(socket), std::move(first_bytes));
}

void LifelineServer::forget_link(const Peer& peer) const {
  if (peer.link >= 0 && hooks_.on_link) hooks_.on_link(peer.link, false);
}

void LifelineServer::lose(int number, const std::string& why) {
  const auto found = peers_.find(number);
  if (found == peers_.end()) return;
  const Peer peer = std::move(found->second);
  peers_.erase(found);
  forget_link(peer);
  if (peer.greeted && !peer.ended && !peer.hello.wants_task) hooks_.on_lost(peer.hello, why);
}

}  // namespace ddprun::net
