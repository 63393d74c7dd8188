#include "ddprun/net/first_dial.hpp"

#include <fmt/format.h>

#include <utility>

#include "ddprun/base/text.hpp"
#include "ddprun/net/key_prover.hpp"

namespace ddprun {

FirstDial::FirstDial(boost::asio::io_context& context, StarterAddress starter, Prover prover,
                     Milliseconds link_timeout, OnResult on_result)
    : context_(context),
      starter_(std::move(starter)),
      prover_(std::move(prover)),
      link_timeout_(link_timeout),
      on_result_(std::move(on_result)) {}

void FirstDial::start() {
  DialLimits limits;
  limits.link = link_timeout_;
  for (std::size_t i = 0; i < starter_.addresses.size(); ++i) {
    dials_.push_back(std::make_shared<Dial>(
        context_, Handshake(HandshakeRole::member, lifeline_key(starter_.id), make_key_exchange(), prover_),
        limits, [this, i](AuthenticationResult result) { conclude(i, std::move(result)); }));
    dials_.back()->start(starter_.addresses[i], starter_.port);
  }
}

void FirstDial::cancel() {
  for (auto& dial : dials_) {
    if (dial) std::exchange(dial, nullptr)->cancel();
  }
}

void FirstDial::conclude(std::size_t dial, AuthenticationResult result) {
  dials_[dial].reset();
  if (result.state != HandshakeStep::State::done) {
    problems_.push_back(fmt::format("{}: {}", starter_.addresses[dial], result.text));
    if (problems_.size() < dials_.size()) return;
    result.text = join(problems_, ", ");
  }
  cancel();
  on_result_(std::move(result));
}

}  // namespace ddprun
