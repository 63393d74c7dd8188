#include "net/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "net/timers.hpp"
#include "rendezvous/host_limits.hpp"

namespace ddprun::net {

namespace {

using rendezvous::ConnectionEnd;

constexpr Milliseconds k_shortest_wait{10};
// Bytes sealed at a time, few enough that little waits: a piece is sent while the processor's cache still has
// it.
constexpr std::size_t k_sealed = 256 * 1024;
constexpr std::size_t k_large_read = 256 * 1024;
constexpr int k_large_reads = 8;

// Returns the kind of end that an error means. The kernel gives up by itself only after silence, whatever it
// calls that.
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
      probe_pause_(rendezvous::probe_pause(limit.time)),
      sealed_out_(keys.send),
      sealed_in_(keys.receive) {}

void Connection::start(Hooks hooks, std::string first_bytes) {
  hooks_ = std::move(hooks);
  boost::asio::post(socket_.get_executor(), [self = shared_from_this(), bytes = std::move(first_bytes)] {
    self->take(bytes);
    self->read();
  });
}

void Connection::send(std::string frame) {
  const std::size_t size = frame.size();
  queue({std::make_shared<const std::string>(std::move(frame)), 0, size});
}

void Connection::send_part(std::shared_ptr<const std::string> bytes, std::size_t begin, std::size_t size) {
  queue({std::move(bytes), begin, size, false});
}

void Connection::queue(Outgoing outgoing) {
  if (finishing_ || !socket_.is_open()) return;
  unsent_ += outgoing.size;
  outgoing_.push_back(std::move(outgoing));
  if (sealed_.empty()) write();
  await_delivery();
}

// Waits for delivery under a limit of our own: the kernel's patience begins anew with each piece that is
// sent.
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
    // The bytes may have arrived, as a sign of life, and only the answer not.
    self->end(describe_error(boost::asio::error::timed_out), ConnectionEnd::broken);
  });
}

bool Connection::is_silent() { return silence_of(socket_) > probe_pause_ * 3 / 2; }

void Connection::finish() {
  if (std::exchange(finishing_, true) || !sealed_.empty()) return;
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
        if (size == self->buffer_.size()) self->read_more();
        self->read();
      });
}

// Reads what has come meanwhile, in larger pieces than each connection could keep room for.
void Connection::read_more() {
  std::array<char, k_large_read> bytes;
  for (int i = 0; i < k_large_reads && socket_.is_open() && listens_; ++i) {
    const ssize_t size = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size > 0) take({bytes.data(), static_cast<std::size_t>(size)});
    if (size < static_cast<ssize_t>(bytes.size())) return;  // an end or an error is read again
  }
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
  seal_some();
  boost::asio::async_write(socket_, boost::asio::buffer(sealed_),
                           [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                             if (error) return self->end(describe_error(error), end_of(error));
                             self->unsent_ -= self->sealed_size_;
                             self->sealed_.clear();
                             if (!self->outgoing_.empty()) return self->write();
                             std::string().swap(self->sealed_);  // an idle connection keeps no memory
                             if (self->finishing_) self->end_sending();
                             if (const auto on_drained = self->hooks_.on_drained) on_drained();
                           });
}

void Connection::seal_some() {
  sealed_size_ = 0;
  while (!outgoing_.empty() && sealed_.size() < k_sealed) {
    const Outgoing& next = outgoing_.front();
    const std::string_view text = std::string_view(*next.bytes).substr(next.begin, next.size);
    if (next.framed) {
      sealed_out_.seal(text, sealed_);
    } else {
      sealed_out_.seal(rendezvous::make_frame(text), sealed_);
    }
    sealed_size_ += next.size;
    outgoing_.pop_front();
  }
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

namespace {

constexpr Milliseconds k_own_sleep{5000};  // a timer that is later was not late because others were busy

}  // namespace

void CoordinatorSilence::end() {
  if (std::exchange(told_, false)) tell_(std::nullopt);
  wait();
}

void CoordinatorSilence::cancel() {
  here_.reset();
  timer_.cancel();
}

// While this process is stopped itself, nothing is waited for. What is told may end this.
void CoordinatorSilence::wait() {
  const TimePoint due = std::chrono::steady_clock::now() + rendezvous::MemberSession::k_silence;
  call_at(timer_, due, [this, due, here = std::weak_ptr(here_)] {
    if (here.expired()) return;
    const TimePoint now = std::chrono::steady_clock::now();
    wait();
    if (now > due + k_own_sleep) return;
    told_ = true;
    tell_(session_.silence(now));
  });
}

}  // namespace ddprun::net
