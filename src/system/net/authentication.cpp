#include "net/authentication.hpp"

#include <fmt/format.h>

#include <boost/asio/write.hpp>
#include <chrono>

#include "net/timers.hpp"

namespace ddprun::net {

using State = rendezvous::HandshakeStep::State;

namespace {

constexpr Milliseconds k_last_words{1000};  // for a refusal to arrive, and the other side to close

}  // namespace

Authentication::Authentication(Tcp::socket socket, rendezvous::Handshake handshake,
                               AuthenticationLimits limits, OnResult on_result,
                               std::function<void()> on_closed)
    : socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      limits_(limits),
      on_result_(std::move(on_result)),
      on_closed_(std::move(on_closed)),
      timer_(socket_.get_executor()) {}

void Authentication::start() {
  watch_time();
  if (std::string greeting = handshake_.start(); !greeting.empty()) write(std::move(greeting));
  read();
}

void Authentication::watch_time() {
  const auto started = std::chrono::steady_clock::now();
  const auto wait_for_all = [started](Authentication& self) {
    call_at(self.timer_, started + self.limits_.whole, [self = self.shared_from_this()] {
      self->fail(fmt::format("{} within {}", self->handshake_.waiting_for(),
                             describe_duration(self->limits_.whole)));
      self->close();
    });
  };
  if (limits_.silence >= limits_.whole) return wait_for_all(*this);
  call_at(timer_, started + limits_.silence, [self = shared_from_this(), wait_for_all] {
    if (!self->handshake_.heard_nothing()) return wait_for_all(*self);
    boost::system::error_code ignored;
    self->socket_.cancel(ignored);  // the read
    self->report(State::foreign, {});
  });
}

void Authentication::cancel() {
  on_closed_ = nullptr;
  close();
}

void Authentication::close() {
  on_result_ = nullptr;
  timer_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  if (const auto on_closed = std::exchange(on_closed_, nullptr)) on_closed();
}

void Authentication::read() {
  socket_.async_read_some(
      boost::asio::buffer(buffer_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
        if (!self->on_result_) return;
        if (error) {
          self->fail(describe_error(error) + " before the peer was authenticated");
          return self->close();
        }
        self->handle({self->buffer_.data(), size});
      });
}

void Authentication::handle(std::string_view bytes) {
  rendezvous::HandshakeStep step = handshake_.feed(bytes);
  if (step.state == State::more) {
    if (!step.send.empty()) write(std::move(step.send));
    return read();
  }
  if (step.state == State::failed) {
    fail(std::move(step.text));
    outgoing_ = std::move(step.send);
    return close_politely();
  }
  outgoing_ = std::move(step.send);
  boost::asio::async_write(socket_, boost::asio::buffer(outgoing_),
                           [self = shared_from_this(), state = step.state, text = std::move(step.text)](
                               const boost::system::error_code& error, std::size_t) mutable {
                             if (!self->on_result_) return;
                             if (error) {
                               self->fail(describe_error(error));
                               return self->close();
                             }
                             self->report(state, std::move(text));
                           });
}

// Writes the bytes. A conversation has at most one write in progress: each side waits for the other's answer.
void Authentication::write(std::string bytes) {
  outgoing_ = std::move(bytes);
  boost::asio::async_write(socket_, boost::asio::buffer(outgoing_),
                           [self = shared_from_this()](const boost::system::error_code&, std::size_t) {
                             // A failed write shows in the read that is under way.
                           });
}

void Authentication::report(State state, std::string text) {
  on_closed_ = nullptr;  // a timer that is past calls its handler in spite of cancel()
  timer_.cancel();
  const OnResult on_result = std::exchange(on_result_, nullptr);
  if (on_result)
    on_result({state, std::move(text), std::move(socket_), rendezvous::to_string(handshake_.method()), true,
               handshake_.keys()});
}

void Authentication::fail(std::string why) {
  const OnResult on_result = std::exchange(on_result_, nullptr);
  if (on_result)
    on_result({State::failed,
               std::move(why),
               Tcp::socket(socket_.get_executor()),
               {},
               !handshake_.heard_nothing(),
               {}});
}

// Closes after reading: closing a socket with unread bytes would make the kernel throw away what the peer has
// not read yet.
void Authentication::close_politely() {
  call_after(timer_, k_last_words, [self = shared_from_this()] { self->close(); });
  boost::asio::async_write(socket_, boost::asio::buffer(outgoing_),
                           [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                             if (error) return self->close();
                             boost::system::error_code ignored;
                             self->socket_.shutdown(Tcp::socket::shutdown_send, ignored);
                             self->drain();
                           });
}

void Authentication::drain() {
  socket_.async_read_some(boost::asio::buffer(buffer_),
                          [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                            if (error) return self->close();
                            self->drain();
                          });
}

}  // namespace ddprun::net
