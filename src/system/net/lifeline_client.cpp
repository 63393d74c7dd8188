#include "net/lifeline_client.hpp"

#include <utility>

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

}  // namespace ddprun::net
