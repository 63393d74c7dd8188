#include "net/coordinator_service.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>

#include "base/overloaded.hpp"
#include "base/text.hpp"
#include "net/agent_listener.hpp"
#include "net/connection.hpp"
#include "net/timers.hpp"

namespace ddprun::net {

class CoordinatorService::Impl : public Closable<Impl> {
 public:
  Impl(boost::asio::io_context& context, CoordinatorServiceSettings settings, CoordinatorHooks hooks)
      : context_(context), settings_(std::move(settings)), hooks_(std::move(hooks)), timer_(context) {}

  void listen();
  void start();
  void send(rendezvous::AgentMessage message);
  void ask_about(rendezvous::ClientQuestion question) { add(StoreClient{std::move(question)}); }
  void note_connections(int count) { add(ConnectionsCounted{count}); }
  void note_job_end(TimePoint end) { add(JobEndTold{end, {}}); }
  void warn(int signal) { add(JobEndTold{{}, signal}); }
  void note_grace(Milliseconds grace) { add(GraceGiven{grace}); }
  void close();
  int port() const { return listener_ ? listener_->port() : 0; }

 private:
  struct MessageArrived {
    rendezvous::ConnectionId connection;
    rendezvous::AgentMessage message;
  };
  struct ConnectionClosed {
    rendezvous::ConnectionId connection;
    std::string why;
    rendezvous::ConnectionEnd end = rendezvous::ConnectionEnd::broken;
  };
  struct StrangerRefused {
    std::string address;
    std::string why;
  };
  struct StoreClient {
    rendezvous::ClientQuestion question;
  };
  struct ConnectionsCounted {
    int count = 0;
  };
  struct JobEndTold {
    std::optional<TimePoint> at;
    std::optional<int> warning;
  };
  struct GraceGiven {
    Milliseconds grace;
  };
  struct TimePassed {};
  struct StoreAnswered {
    Attempt attempt;
    StoreOpened result;
  };
  using Input = std::variant<MessageArrived, ConnectionClosed, StrangerRefused, StoreClient,
                             ConnectionsCounted, JobEndTold, GraceGiven, TimePassed, StoreAnswered>;

  void tell(const std::string& text) const {
    if (hooks_.show_detail) hooks_.show_detail(text);
  }
  void tell_event(const Input& event) const;
  void tell_action(const rendezvous::CoordinatorAction& action) const;
  void add(Input event);
  void handle_events();
  rendezvous::Coordinator::Actions handle(const Input& event, TimePoint now);
  void perform(const rendezvous::CoordinatorAction& action);
  void admit(AuthenticationResult agent);
  void receive(rendezvous::ConnectionId id, const std::string& payload);
  void hand_over(rendezvous::ConnectionId id, const rendezvous::lifeline::Output& output);
  void deliver(const rendezvous::SendTo& send);
  void end_connection(const rendezvous::CloseConnection& close);
  void set_timer();
  void forget(rendezvous::ConnectionId id);
  void note_link(rendezvous::ConnectionId id);
  void forget_link(rendezvous::ConnectionId id);
  void begin_flush(const report::Cause& cause);
  void check_flushed();

