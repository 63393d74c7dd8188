#include "net/connection.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace ddprun::net {

namespace {

using rendezvous::ConnectionEnd;

constexpr Milliseconds k_shortest_wait{10};

// The kernel gives up by itself only after silence, whatever it calls that.
ConnectionEnd end_of(const boost::system::error_code& error) {
  namespace e = boost::asio::error;
  if (error == e::eof) return ConnectionEnd::ended;
  const bool silent =
      error == e::timed_out || error == e::host_unreachable || error == e::network_unreachable;
  return silent ? ConnectionEnd::silent : ConnectionEnd::broken;
}

}  // namespace

Connection::Connection(Tcp::socket socket, const rendezvous::SessionKeys& keys, const LinkLimit& limit)
    : socket_(std::move(socket)),
      delivery_(socket_.get_executor()),
      silence_limit_(repeat_every_second(socket_, limit) || limit.exact ? longest_silence(limit)
                                                                        : 2 * limit.time),
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
  unsent_ += outgoing_.back().size();
  if (outgoing_.size() == 1) write();
  await_delivery();
}

// Whatever the kernel's own patience with it is, which begins anew with each piece that is sent.
void Connection::await_delivery() {
  if (awaits_delivery_) return;
  awaits_delivery_ = true;
  delivery_.expires_after(std::max(silence_limit_ - silence_of(socket_), k_shortest_wait));
  delivery_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!self || error || !self->socket_.is_open()) return;
    self->awaits_delivery_ = false;
    if (undelivered_bytes(self->socket_) == 0) return;
    if (silence_of(self->socket_) < self->silence_limit_) return self->await_delivery();
    // It may have arrived, as a sign of life, and only its answer not.
    self->end(describe_error(boost::asio::error::timed_out), ConnectionEnd::broken);
  });
}

void Connection::finish() {
  if (std::exchange(finishing_, true) || !outgoing_.empty()) return;
  end_sending();
}

void Connection::end_sending() {
  boost::system::error_code ignored;
  if (!outlives_peer_) socket_.shutdown(Tcp::socket::shutdown_send, ignored);
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
  if (!socket_.is_open() || !listens_ || std::exchange(reading_, true)) return;
  socket_.async_read_some(
      boost::asio::buffer(buffer_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
        self->reading_ = false;
        if (error) return self->end(describe_error(error), end_of(error));
        self->take({self->buffer_.data(), size});
        self->read();
      });
}

void Connection::listen(bool listens) {
  listens_ = listens;
  read();
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
                             if (error) return self->end(describe_error(error), end_of(error));
                             self->unsent_ -= self->outgoing_.front().size();
                             self->outgoing_.pop_front();
                             if (!self->outgoing_.empty()) return self->write();
                             if (self->finishing_) self->end_sending();
                             if (const auto on_drained = self->hooks_.on_drained) on_drained();
                           });
}

void Connection::end(const std::string& why, ConnectionEnd end) {
  const auto on_closed = hooks_.on_closed;
  if (end != ConnectionEnd::ended) {
    reset();
  } else if (outlives_peer_) {
    hooks_ = {};
    delivery_.cancel();
  } else {
    close();
  }
  if (on_closed) on_closed(why, end);
}

}  // namespace ddprun::net
