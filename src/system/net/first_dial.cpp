#include "net/first_dial.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"
#include "net/authenticator.hpp"

namespace ddprun::net {

FirstDial::FirstDial(boost::asio::io_context& context, rendezvous::FrontEndAddress front_end,
                     rendezvous::Authenticator authenticator, Milliseconds host_timeout, OnResult on_result)
    : context_(context),
      front_end_(std::move(front_end)),
      authenticator_(std::move(authenticator)),
      host_timeout_(host_timeout),
      on_result_(std::move(on_result)) {}

void FirstDial::start() {
  DialLimits limits;
  limits.link = host_timeout_;
  for (std::size_t i = 0; i < front_end_.addresses.size(); ++i) {
    dials_.push_back(std::make_shared<Dial>(
        context_,
        rendezvous::Handshake(rendezvous::HandshakeRole::member, rendezvous::lifeline_key(front_end_.id),
                              make_key_exchange(), authenticator_),
        limits, [this, i](AuthenticationResult result) { conclude(i, std::move(result)); }));
    dials_.back()->start(front_end_.addresses[i], front_end_.port);
  }
}

void FirstDial::cancel() {
  for (auto& dial : dials_) {
    if (dial) std::exchange(dial, nullptr)->cancel();
  }
}

void FirstDial::conclude(std::size_t dial, AuthenticationResult result) {
  dials_[dial].reset();
  if (result.state != rendezvous::HandshakeStep::State::done) {
    problems_.push_back(fmt::format("{}: {}", front_end_.addresses[dial], result.text));
    if (problems_.size() < dials_.size()) return;
    result.text = join(problems_, ", ");
  }
  cancel();
  on_result_(std::move(result));
}

}  // namespace ddprun::net
