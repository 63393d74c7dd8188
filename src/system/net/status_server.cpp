#include "net/status_server.hpp"

#include <fcntl.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "net/timers.hpp"

namespace ddprun::net {

namespace {

using Local = boost::asio::local::stream_protocol;
using Code = boost::system::error_code;

constexpr std::size_t k_most_clients = 16;
constexpr Milliseconds k_pause{1000};  // after a failure to accept

}  // namespace

class StatusServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(boost::asio::io_context& context, Hooks hooks)
      : acceptor_(context), pause_(context), hooks_(std::move(hooks)) {}

  void listen(const std::string& name) {
    if (listens()) return;
    Code error;
    acceptor_.open({}, error);
    if (!error) ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!error) acceptor_.bind(Local::endpoint(std::string(1, '\0') + name), error);
    if (!error) acceptor_.listen(static_cast<int>(k_most_clients), error);
    Code ignored;
    if (error) return void(acceptor_.close(ignored));
    name_ = name;
    accept();
  }

  void close() {
    hooks_ = {};
    Code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    for (const auto& client : std::exchange(clients_, {})) {
      client->timer.cancel();
      client->socket.close(ignored);
    }
  }

  void answer(const std::string& text) {
    for (const auto& client : std::exchange(waiting_, {})) answer(client, text);
  }

  bool listens() const { return acceptor_.is_open(); }
  const std::string& name() const { return name_; }

 private:
  struct Client {
    explicit Client(Local::socket connected)
        : socket(std::move(connected)), timer(socket.get_executor()), text() {}
    Local::socket socket;
    boost::asio::steady_timer timer;
    std::string text;
  };
  using ClientPointer = std::shared_ptr<Client>;

  void answer(const ClientPointer& client, const std::string& text) {
    client->text = text;
    boost::asio::async_write(
        client->socket, boost::asio::buffer(client->text),
        [self = shared_from_this(), client](const Code&, std::size_t) { self->drop(client); });
  }

  void read_request(const ClientPointer& client) {
    client->text.resize(k_longest_request);
    boost::asio::async_read(client->socket, boost::asio::buffer(client->text),
                            [self = shared_from_this(), client](const Code& error, std::size_t length) {
                              if (!self->clients_.contains(client)) return;
                              if (error != boost::asio::error::eof) return self->drop(client);
                              self->take_request(client, client->text.substr(0, length));
                            });
  }

  void take_request(const ClientPointer& client, const std::string& request) {
    hooks_.requested(client->socket.native_handle(), request,
                     [weak = weak_from_this(), client](const std::string& text) {
                       const auto self = weak.lock();
                       if (self && self->clients_.contains(client)) self->answer(client, text);
                     });
  }

  void accept() {
    acceptor_.async_accept([self = shared_from_this()](const Code& error, Local::socket socket) {
      if (!self->acceptor_.is_open()) return;
      if (error) return self->accept_later();
      self->admit(std::move(socket));
      self->accept();
    });
  }

  void accept_later() {
    call_after(pause_, k_pause, [self = shared_from_this()] {
      if (self->acceptor_.is_open()) self->accept();
    });
  }

  // Admits a client; one that may not ask is closed before it gets a byte.
  void admit(Local::socket socket) {
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    if (clients_.size() >= k_most_clients || !hooks_.may_ask(socket.native_handle())) return;
    const auto client = std::make_shared<Client>(std::move(socket));
    clients_.insert(client);
    call_after(client->timer, hooks_.limit, [self = shared_from_this(), client] { self->drop(client); });
    if (hooks_.requested) return read_request(client);
    waiting_.push_back(client);
    if (waiting_.size() == 1) hooks_.asked();
  }

  void drop(const ClientPointer& client) {
    Code ignored;
    client->timer.cancel();
    client->socket.shutdown(Local::socket::shutdown_both, ignored);  // a forked child may hold it too
    client->socket.close(ignored);
    clients_.erase(client);
    std::erase(waiting_, client);
  }

  Local::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  Hooks hooks_;
  std::string name_;
  std::set<ClientPointer> clients_;
  std::vector<ClientPointer> waiting_;  // for an answer
};

StatusServer::StatusServer(boost::asio::io_context& context, const std::vector<std::string>& names,
                           Hooks hooks)
    : impl_(std::make_shared<Impl>(context, std::move(hooks))) {
  for (const std::string& name : names) impl_->listen(name);
}

StatusServer::~StatusServer() { impl_->close(); }
void StatusServer::answer(const std::string& text) { impl_->answer(text); }
bool StatusServer::listens() const { return impl_->listens(); }
const std::string& StatusServer::name() const { return impl_->name(); }

}  // namespace ddprun::net