  boost::asio::io_context& context_;
  CoordinatorServiceSettings settings_;
  CoordinatorHooks hooks_;
  boost::asio::steady_timer timer_;
  std::optional<rendezvous::Coordinator> coordinator_;
  std::shared_ptr<AgentListener> listener_;
  std::map<rendezvous::ConnectionId, std::shared_ptr<Connection>> connections_;
  std::map<rendezvous::ConnectionId, int> links_;  // sockets of agents, as on_link was told
  std::vector<std::shared_ptr<Connection>> told_;  // peers that know the end and have closed their side
  int last_connection_ = rendezvous::k_local_connection.value;
  std::vector<Input> events_;
  std::optional<report::Cause> flushing_;
  bool flush_expired_ = false;
};

void CoordinatorService::Impl::listen() {
  if (settings_.coordinator.agents == 1) return;
  AgentListenerHooks hooks;
  hooks.on_agent = while_open([this](AuthenticationResult agent) {
    tell(fmt::format("{} authenticated with {}", remote_address(agent.socket), agent.proof));
    admit(std::move(agent));
  });
  hooks.on_refused = while_open([this](std::string address, std::string why) {
    add(StrangerRefused{std::move(address), std::move(why)});
  });
  hooks.on_foreign = hooks_.on_foreign;
  AgentListenerSettings settings;
  settings.ports = settings_.ports;
  settings.bound = settings_.bound;
  settings.launch_key = settings_.launch_key;
  settings.authenticator = settings_.authenticator;
  settings.handshake_limit = settings_.handshake_limit;
  settings.host_timeout = settings_.host_timeout;
  settings.port_hint = settings_.port_hint;
  listener_ = std::make_shared<AgentListener>(context_, std::move(settings), std::move(hooks));
  settings_.coordinator.port = listener_->port();
}

void CoordinatorService::Impl::start() {
  coordinator_.emplace(settings_.coordinator, std::chrono::steady_clock::now());
  rendezvous::Join join;
  join.announcement = settings_.announcement;
  join.failure = settings_.failure;
  join.survivor = settings_.survivor;
  join.checkpoints = settings_.checkpoints;
  join.version = settings_.coordinator.version;
  join.agents = settings_.coordinator.agents;
  send(std::move(join));
  if (listener_) listener_->start();
}

void CoordinatorService::Impl::send(rendezvous::AgentMessage message) {
  add(MessageArrived{rendezvous::k_local_connection, std::move(message)});
}

void CoordinatorService::Impl::close() {
  closed_ = true;
  timer_.cancel();
  if (listener_) listener_->close();
  for (const auto& [id, connection] : connections_) {
    forget_link(id);
    connection->close();
  }
  connections_.clear();
}

// Adds an event. The first one posts one call that runs after everything else that is ready in this wake-up.
void CoordinatorService::Impl::add(Input event) {
  events_.push_back(std::move(event));
  if (events_.size() > 1) return;
  boost::asio::post(context_, while_open([this] { handle_events(); }));
}

void CoordinatorService::Impl::handle_events() {
  const TimePoint now = std::chrono::steady_clock::now();
  rendezvous::Coordinator::Actions actions;
  for (const Input& event : std::exchange(events_, {})) {
    for (rendezvous::CoordinatorAction& action : handle(event, now)) actions.push_back(std::move(action));
  }
  for (const rendezvous::CoordinatorAction& action : actions) {
    if (closed_) return;  // a hook may have ended it
    perform(action);
  }
  if (closed_) return;
  if (flushing_) {
    check_flushed();
  } else {
    set_timer();
  }
}

// Joins, refusals and losses, for those who want to follow the rendezvous.
void CoordinatorService::Impl::tell_event(const Input& event) const {
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    const auto* join = std::get_if<rendezvous::Join>(&arrived->message);
    if (join == nullptr) return;
    const plan::Announcement& from = join->announcement;
    const std::string number = from.agent ? fmt::format("as number {} of {}", from.agent->value, join->agents)
                                          : fmt::format("as one of {}", join->agents);
    tell(fmt::format(
        "{} joins {} with {}{}{}", printable(from.host), number, count_of(from.workers, "worker"),
        join->reached.empty() ? "" : ", reached this host at " + printable(join->reached),
        from.python.torch.empty() ? ""
                                  : fmt::format("; torch {} with Python {}", printable(from.python.torch, 64),
                                                printable(from.python.version, 16))));
  } else if (const auto* refused = std::get_if<StrangerRefused>(&event)) {
    tell(fmt::format("refused {}: {}", refused->address, refused->why));
  } else if (const auto* opened = std::get_if<StoreAnswered>(&event)) {
    if (opened->result.error.empty()) tell(fmt::format("the store listens on port {}", opened->result.port));
  }
}

