// The inside of StoreServer, for its sources alone.
#pragma once

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/store_server.hpp"
#include "net/tcp_tools.hpp"
#include "store/endpoint.hpp"

namespace ddprun::net {

namespace asio = boost::asio;

std::string error_text(int error);
inline constexpr const char* k_descriptors_hint = "raise the limit of open files: ulimit -n";  // EMFILE
// Throws Error naming the port.
BoundSocket listen_on(int port, int backlog);
BoundSocket listen_on_loopback(int backlog);
// Returns the limit of descriptors, less some that are kept for the rest of the program.
std::size_t connections_allowed();
// Reports whether accept failed for lack of a resource that may be there again later.
bool out_of_room(int error);

inline constexpr std::size_t k_read_size = 64 * 1024;
inline constexpr std::uint32_t k_listener = UINT32_MAX;
inline constexpr int k_events_a_round = 256;

class StoreServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, StoreServerOptions options)
      : options_(std::move(options)),
        endpoint_(make_endpoint(options_)),
        links_(*endpoint_),
        listener_(options_.relay ? listen_on_loopback(options_.backlog)
                                 : listen_on(options_.port, options_.backlog)),
        epoll_(context, make_epoll()),
        pause_(context),
        busy_timer_(context),
        max_connections_(options_.max_connections > 0 ? options_.max_connections : connections_allowed()) {
    control(EPOLL_CTL_ADD, listener_.descriptor, EPOLLIN, k_listener);
  }
  ~Impl() { close(); }

  int port() const { return listener_.port; }
  std::size_t connections() const { return open_ + endpoint_->clients_elsewhere(); }
  std::size_t memory_used() const { return endpoint_->memory().used(); }
  bool reached() const { return reached_; }
  void wait_until_ready();
  void adopt(int descriptor, std::string_view first_bytes);
  void decide(const TcpEnds& ends, bool allowed);
  void close();
  StoreLinks& links() { return links_; }
  // Delivers what has come up for others than who was heard.
  void flush();
  void wake_for_busy();

 private:
  struct Connection {
    int descriptor = -1;
    std::uint32_t events = EPOLLIN;  // same as in the kernel's epoll set
    bool busy = false;               // waits for its turn in busy_
    std::size_t sent = 0;            // bytes of unsent
    std::string unsent;              // bytes that the kernel did not take
  };
  using Clock = std::chrono::steady_clock;

  struct Waiting {
    int descriptor = -1;
    std::string first_bytes;
  };

  static std::unique_ptr<store::StoreEndpoint> make_endpoint(const StoreServerOptions& options);
  int make_epoll();
  void deliver(const std::vector<store::StoreDelivery>& deliveries);
  void admit(int descriptor, std::string_view first_bytes);
  bool control(int operation, int descriptor, std::uint32_t events, std::uint32_t slot);
  void serve_ready();
  void serve(const epoll_event& event);
  void accept_some();
  void pause_accepting(int error);
  void resume_accepting();
  bool room_for(const asio::ip::address& host);
  void add_connection(int descriptor, const asio::ip::address& host, std::string_view first_bytes);
  void serve_in_turn(store::StoreClient client, bool busy);
  bool serve_busy();
  void queue(store::StoreClient client);
  void feed_starved();
  void watch(store::StoreClient client);
  void read_from(store::StoreClient client);
  bool take(store::StoreClient client, std::string_view bytes);
  void finish_turn(store::StoreClient client);
  void send_to(store::StoreClient client, std::string_view bytes);
  void keep_unsent(store::StoreClient client, std::string_view bytes);
  void send_rest(store::StoreClient client);
  void drop(store::StoreClient client, std::string_view why);
  void report(const std::string& text, bool memory = false) const {
    if (options_.report) options_.report(text, memory);
  }
  Connection& at(store::StoreClient client) { return connections_[static_cast<std::size_t>(client.value)]; }

  StoreServerOptions options_;
  std::unique_ptr<store::StoreEndpoint> endpoint_;
  StoreLinks links_;
  BoundSocket listener_;
  asio::posix::stream_descriptor epoll_;
  asio::steady_timer pause_;
  bool accepting_ = true;
  bool closed_ = false;
  bool reached_ = false;
  bool flushing_ = false;
  std::size_t open_ = 0;
  std::size_t told_open_ = 0;  // to options_.connected
  // Turns of those that have much to do.
  std::deque<store::StoreClient> busy_;
  std::vector<store::StoreClient> starved_;  // clients without memory for their answers now
  Clock::time_point turn_began_{};           // or a little earlier
  Clock::time_point others_until_{};
  std::size_t work_ = 0;         // bytes of this turn
  std::size_t short_turns_ = 0;  // since the last long one
  asio::steady_timer busy_timer_;
  std::size_t max_connections_;
  std::map<asio::ip::address, std::size_t> of_host_;  // connections
  std::vector<Connection> connections_;               // indexed by client number
  std::vector<asio::ip::address> hosts_;              // indexed by client number
  std::map<TcpEnds, Waiting> waiting_;
  // Used again from read to read.
  std::array<char, k_read_size> input_;
  std::string reply_;
  std::vector<store::StoreDelivery> deliveries_;
};

}  // namespace ddprun::net
