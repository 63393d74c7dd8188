#include "net/member_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <map>

#include "base/overloaded.hpp"
#include "base/text.hpp"
#include "net/authentication.hpp"
#include "net/connection.hpp"
#include "net/sealed_stream.hpp"
#include "net/timers.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "rendezvous/membership/member_session.hpp"

namespace ddprun::net {

namespace {

using Code = boost::system::error_code;
using State = rendezvous::HandshakeStep::State;

// Connections for the output being made.
struct Opening {
  std::vector<std::optional<Tcp::socket>> sockets;
  std::size_t open = 0;
  std::string problem;
};

// Several addresses of the coordinator being tried for one Probe.
struct Probing {
  std::vector<std::string> addresses;
  std::vector<bool> reached;
  std::vector<std::string> why;  // reasons against
  std::size_t open = 0;
};

}  // namespace

class MemberService::Impl : public Closable<Impl> {
 public:
  Impl(boost::asio::io_context& context, MemberServiceSettings settings, MemberHooks hooks)
      : context_(context),
        settings_(std::move(settings)),
        hooks_(std::move(hooks)),
        timer_(context),
        silence_(context, session_, [this](std::optional<Milliseconds> silence) { tell_silence(silence); }),
        session_({settings_.join.join_timeout + settings_.start_margin, settings_.answer_limit}) {}

  void start();
  void on_told(rendezvous::DiscoveryWay way, const ToldPlace& told);
  void send(const rendezvous::AgentMessage& message);
  void close();
  std::string local_end(const std::string& address) const {
    const auto found = local_ends_.find(address);
    return found == local_ends_.end() ? std::string() : found->second;
  }

 private:
  void tell(const std::string& text) const {
    if (hooks_.show_detail) hooks_.show_detail(text);
  }
  void tell_candidates() const;
  void tell_dial(rendezvous::CandidateId candidate, const std::string& outcome);
  void perform(const rendezvous::MemberJoin::Actions& actions);
  void look_up(const std::string& name);
  void fail_lookup(const std::string& name, const std::string& why);
  void look_at_rendezvous_file();
  void dial(const rendezvous::DialCandidate& candidate);
  void dial_ended(rendezvous::CandidateId candidate, AuthenticationResult result);
  void drop_attempts();
  void join(AuthenticationResult result);
  void receive(const std::string& payload);
  void part();
  void end_parting();
  void pass_on(const rendezvous::CoordinatorMessage& message, bool ends);
  void open_output();
  void note_output(const std::shared_ptr<Opening>& opening, std::size_t stream, AuthenticationResult result);
  void probe(const rendezvous::Probe& request);
  void lose(const std::string& what, const std::string& hint,
            rendezvous::ConnectionEnd end = rendezvous::ConnectionEnd::broken);
  void set_timer();
  void expect_word(const rendezvous::MemberSession::Expectation& expectation);
  void tell_silence(std::optional<Milliseconds> silence);
  std::string coordinator() const;
  rendezvous::Handshake handshake() const;

