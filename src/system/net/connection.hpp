// An authenticated connection that carries sealed frames both ways, and an agent's link over it.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/duration.hpp"
#include "net/sealed_stream.hpp"
#include "net/tcp_tools.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/host_limits.hpp"
#include "rendezvous/membership/member_session.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::net {

// An authenticated connection that carries frames both ways, sealed.

// Keeps itself alive until it is closed by either side.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Hooks {
    std::function<void(std::string payload)> on_frame;
    // Called once, with nothing after it; not after close() or reset().
    std::function<void(std::string why, rendezvous::ConnectionEnd end)> on_closed;
    std::function<void()> on_drained{};  // all that was to be sent is with the kernel
  };

  // Watches the socket (tcp_tools.hpp). Bytes in transit do not change the limit, except that it may take
  // twice as long if the kernel repeats them rarely and the limit need not be exact.
  Connection(Tcp::socket socket, const rendezvous::SessionKeys& keys,
             const LinkLimit& limit = k_host_timeout);
  // Starts the connection. `first_bytes` came with the handshake. Hooks are called from the event loop only.
  void start(Hooks hooks, std::string first_bytes);
  void send(std::string frame);
  // Sends a frame whose payload is a part of `bytes`, which connections may share.
  void send_part(std::shared_ptr<const std::string> bytes, std::size_t begin, std::size_t size);
  int descriptor() { return socket_.native_handle(); }
  // Returns the bytes of frames that the kernel has not taken.
  std::size_t unsent() const { return unsent_; }
  // Reports whether the peer's kernel owes an answer to a probe. What is sent then may arrive while no answer
  // does, so that the peer hears of this end later.
  bool is_silent();
  // Starts or stops reading what the peer sends; a connection reads from its start.
  void listen(bool listens);
  // Delivers what was sent, tells the peer that nothing follows and waits for it to close; what it still
  // says is dropped. on_closed follows when it has, so the caller bounds the wait with close().
  void finish();
  // Stays open when the peer has closed its side, also after finish(): the peer sees how long this process
  // lives.
  void outlive_peer() { outlives_peer_ = true; }
  void close();
  // Closes like close(), but not as if this process had ended.
  void reset();
  // Ends it but for the socket, which is the caller's now, with the bytes behind the last frame, which are
  // not sealed.
  std::pair<Tcp::socket, std::string> release();

 private:
  struct Outgoing {
    std::shared_ptr<const std::string> bytes;
    std::size_t begin = 0;
    std::size_t size = 0;
    bool framed = true;
  };

  void read();
  void read_more();
  void take(std::string_view bytes);
  void take_frames();
  void queue(Outgoing outgoing);
  void write();
  void seal_some();
  void end_sending();
  void await_delivery();
  void end(const std::string& why, rendezvous::ConnectionEnd end = rendezvous::ConnectionEnd::broken);

  Tcp::socket socket_;
  boost::asio::steady_timer delivery_;
  bool awaits_delivery_ = false;
  Milliseconds silence_limit_, probe_pause_;
  Hooks hooks_;
  SealedWriter sealed_out_;
  SealedReader sealed_in_;
  rendezvous::FrameReader reader_;
  std::deque<Outgoing> outgoing_;  // not sealed yet
  std::string sealed_;             // sealed bytes on their way to the kernel
  std::size_t sealed_size_ = 0;    // bytes of frames in it
  std::size_t unsent_ = 0;
  bool listens_ = true;
  bool reading_ = false;
  std::array<char, 16384> buffer_{};
  bool finishing_ = false;
  bool outlives_peer_ = false;
};

// Link of one agent's driver to the coordinator, whether in this process or elsewhere.

class AgentLink {
 public:
  virtual ~AgentLink() = default;
  // Sends to the coordinator; drops the message when there is no connection to it (any more). The service
  // sends Join and Probed itself. Never calls back before it returns.
  virtual void send(rendezvous::AgentMessage message) = 0;
  // Returns this host's end of the connection by which it reached that address of the coordinator, numeric;
  // empty if none did, and in the coordinator itself.
  virtual std::string local_end(const std::string& /*address*/) const { return {}; }
};

// Counts for how long a member's coordinator has said nothing.

class CoordinatorSilence {
 public:
  // Every MemberSession::k_silence in which nothing comes, with how long that is; nothing once something
  // comes after that.
  using Tell = std::function<void(std::optional<Milliseconds> silence)>;

  CoordinatorSilence(boost::asio::io_context& context, const rendezvous::MemberSession& session, Tell tell)
      : timer_(context), session_(session), tell_(std::move(tell)) {}

  void end();     // something has come
  void cancel();  // for good

 private:
  void wait();

  boost::asio::steady_timer timer_;
  const rendezvous::MemberSession& session_;
  Tell tell_;
  bool told_ = false;
  std::shared_ptr<int> here_ = std::make_shared<int>();
};

}  // namespace ddprun::net