void CoordinatorService::Impl::tell_action(const rendezvous::CoordinatorAction& action) const {
  if (const auto* open = std::get_if<rendezvous::OpenStore>(&action)) {
    tell(fmt::format("all nodes have joined; MASTER_ADDR is {}", open->address));
  } else if (const auto* send = std::get_if<rendezvous::SendTo>(&action)) {
    const auto* probe = std::get_if<rendezvous::Probe>(&send->message);
    if (probe != nullptr) tell("asking a node which addresses it reaches: " + join(probe->addresses, ", "));
  }
}

rendezvous::Coordinator::Actions CoordinatorService::Impl::handle(const Input& event, TimePoint now) {
  tell_event(event);
  return std::visit(
      Overloaded{
          [&](const MessageArrived& e) { return coordinator_->on_message(e.connection, e.message, now); },
          [&](const ConnectionClosed& e) {
            forget(e.connection);
            return coordinator_->on_closed(e.connection, e.why, now, e.end);
          },
          [&](const StrangerRefused& e) { return coordinator_->on_refused(e.address, e.why, now); },
          [&](const StoreClient& e) { return coordinator_->on_store_client(e.question, now); },
          [&](const ConnectionsCounted& e) { return coordinator_->on_connections(e.count, now); },
          [&](const JobEndTold& e) { return coordinator_->on_job_end(e.at, e.warning); },
          [&](const GraceGiven& e) { return coordinator_->on_grace(e.grace, now); },
          [&](const TimePassed&) { return coordinator_->on_time(now); },
          [&](const StoreAnswered& e) {
            return e.result.error.empty() ? coordinator_->on_store_ready(e.attempt, e.result.port, now)
                                          : coordinator_->on_store_failed(e.attempt, e.result.error, now);
          }},
      event);
}

void CoordinatorService::Impl::perform(const rendezvous::CoordinatorAction& action) {
  tell_action(action);
  std::visit(Overloaded{[&](const rendezvous::SendTo& send) { deliver(send); },
                        [&](const rendezvous::CloseConnection& close) { end_connection(close); },
                        [&](const rendezvous::OpenStore& open) {
                          add(StoreAnswered{open.attempt, hooks_.open_store(open)});
                        },
                        [&](const rendezvous::CloseStore& close) { hooks_.close_store(close.attempt); },
                        [&](const rendezvous::JudgeClient& judged) {
                          if (hooks_.judge_client) hooks_.judge_client(judged.verdict);
                        },
                        [&](const rendezvous::ShowHang& hang) {
                          if (hooks_.show_hang) hooks_.show_hang(hang.verdict);
                        },
                        [&](const rendezvous::ShowStatus& status) { hooks_.show_status(status.text); },
                        [&](const rendezvous::ShowRestart& restart) { hooks_.show_restart(restart); },
                        [&](const rendezvous::ShowNotice& show) {
                          if (hooks_.show_notice) hooks_.show_notice(show.notice);
                        },
                        [&](const rendezvous::Record& record) {
                          if (hooks_.record) hooks_.record(record.event);
                        },
                        [&](const rendezvous::EndJob& end) { begin_flush(end.cause); }},
             action);
}

void CoordinatorService::Impl::admit(AuthenticationResult agent) {
  const rendezvous::ConnectionId id{++last_connection_};
  const auto connection =
      std::make_shared<Connection>(std::move(agent.socket), agent.keys, settings_.host_timeout);
  connections_[id] = connection;
  Connection::Hooks hooks;
  hooks.on_frame = while_open([this, id](const std::string& payload) { receive(id, payload); });
  hooks.on_closed = while_open([this, id](std::string why, rendezvous::ConnectionEnd end) {
    add(ConnectionClosed{id, std::move(why), end});
  });
  connection->start(std::move(hooks), std::move(agent.text));
}

void CoordinatorService::Impl::receive(rendezvous::ConnectionId id, const std::string& payload) {
  auto decoded = rendezvous::decode_agent_message(payload);
  if (auto* message = std::get_if<rendezvous::AgentMessage>(&decoded)) {
    if (const auto* output = std::get_if<rendezvous::lifeline::Output>(message))
      return hand_over(id, *output);
    if (std::holds_alternative<rendezvous::Join>(*message)) note_link(id);
    return add(MessageArrived{id, std::move(*message)});
  }
  if (const auto found = connections_.find(id); found != connections_.end()) found->second->reset();
  add(ConnectionClosed{id, "it sent " + std::get<rendezvous::CodecError>(decoded).what});
}

