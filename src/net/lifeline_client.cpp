#include "ddprun/net/lifeline_client.hpp"

#include <fmt/format.h>

#include <utility>

#include "ddprun/base/text.hpp"
#include "ddprun/net/connection.hpp"
#include "ddprun/net/key_prover.hpp"

namespace ddprun {

namespace {

constexpr std::chrono::milliseconds k_telling_limit{1000};

}  // namespace

LifelineClient::LifelineClient(boost::asio::io_context& context, StarterAddress starter, Prover prover,
                               lifeline::Hello hello, Hooks hooks, Milliseconds link_timeout)
    : context_(context),
      starter_(std::move(starter)),
      prover_(std::move(prover)),
      hello_(std::move(hello)),
      hooks_(std::move(hooks)),
      link_timeout_(link_timeout),
      timer_(context) {}

LifelineClient::~LifelineClient() {
  for (const auto& dial : dials_) {
    if (dial) dial->cancel();
  }
  if (connection_) connection_->close();
}

void LifelineClient::start() {
  DialLimits limits;
  limits.link = link_timeout_;
  for (std::size_t i = 0; i < starter_.addresses.size(); ++i) {
    const std::string address = starter_.addresses[i];
    dials_.push_back(std::make_shared<Dial>(
        context_, Handshake(HandshakeRole::member, lifeline_key(starter_.id), make_nonce(), prover_), limits,
        [this, i, address](AuthenticationResult result) { conclude(i, address, std::move(result)); }));
    dials_.back()->start(address, starter_.port);
  }
}

void LifelineClient::conclude(std::size_t dial, const std::string& address, AuthenticationResult result) {
  dials_[dial].reset();
  if (result.state != HandshakeStep::State::done) {
    problems_.push_back(fmt::format("{}: {}", address, result.text));
    if (problems_.size() == dials_.size()) hooks_.on_unreachable(join(problems_, ", "));
    return;
  }
  for (auto& other : dials_) {
    if (other) std::exchange(other, nullptr)->cancel();
  }
  connection_ = std::make_shared<Connection>(std::move(result.socket), link_timeout_);
  connection_->send(encode(lifeline::Message(hello_)));
  Connection::Hooks hooks;
  hooks.on_frame = [this](const std::string& payload) { take(payload); };
  hooks.on_closed = [this](const std::string& why) {
    connection_.reset();
    told_ ? std::exchange(told_, nullptr)() : hooks_.on_gone(why);
  };
  connection_->start(std::move(hooks), std::move(result.text));
  hooks_.on_connected();
}

void LifelineClient::take(const std::string& payload) {
  if (told_) return;
  const auto message = lifeline::decode(payload);
  if (!message) return;
  if (const auto* signal = std::get_if<lifeline::Signal>(&*message)) hooks_.on_signal(*signal);
  const auto* task = std::get_if<lifeline::SealedTask>(&*message);
  if (task == nullptr) return;
  const ProofResult opened = prover_.open(task->method, task->bytes);
  opened.ok ? hooks_.on_task(opened.text) : hooks_.on_gone("its answer cannot be opened: " + opened.text);
}

void LifelineClient::end(const lifeline::Ended& ended, std::function<void()> told) {
  for (auto& dial : dials_) {
    if (dial) std::exchange(dial, nullptr)->cancel();
  }
  if (!connection_) return told();
  told_ = std::move(told);
  connection_->send(encode(lifeline::Message(ended)));
  connection_->finish();
  timer_.expires_after(k_telling_limit);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && told_) std::exchange(told_, nullptr)();
  });
}

}  // namespace ddprun