  boost::asio::io_context& context_;
  MemberServiceSettings settings_;
  MemberHooks hooks_;
  boost::asio::steady_timer timer_;
  CoordinatorSilence silence_;
  int socket_ = -1;      // socket that on_link got
  std::string reached_;  // the coordinator's end of the connection, once joined
  int reached_port_ = 0;
  std::string told_name_;                          // name of its host, from itself
  std::map<std::string, std::string> local_ends_;  // own address towards each address of the coordinator
  std::optional<rendezvous::MemberJoin> join_;
  std::map<std::string, std::shared_ptr<WholeAnswer>> queries_;
  std::map<rendezvous::CandidateId, std::shared_ptr<Dial>> dials_;
  struct Told {
    std::string place;    // "10.0.0.1 port 29500"
    std::string outcome;  // outcome of the last dial
  };
  std::map<rendezvous::CandidateId, Told> told_;  // shown by show_detail for each candidate
  std::vector<std::shared_ptr<Dial>> probes_;
  std::vector<std::shared_ptr<Dial>> output_dials_;
  bool output_asked_ = false;
  rendezvous::MemberSession session_;
  struct Held {
    rendezvous::CoordinatorMessage message;
    bool ends;
  };
  std::vector<Held> held_;  // until the output has its connections
  std::optional<AuthenticationResult> found_;
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Connection> parting_;  // after the last message
};

void MemberService::Impl::start() {
  const TimePoint now = std::chrono::steady_clock::now();
  join_.emplace(settings_.join, now);
  boost::asio::post(context_, while_open([this] {
                      tell_candidates();
                      perform(join_->start(std::chrono::steady_clock::now()));
                    }));
}

void MemberService::Impl::send(const rendezvous::AgentMessage& message) {
  if (!connection_) return;
  connection_->send(rendezvous::encode(message));
  if (const auto expectation = session_.note_sent(message)) expect_word(*expectation);
}

void MemberService::Impl::close() {
  closed_ = true;
  const int socket = std::exchange(socket_, -1);
  if (socket >= 0 && hooks_.on_link) hooks_.on_link(socket, false);
  timer_.cancel();
  silence_.cancel();
  drop_attempts();
  for (const auto& dial : std::exchange(probes_, {})) dial->cancel();
  for (const auto& dial : std::exchange(output_dials_, {})) dial->cancel();
  for (const auto& connection : {std::exchange(connection_, nullptr), std::exchange(parting_, nullptr)}) {
    if (connection) connection->close();
  }
}

// ---- finding the coordinator

void MemberService::Impl::tell_candidates() const {
  const rendezvous::MemberJoinSettings& join_settings = settings_.join;
  std::vector<std::string> ways;
  if (!join_settings.addresses.empty()) {
    ways.push_back(fmt::format("{}, port {}", ddprun::join(join_settings.addresses, ", "),
                               fmt::join(join_settings.ports, ", ")));
  }
  for (const rendezvous::Successor& each : join_settings.successors)
    ways.push_back(fmt::format("{} ({}), port {}", each.host, ddprun::join(each.addresses, ", "), each.port));
  if (!join_settings.rendezvous_file.empty())
    ways.push_back("rendezvous file " + join_settings.rendezvous_file);
  if (!join_settings.key_value_space.empty()) ways.push_back(join_settings.key_value_space);
  tell("looking for the coordinator: " + ddprun::join(ways, "; "));
}

// Shows the outcome of a dial. A candidate is tried again and again; only a difference from the time before
// is shown.
void MemberService::Impl::tell_dial(rendezvous::CandidateId candidate, const std::string& outcome) {
  Told& told = told_[candidate];
  if (told.outcome == outcome) return;
  told.outcome = outcome;
  tell(fmt::format("{}: {}", told.place, outcome));
}

void MemberService::Impl::perform(const rendezvous::MemberJoin::Actions& actions) {
  for (const rendezvous::MemberJoinAction& action : actions) {
    if (closed_) return;
    std::visit(Overloaded{[&](const rendezvous::ResolveName& resolve) { look_up(resolve.name); },
                          [&](const rendezvous::DialCandidate& candidate) { dial(candidate); },
                          [&](const rendezvous::LookAtRendezvousFile&) { look_at_rendezvous_file(); },
                          [&](const rendezvous::TakeCandidate&) {
                            drop_attempts();
                            join(std::move(*found_));
                          },
                          [&](const rendezvous::GiveUp& end) { lose(end.what, end.hint); },
                          [&](const rendezvous::ShowJoinStatus& status) { hooks_.show_status(status.text); }},
               action);
  }
  if (!closed_ && !join_->over()) set_timer();
}

void MemberService::Impl::look_up(const std::string& name) {
  NameLookup lookup;
  try {
    lookup = hooks_.start_lookup(name);
  } catch (const std::exception& error) {
    return fail_lookup(name, error.what());
  }
  queries_[name] = query_name(
      context_, std::move(lookup), settings_.lookup_limit,
      while_open([this, name](const std::vector<std::string>& addresses, const std::string& error) {
        queries_.erase(name);
        const TimePoint now = std::chrono::steady_clock::now();
        tell(fmt::format("{} is {}", name,
                         error.empty() ? ddprun::join(addresses, ", ") : "unknown: " + error));
        perform(error.empty() ? join_->on_resolved(name, addresses, now)
                              : join_->on_resolve_failed(name, error, now));
      }));
}

// Fails the look-up later: the actions that asked for it are still being performed.
void MemberService::Impl::fail_lookup(const std::string& name, const std::string& why) {
  boost::asio::post(context_, while_open([this, name, why] {
                      perform(join_->on_resolve_failed(name, why, std::chrono::steady_clock::now()));
                    }));
}

void MemberService::Impl::look_at_rendezvous_file() {
  boost::asio::post(context_, while_open([this] {
                      on_told(rendezvous::DiscoveryWay::file, hooks_.look_at_rendezvous_file());
                    }));
}

void MemberService::Impl::on_told(rendezvous::DiscoveryWay way, const ToldPlace& told) {
  if (closed_ || join_->over()) return;
  const TimePoint now = std::chrono::steady_clock::now();
  const auto* const place = std::get_if<rendezvous::CoordinatorPlace>(&told);
  perform(place != nullptr ? join_->on_place(way, *place, now)
                           : join_->on_no_place(way, std::get<std::string>(told), now));
}

void MemberService::Impl::dial(const rendezvous::DialCandidate& candidate) {
  const rendezvous::CandidateId id = candidate.candidate;
  const std::string place = fmt::format("{} port {}", candidate.address, candidate.port);
  if (told_[id].place != place) {
    told_[id] = {place, {}};
    tell("dialling " + place);
  }
  const auto attempt = std::make_shared<Dial>(
      context_, handshake(), settings_.dial,
      while_open([this, id](AuthenticationResult result) { dial_ended(id, std::move(result)); }));
  dials_[id] = attempt;
  attempt->start(candidate.address, candidate.port);
}

void MemberService::Impl::dial_ended(rendezvous::CandidateId candidate, AuthenticationResult result) {
  dials_.erase(candidate);
  const TimePoint now = std::chrono::steady_clock::now();
  if (result.state != State::done) {
    tell_dial(candidate, result.text);
    return perform(join_->on_failed(candidate, result.text, now, result.answered));
  }
  tell_dial(candidate, "both sides authenticated with " + result.proof);
  found_.emplace(std::move(result));
  perform(join_->on_authenticated(candidate, now));
}

void MemberService::Impl::drop_attempts() {
  for (const auto& [name, query] : std::exchange(queries_, {})) query->cancel();
  for (const auto& [id, dial] : std::exchange(dials_, {})) dial->cancel();
}

void MemberService::Impl::set_timer() {
  call_at(timer_, join_->deadline(), while_open([this] {
            if (!join_->over()) perform(join_->on_time(std::chrono::steady_clock::now()));
          }));
}

rendezvous::Handshake MemberService::Impl::handshake() const {
  return {rendezvous::HandshakeRole::member, settings_.launch_key, make_key_exchange(),
          settings_.authenticator};
}

// ---- joined

void MemberService::Impl::join(AuthenticationResult result) {
  rendezvous::Join join;
  join.announcement = settings_.announcement;
  join.failure = settings_.failure;
  join.survivor = settings_.survivor;
  join.checkpoints = settings_.checkpoints;
  join.version = settings_.version;
  reached_ = remote_address(result.socket);
  boost::system::error_code ignored;
  reached_port_ = result.socket.remote_endpoint(ignored).port();
  for (const rendezvous::Successor& each : settings_.join.successors) {
    const bool there = std::ranges::find(each.addresses, reached_) != each.addresses.end();
    if (there && each.port == reached_port_) told_name_ = each.host;
  }
  join.reached = reached_;
  const std::string local = local_address(result.socket);
  local_ends_[reached_] = local;
  // The address that was proven between the two hosts comes first.
  std::vector<std::string>& addresses = join.announcement.addresses;
  if (rendezvous::crosses_hosts(local)) {
    std::erase(addresses, local);
    addresses.insert(addresses.begin(), local);
  }
  join.agents = settings_.agents;
  tell(fmt::format("joining the coordinator {} from {}", coordinator(), local));

  connection_ = std::make_shared<Connection>(std::move(result.socket), result.keys, settings_.dial.link);
  Connection::Hooks hooks;
  hooks.on_frame = while_open([this](const std::string& payload) { receive(payload); });
  hooks.on_closed = [weak = weak_from_this()](const std::string& why, rendezvous::ConnectionEnd end) {
    const auto self = weak.lock();
    if (!self) return;
    if (self->parting_) return self->end_parting();
    self->lose(fmt::format("lost the coordinator {}: {}", self->coordinator(), why), "", end);
  };
  connection_->start(std::move(hooks), std::move(result.text));
  send(std::move(join));
  if (hooks_.on_joined) hooks_.on_joined(reached_, reached_port_);
  socket_ = connection_->descriptor();
  if (hooks_.on_link) hooks_.on_link(socket_, true);
}

void MemberService::Impl::expect_word(const rendezvous::MemberSession::Expectation& expectation) {
  call_after(timer_, expectation.limit, while_open([this, otherwise = expectation.otherwise] {
               lose(fmt::format("the coordinator {} {}", coordinator(), otherwise),
                    "ddprun on that host hangs or was stopped",
                    session_.end_of_overdue(std::chrono::steady_clock::now()));
             }));
}

void MemberService::Impl::tell_silence(std::optional<Milliseconds> silence) {
  if (silence && session_.is_idle() && *silence >= rendezvous::MemberSession::k_silence_limit) {
    return lose(fmt::format("lost the coordinator {}: it has not answered for {}", coordinator(),
                            describe_duration(std::chrono::floor<std::chrono::seconds>(*silence))),
                "ddprun on that host hangs or was stopped", rendezvous::ConnectionEnd::broken);
  }
  const bool again = silence && *silence >= 2 * rendezvous::MemberSession::k_silence;
  if (!again && hooks_.on_silence) hooks_.on_silence(coordinator(), silence);
}

// Returns the coordinator's name and address: in a launch by hand the name is unknown, and the address says
// more.
std::string MemberService::Impl::coordinator() const {
  const std::string& name = told_name_.empty() ? settings_.join.coordinator : told_name_;
  return name.empty() ? reached_ : fmt::format("{} ({})", name, reached_);
}

void MemberService::Impl::receive(const std::string& payload) {
  auto decoded = rendezvous::decode_coordinator_message(payload);
  if (const auto* error = std::get_if<rendezvous::CodecError>(&decoded)) {
    return lose(fmt::format("lost the coordinator {}: it sent {}", coordinator(), error->what), "");
  }
  const auto& message = std::get<rendezvous::CoordinatorMessage>(decoded);
  const auto judged = session_.note_received(message, std::chrono::steady_clock::now());
  if (const auto* why = std::get_if<std::string>(&judged))
    return lose(fmt::format("lost the coordinator {}: {}", coordinator(), *why), "");
  silence_.end();
  if (const auto* question = std::get_if<rendezvous::AliveQuestion>(&message)) {
    send(rendezvous::Alive{});
    if (!session_.takes_grace(question->grace)) return;
    if (const auto expectation = session_.expectation()) expect_word(*expectation);
  }
  if (const auto* roster = std::get_if<rendezvous::Roster>(&message)) told_name_ = roster->host;
  if (const auto* request = std::get_if<rendezvous::Probe>(&message)) return probe(*request);
  const auto received = std::get<rendezvous::MemberSession::Received>(judged);
  if (!received.answers) return hooks_.on_message(message);
  timer_.cancel();
  const bool begins_output = std::holds_alternative<rendezvous::Start>(message) &&
                             settings_.output_streams > 0 && !std::exchange(output_asked_, true);
  if (begins_output) open_output();
  if (!output_dials_.empty()) return held_.push_back({message, received.ends});
  pass_on(message, received.ends);
}

// Ends the connection in order: the coordinator is told that this agent has heard it, and its process
// outlives this connection.
void MemberService::Impl::part() {
  const std::shared_ptr<Connection> last = std::exchange(connection_, nullptr);
  close();
  parting_ = last;
  if (parting_) parting_->finish();
}

void MemberService::Impl::end_parting() {
  parting_.reset();
  if (hooks_.on_coordinator_ended) hooks_.on_coordinator_ended();
}

void MemberService::Impl::pass_on(const rendezvous::CoordinatorMessage& message, bool ends) {
  if (ends) part();
  hooks_.on_message(message);
}

// Opens the connections for output. The coordinator was reached there, and listens there as long as the job
// runs. What it says meanwhile waits.
void MemberService::Impl::open_output() {
  const auto opening = std::make_shared<Opening>();
  opening->open = static_cast<std::size_t>(settings_.output_streams);
  opening->sockets.resize(opening->open);
  for (std::size_t i = 0; i < opening->sockets.size(); ++i) {
    output_dials_.push_back(std::make_shared<Dial>(
        context_, handshake(), settings_.dial, while_open([this, opening, i](AuthenticationResult result) {
          note_output(opening, i, std::move(result));
        })));
    output_dials_.back()->start(reached_, reached_port_);
  }
}

void MemberService::Impl::note_output(const std::shared_ptr<Opening>& opening, std::size_t stream,
                                      AuthenticationResult result) {
  if (result.state == State::done) {
    const auto name =
        stream == 0 ? rendezvous::lifeline::Stream::output : rendezvous::lifeline::Stream::error;
    const std::string hello = rendezvous::encode(
        rendezvous::AgentMessage(rendezvous::lifeline::Output{name, settings_.announcement.host}));
    Code error;
    boost::asio::write(result.socket, boost::asio::buffer(SealedWriter(result.keys.send).seal(hello)), error);
    if (error) opening->problem = describe_error(error);
    opening->sockets[stream] = std::move(result.socket);
  } else {
    opening->problem = result.text;
  }
  if (--opening->open > 0) return;
  output_dials_.clear();
  std::vector<Tcp::socket> sockets;
  if (opening->problem.empty()) {
    for (auto& socket : opening->sockets) sockets.push_back(std::move(*socket));
  }
  hooks_.on_output(std::move(sockets), opening->problem);
  for (const Held& each : std::exchange(held_, {})) {
    if (!closed_) pass_on(each.message, each.ends);
  }
}

void MemberService::Impl::probe(const rendezvous::Probe& request) {
  const auto probing = std::make_shared<Probing>();
  probing->addresses = request.addresses;
  probing->reached.assign(request.addresses.size(), false);
  probing->why.resize(request.addresses.size());
  probing->open = request.addresses.size();
  if (probing->open == 0) return send(rendezvous::Probed{});
  probes_.clear();
  for (std::size_t i = 0; i < request.addresses.size(); ++i) {
    const auto attempt = std::make_shared<Dial>(
        context_, handshake(), settings_.probe,
        while_open([this, probing, i](const AuthenticationResult& result) {
          probing->reached[i] = result.state == State::done;
          probing->why[i] = result.text;
          if (probing->reached[i]) local_ends_[probing->addresses[i]] = local_address(result.socket);
          if (--probing->open > 0) return;
          rendezvous::Probed answer;
          for (std::size_t k = 0; k < probing->addresses.size(); ++k) {
            if (probing->reached[k]) {
              answer.reachable.push_back(probing->addresses[k]);
            } else {
              answer.failures.push_back(probing->addresses[k] + ": " + probing->why[k]);
            }
          }
          tell(fmt::format("this node reaches {} of {}",
                           answer.reachable.empty() ? "none" : ddprun::join(answer.reachable, ", "),
                           ddprun::join(probing->addresses, ", ")));
          send(answer);
        }));
    probes_.push_back(attempt);
    attempt->start(request.addresses[i], request.port);
  }
}

// Loses the coordinator, which may live and must not take this for the end of this process.
void MemberService::Impl::lose(const std::string& what, const std::string& hint,
                               rendezvous::ConnectionEnd end) {
  if (closed_) return;
  if (connection_) connection_->reset();
  close();
  hooks_.on_lost(what, hint, end);
}

MemberService::MemberService(boost::asio::io_context& context, MemberServiceSettings settings,
                             MemberHooks hooks)
    : impl_(std::make_shared<Impl>(context, std::move(settings), std::move(hooks))) {}

MemberService::~MemberService() { impl_->close(); }
void MemberService::start() { impl_->start(); }
std::string MemberService::local_end(const std::string& address) const { return impl_->local_end(address); }

void MemberService::on_key_value_space(const ToldPlace& told) {
  impl_->on_told(rendezvous::DiscoveryWay::key_value_space, told);
}

void MemberService::send(rendezvous::AgentMessage message) { impl_->send(message); }

}  // namespace ddprun::net