void CoordinatorService::Impl::hand_over(rendezvous::ConnectionId id,
                                         const rendezvous::lifeline::Output& output) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::shared_ptr<Connection> connection = found->second;
  add(ConnectionClosed{id, "it is now used for output"});
  if (!hooks_.on_output) return connection->close();
  auto [socket, first_bytes] = connection->release();
  hooks_.on_output(output, std::move(socket), std::move(first_bytes));
}

void CoordinatorService::Impl::deliver(const rendezvous::SendTo& send) {
  if (send.connection == rendezvous::k_local_connection) return hooks_.on_message(send.message);
  const auto found = connections_.find(send.connection);
  if (found == connections_.end()) return;
  // With a question on its way a host that is cut off would be waited for as one that may still hear others.
  if (std::holds_alternative<rendezvous::AliveQuestion>(send.message) && found->second->is_silent()) return;
  if (std::holds_alternative<rendezvous::Finish>(send.message)) found->second->outlive_peer();
  found->second->send(rendezvous::encode(send.message));
}

void CoordinatorService::Impl::end_connection(const rendezvous::CloseConnection& close) {
  const auto found = connections_.find(close.connection);
  if (found == connections_.end()) return;
  if (!close.reset) return found->second->finish();
  forget_link(close.connection);
  found->second->reset();
  connections_.erase(found);
}

void CoordinatorService::Impl::set_timer() {
  call_at(timer_, coordinator_->deadline(), while_open([this] { add(TimePassed{}); }));
}

void CoordinatorService::Impl::note_link(rendezvous::ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || !hooks_.on_link || links_.contains(id)) return;
  links_[id] = found->second->descriptor();
  hooks_.on_link(links_[id], true);
}

void CoordinatorService::Impl::forget_link(rendezvous::ConnectionId id) {
  const auto link = links_.extract(id);
  if (!link.empty()) hooks_.on_link(link.mapped(), false);
}

void CoordinatorService::Impl::forget(rendezvous::ConnectionId id) {
  forget_link(id);
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (flushing_) told_.push_back(found->second);  // open for as long as the report takes
  connections_.erase(found);
}

void CoordinatorService::Impl::begin_flush(const report::Cause& cause) {
  flushing_ = cause;
  for (const auto& [id, connection] : connections_) connection->finish();
  call_after(timer_, settings_.flush_timeout, while_open([this] {
               flush_expired_ = true;
               check_flushed();
             }));
}

void CoordinatorService::Impl::check_flushed() {
  const bool waiting = !connections_.empty() || coordinator_->expects_latecomers();
  if (waiting && !flush_expired_) return;
  close();
  hooks_.on_end(*flushing_);
}

CoordinatorService::CoordinatorService(boost::asio::io_context& context, CoordinatorServiceSettings settings,
                                       CoordinatorHooks hooks)
    : impl_(std::make_shared<Impl>(context, std::move(settings), std::move(hooks))) {
  impl_->listen();
}

CoordinatorService::~CoordinatorService() { impl_->close(); }
void CoordinatorService::start() { impl_->start(); }
void CoordinatorService::send(rendezvous::AgentMessage message) { impl_->send(std::move(message)); }
void CoordinatorService::ask_about(rendezvous::ClientQuestion question) {
  impl_->ask_about(std::move(question));
}
void CoordinatorService::note_connections(int count) { impl_->note_connections(count); }
void CoordinatorService::note_job_end(TimePoint end) { impl_->note_job_end(end); }
void CoordinatorService::note_grace(Milliseconds grace) { impl_->note_grace(grace); }
void CoordinatorService::warn(int signal) { impl_->warn(signal); }
int CoordinatorService::port() const { return impl_->port(); }

}  // namespace ddprun::net
