#include "connection.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace ddprun::net {

namespace {

constexpr Milliseconds k_repeat_margin{2000};

}  // namespace

Connection::Connection(Tcp::socket socket, const rendezvous::SessionKeys& keys, Milliseconds limit)
    : socket_(std::move(socket)),
      delivery_(socket_.get_executor()),
      delivery_limit_(repeat_every_second(socket_, limit) ? limit + k_repeat_margin : 2 * limit),
      sealed_out_(keys.send),
      sealed_in_(keys.receive) {}

void Connection::start(Hooks hooks, std::string first_bytes) {
  hooks_ = std::move(hooks);
  boost::asio::post(socket_.get_executor(), [self = shared_from_this(), bytes = std::move(first_bytes)] {
    self->take(bytes);
    self->read();
  });
}

void Connection::send(const std::string& frame) {
  if (finishing_ || !socket_.is_open()) return;
  outgoing_.push_back(sealed_out_.seal(frame));
  if (outgoing_.size() == 1) write();
  await_delivery();
}

void Connection::await_delivery() {
  delivery_.expires_after(delivery_limit_);
  delivery_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!self || error || !self->socket_.is_open() || undelivered_bytes(self->socket_) == 0) return;
    self->end(describe_error(boost::asio::error::timed_out));
  });
}

void Connection::finish() {
  if (std::exchange(finishing_, true) || !outgoing_.empty()) return;
  boost::system::error_code ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
}

void Connection::close() {
  hooks_ = {};
  delivery_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void Connection::reset() {
  boost::system::error_code ignored;
  socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
  close();
}

std::pair<Tcp::socket, std::string> Connection::release() {
  hooks_ = {};
  delivery_.cancel();
  boost::system::error_code ignored;
  socket_.cancel(ignored);
  return {std::move(socket_), sealed_in_.take_rest()};
}

void Connection::read() {
  if (!socket_.is_open()) return;
  socket_.async_read_some(
      boost::asio::buffer(buffer_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
        if (error) return self->end(describe_error(error), error == boost::asio::error::eof);
        self->take({self->buffer_.data(), size});
        self->read();
      });
}

void Connection::take(std::string_view bytes) {
  if (finishing_) return;
  sealed_in_.append(bytes);
  while (hooks_.on_frame) {
    auto piece = sealed_in_.next();
    if (std::holds_alternative<std::monostate>(piece)) return;
    if (const auto* error = std::get_if<rendezvous::CodecError>(&piece)) return end("it sent " + error->what);
    reader_.append(std::get<std::string>(piece));
    take_frames();
  }
}

void Connection::take_frames() {
  while (hooks_.on_frame) {
    auto item = reader_.next();
    if (std::holds_alternative<std::monostate>(item)) return;
    if (const auto* error = std::get_if<rendezvous::CodecError>(&item)) return end("it sent " + error->what);
    const auto on_frame = hooks_.on_frame;  // the hook may close this connection
    on_frame(std::get<std::string>(std::move(item)));
  }
}

void Connection::write() {
  boost::asio::async_write(socket_, boost::asio::buffer(outgoing_.front()),
                           [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                             if (error) return self->end(describe_error(error));
                             self->outgoing_.pop_front();
                             if (!self->outgoing_.empty()) return self->write();
                             if (!self->finishing_) return;
                             boost::system::error_code ignored;
                             self->socket_.shutdown(Tcp::socket::shutdown_send, ignored);
                           });
}

void Connection::end(const std::string& why, bool ended) {
  const auto on_closed = hooks_.on_closed;
  ended ? close() : reset();
  if (on_closed) on_closed(why, ended);
}

}  // namespace ddprun::net
