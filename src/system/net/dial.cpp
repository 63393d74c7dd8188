#include "net/dial.hpp"

#include <fmt/format.h>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/text.hpp"
#include "net/authentication.hpp"
#include "net/timers.hpp"

namespace ddprun::net {

Dial::Dial(boost::asio::io_context& context, rendezvous::Handshake handshake, DialLimits limits,
           Authentication::OnResult on_result)
    : socket_(context),
      timer_(context),
      handshake_(std::move(handshake)),
      limits_(limits),
      on_result_(std::move(on_result)) {}

void Dial::start(const std::string& address, int port) {
  boost::system::error_code error;
  const auto numeric = boost::asio::ip::make_address(address, error);
  if (error) {
    boost::asio::post(socket_.get_executor(),
                      [self = shared_from_this()] { self->fail("this is not a numeric address"); });
    return;
  }
  call_after(timer_, limits_.connect, [self = shared_from_this()] {
    self->fail(fmt::format("no answer within {}", describe_duration(self->limits_.connect)));
  });
  socket_.async_connect({numeric, static_cast<unsigned short>(port)},
                        [self = shared_from_this()](const boost::system::error_code& failed) {
                          if (!self->on_result_) return;
                          if (failed) return self->fail(describe_error(failed));
                          self->timer_.cancel();
                          watch_connection(self->socket_, self->limits_.link);
                          const auto authentication = std::make_shared<Authentication>(
                              std::move(self->socket_), std::move(self->handshake_),
                              AuthenticationLimits{self->limits_.handshake, self->limits_.handshake},
                              std::exchange(self->on_result_, nullptr));
                          self->authentication_ = authentication;
                          authentication->start();
                        });
}

void Dial::cancel() {
  on_result_ = nullptr;
  timer_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  if (const auto authentication = authentication_.lock()) authentication->cancel();
}

void Dial::fail(const std::string& why) {
  const auto on_result = std::exchange(on_result_, nullptr);
  cancel();
  if (on_result)
    on_result({rendezvous::HandshakeStep::State::failed, why, Tcp::socket(timer_.get_executor()), {}, false});
}

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
