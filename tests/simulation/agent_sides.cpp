#include "agent_sides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/host_limits.hpp"
#include "world.hpp"

namespace ddprun::simulation {

using namespace rendezvous;

namespace {

constexpr Milliseconds k_stop_margin{15000}, k_start_margin{60000}, k_flush_timeout{5000};
constexpr Milliseconds k_own_sleep{5000};

// Now and then a message comes in two pieces, and a connection may end between them.
void send_in_pieces(Link& link, int end, const std::string& bytes, Random& random) {
  if (!one_in(random, 8)) return link.send(end, bytes);
  const auto cut = static_cast<std::size_t>(pick(random, static_cast<int>(bytes.size())));
  link.send(end, bytes.substr(0, cut));
  link.send(end, bytes.substr(cut));
}

}  // namespace

// ---- a member

MemberSide::MemberSide(Agent& agent, World& world, const MemberJoinSettings& settings,
                       std::optional<Survivor> told)
    : agent_(agent),
      world_(world),
      survivor_(std::move(told)),
      join_(settings, world.clock().now()),
      session_({settings.join_timeout + k_start_margin, world.launch().grace + 2 * k_stop_margin}),
      timer_(world.clock()),
      silence_(world.clock()) {}

void MemberSide::start() {
  agent_.post([this, weak = std::weak_ptr(here_)] {
    if (weak.lock() && !closed_) perform(join_.start(world_.clock().now()));
  });
}

void MemberSide::perform(const MemberJoin::Actions& actions) {
  for (const MemberJoinAction& action : actions) {
    if (closed_) return;
    if (const auto* candidate = std::get_if<DialCandidate>(&action)) dial(*candidate);
    if (std::holds_alternative<TakeCandidate>(action)) {
      drop_dials();
      join(found_->link, found_->address, found_->port);
    }
    if (const auto* end = std::get_if<GiveUp>(&action)) return lose(end->what);
  }
  if (closed_ || join_.over()) return;
  agent_.set_timer(timer_, *join_.deadline(), [this] {
    if (!closed_ && !join_.over()) perform(join_.on_time(world_.clock().now()));
  });
}

void MemberSide::dial(const DialCandidate& candidate) {
  const auto dialling = world_.dial(agent_, candidate.address, candidate.port);
  dials_[candidate.candidate] = dialling;
  dialling->failed = [this, weak = std::weak_ptr(here_), id = candidate.candidate](const std::string& why) {
    agent_.post([this, weak, id, why] {
      if (!weak.lock() || closed_ || join_.over() || dials_.erase(id) == 0) return;
      perform(join_.on_failed(id, why, world_.clock().now()));
    });
  };
  dialling->taken = [this, weak = std::weak_ptr(here_), candidate, &world = world_,
                     process = agent_.number()](const std::shared_ptr<Link>& taken) {
    world.process(process)->post([this, weak, candidate, taken] {
      if (!weak.lock() || closed_ || join_.over() || dials_.erase(candidate.candidate) == 0)
        return taken->close(0);
      found_ = Found{taken, candidate.address, candidate.port};
      perform(join_.on_authenticated(candidate.candidate, world_.clock().now()));
    });
  };
}

void MemberSide::drop_dials() {
  for (const auto& [id, dialling] : std::exchange(dials_, {})) dialling->over = true;
}

void MemberSide::join(const std::shared_ptr<Link>& taken, const std::string& address, int port) {
  link = taken;
  Join message;
  message.announcement = agent_.announcement();
  message.survivor = survivor_;
  message.version = "1";
  message.reached = address;
  message.agents = world_.launch().agents;
  agent_.led_by_ = taken->leader;
  message.checkpoints = agent_.tell_all_checkpoints();
  link->listen(0, {[this, weak = std::weak_ptr(here_)](const std::string& bytes) {
                     agent_.post([this, weak, bytes] {
                       if (weak.lock()) take(bytes);
                     });
                   },
                   [this, weak = std::weak_ptr(here_)](ConnectionEnd end) {
                     if (weak.lock()) {
                       link_closed_ = true;
                       agent_.note_link_closed();
                     }
                     agent_.post([this, weak, end] {
                       if (weak.lock()) lose("lost the coordinator", end);
                     });
                   }});
  agent_.turn_.cancel();
  agent_.next_.note_joined(address, port);
  agent_.life_.note_found();
  send(std::move(message));
  world_.note_stage("joining");
}

void MemberSide::send(const AgentMessage& message) {
  if (!link || closed_) return;
  send_in_pieces(*link, 0, encode(message), world_.random());
  if (const auto expectation = session_.note_sent(message)) expect_word(*expectation);
}

void MemberSide::take(const std::string& bytes) {
  reader_.append(bytes);
  while (!closed_) {
    auto item = reader_.next();
    if (std::holds_alternative<std::monostate>(item)) return;
    if (const auto* error = std::get_if<CodecError>(&item)) return lose("it sent " + error->what);
    receive(std::get<std::string>(item));
  }
}

void MemberSide::receive(const std::string& payload) {
  auto decoded = decode_coordinator_message(payload);
  if (const auto* error = std::get_if<CodecError>(&decoded)) return lose("it sent " + error->what);
  const auto& message = std::get<CoordinatorMessage>(decoded);
  const auto judged = session_.note_received(message, world_.clock().now());
  if (const auto* why = std::get_if<std::string>(&judged)) return lose(*why);
  wait_in_silence();
  if (std::holds_alternative<AliveQuestion>(message)) return send(Alive{});
  if (const auto* request = std::get_if<Probe>(&message)) return send(Probed{request->addresses, {}});
  const auto received = std::get<MemberSession::Received>(judged);
  if (received.answers) timer_.cancel();
  if (received.ends) close();
  agent_.life_.note_joined();
  agent_.on_message(message);
}

void MemberSide::lose(const std::string& what, ConnectionEnd end) {
  if (closed_) return;
  if (link) link->reset(0);
  close();
  agent_.on_coordinator_lost(what, end);
}

void MemberSide::close() {
  closed_ = true;
  timer_.cancel();
  silence_.cancel();
  drop_dials();
  if (link) link->close(0);
}

void MemberSide::expect_word(const MemberSession::Expectation& expectation) {
  const TimePoint deadline = world_.clock().now() + expectation.limit;
  agent_.set_timer(timer_, deadline, [this, otherwise = expectation.otherwise] {
    if (!closed_) lose("the coordinator " + otherwise, session_.end_of_overdue(world_.clock().now()));
  });
}

void MemberSide::wait_in_silence() {
  const TimePoint due = world_.clock().now() + MemberSession::k_silence;
  agent_.set_timer(silence_, due, [this, due] {
    if (closed_) return;
    world_.clock().now() > due + k_own_sleep ? wait_in_silence() : note_silence();
  });
}

void MemberSide::note_silence() {
  const bool overdue = session_.silence(world_.clock().now()) >= MemberSession::k_silence_limit;
  if (session_.is_idle() && overdue) return lose("the coordinator has not answered", ConnectionEnd::broken);
  wait_in_silence();
}

// ---- the coordinator

CoordinatorSide::CoordinatorSide(Agent& agent, World& world, CoordinatorSettings settings)
    : machine(std::move(settings), world.clock().now()),
      agent_(agent),
      world_(world),
      timer_(world.clock()) {}

void CoordinatorSide::input(Event event) {
  inputs_.push_back(std::move(event));
  if (inputs_.size() > 1) return;
  agent_.post([this] { handle_inputs(); });
}

void CoordinatorSide::handle_inputs() {
  const TimePoint now = world_.clock().now();
  Coordinator::Actions actions;
  for (const Event& event : std::exchange(inputs_, {})) {
    for (CoordinatorAction& action : event(now)) actions.push_back(std::move(action));
  }
  tell_world(actions);
  for (const CoordinatorAction& action : actions) {
    if (closed_ || !agent_.alive()) return;
    perform(action);
  }
  if (closed_) return;
  flushing_ ? check_flushed() : set_timer();
}

void CoordinatorSide::tell_world(const Coordinator::Actions& actions) {
  std::vector<std::pair<int, Start>> starts;
  for (const CoordinatorAction& action : actions) {
    const auto* send = std::get_if<SendTo>(&action);
    const auto* start = send != nullptr ? std::get_if<Start>(&send->message) : nullptr;
    if (start != nullptr) starts.emplace_back(place_of(send->connection), *start);
    if (const auto* notice = std::get_if<ShowNotice>(&action))
      world_.tell(agent_.name(), notice->notice.what);
    if (const auto* restart = std::get_if<ShowRestart>(&action)) world_.note_restart(agent_, *restart);
    if (const auto* end = std::get_if<EndJob>(&action)) world_.note_end(agent_, end->cause);
  }
  if (!starts.empty()) world_.note_starts(agent_, starts);
}

int CoordinatorSide::place_of(ConnectionId connection) const {
  const auto found = places_.find(connection);
  return found == places_.end() ? agent_.place() : found->second;
}

void CoordinatorSide::perform(const CoordinatorAction& action) {
  if (const auto* send = std::get_if<SendTo>(&action)) deliver(*send);
  if (const auto* close = std::get_if<CloseConnection>(&action)) end_connection(*close);
  if (const auto* open = std::get_if<OpenStore>(&action)) {
    world_.note_stage("opening");
    input([this, attempt = open->attempt](TimePoint now) {
      return machine.on_store_ready(attempt, 41000 + attempt.value, now);
    });
  }
  if (std::holds_alternative<EndJob>(action)) begin_flush();
}

void CoordinatorSide::deliver(const SendTo& send) {
  if (std::holds_alternative<Start>(send.message)) world_.note_stage("starting");
  if (std::holds_alternative<Stop>(send.message)) world_.note_stage("stopping");
  if (std::holds_alternative<Probe>(send.message)) world_.note_stage("probing");
  if (std::holds_alternative<Finish>(send.message)) world_.note_stage("finishing");
  if (send.connection == k_local_connection) {
    agent_.led_by_ = agent_.number();
    return agent_.on_message(send.message);
  }
  const auto found = links.find(send.connection);
  if (found == links.end()) return;
  send_in_pieces(*found->second, 1, encode(send.message), world_.random());
}

void CoordinatorSide::end_connection(const CloseConnection& close) {
  const auto found = links.find(close.connection);
  if (found == links.end()) return;
  if (!close.reset) return found->second->finish(1);
  found->second->reset(1);
  links.erase(found);
}

void CoordinatorSide::admit(const std::shared_ptr<Link>& link) {
  const ConnectionId id{++last_};
  links[id] = link;
  places_[id] = link->host(0);
  link->listen(
      1, {[this, id](const std::string& bytes) { agent_.post([this, id, bytes] { receive(id, bytes); }); },
          [this, id](ConnectionEnd end) {
            links_closed_.insert(id);
            agent_.note_link_closed();
            agent_.post([this, id, end] { note_end(id, "the connection ended", end); });
          }});
}

bool CoordinatorSide::is_forsaken() const {
  const auto closed =
      std::ranges::count_if(links, [this](const auto& each) { return links_closed_.contains(each.first); });
  return !closed_ && 2 * static_cast<std::size_t>(closed) > links.size();
}

void CoordinatorSide::note_end(ConnectionId id, const std::string& why, ConnectionEnd end) {
  if (closed_ || !links.contains(id)) return;
  input([this, id, why, end](TimePoint now) {
    links.erase(id);
    return machine.on_closed(id, why, now, end);
  });
}

void CoordinatorSide::receive(ConnectionId id, const std::string& bytes) {
  FrameReader& reader = readers_[id];
  reader.append(bytes);
  while (!closed_) {
    auto item = reader.next();
    if (std::holds_alternative<std::monostate>(item)) return;
    auto decoded = std::holds_alternative<std::string>(item)
                       ? decode_agent_message(std::get<std::string>(item))
                       : std::variant<AgentMessage, CodecError>(std::get<CodecError>(item));
    if (const auto* error = std::get_if<CodecError>(&decoded)) {
      if (links.contains(id)) links[id]->reset(1);
      return note_end(id, "it sent " + error->what, ConnectionEnd::broken);
    }
    input([this, id, message = std::get<AgentMessage>(std::move(decoded))](TimePoint now) {
      return machine.on_message(id, message, now);
    });
  }
}

void CoordinatorSide::set_timer() {
  const auto deadline = machine.deadline();
  if (!deadline) return timer_.cancel();
  agent_.set_timer(timer_, *deadline,
                   [this] { input([this](TimePoint now) { return machine.on_time(now); }); });
}

void CoordinatorSide::begin_flush() {
  flushing_ = true;
  for (const auto& [id, link] : links) link->finish(1);
  agent_.set_timer(timer_, world_.clock().now() + k_flush_timeout, [this] {
    flush_expired_ = true;
    check_flushed();
  });
}

void CoordinatorSide::check_flushed() {
  const bool waiting = !links.empty() || machine.expects_latecomers();
  if (closed_ || (waiting && !flush_expired_)) return;
  closed_ = true;
  timer_.cancel();
  for (const auto& [id, link] : links) link->close(1);
  links.clear();
  agent_.life_.note_told_all();
  agent_.carry_out(agent_.life_.on_workers(agent_.workers_state()));
}

// ---- of an agent

CoordinatorSettings Agent::coordinator_settings() const {
  const Launch& launch = world_.launch();
  CoordinatorSettings settings;
  settings.agents = launch.agents;
  settings.own = {place_};
  settings.succession = !launch.returns;
  if (launch.returns) {
    settings.return_timeout = launch.join_timeout;
  } else {
    settings.looks_at_spares = true;
    settings.elastic = ElasticNodes{launch.least, launch.spares, launch.last_call, launch.grow};
  }
  settings.peers.assign(static_cast<std::size_t>(launch.agents), {});
  settings.version = "1";
  settings.launch_id = "launch";
  settings.by_network = launch.by_network;
  settings.domain_size = launch.domain_size;
  settings.max_restarts = launch.max_restarts;
  settings.restarts.rule.value = options::RestartRule::always;
  settings.restarts.backoff.value = launch.backoff;
  settings.join_timeout = launch.join_timeout;
  settings.stop_timeout = launch.grace + k_stop_margin;
  settings.addresses = announcement().addresses;
  settings.port = place_ == 0 ? k_first_port : k_successor_port + place_;
  settings.grace = launch.grace;
  settings.silence = launch.host_timeout;
  if (launch.saves)
    settings.checkpoints =
        CheckpointSettings{launch.flushes ? "/shared" : "", launch.flush_every, Milliseconds{20000}, {}};
  return settings;
}

void Agent::begin_member(MemberJoinSettings settings, std::optional<Survivor> survivor) {
  life_.note_told_all();
  member_ = std::make_shared<MemberSide>(*this, world_, std::move(settings), std::move(survivor));
  member_->start();
}

void Agent::begin_coordinator(CoordinatorSettings settings, std::optional<Survivor> survivor) {
  listens_ = true;
  coordinator_ = std::make_shared<CoordinatorSide>(*this, world_, settings);
  world_.note_coordinator(*this);
  Join join;
  join.announcement = announcement();
  join.survivor = std::move(survivor);
  join.version = settings.version;
  join.agents = settings.agents;
  led_by_ = number_;
  join.checkpoints = tell_all_checkpoints();
  send(std::move(join));
  life_.note_coordinates();
  life_.note_joined();
  for (const auto& dialling : std::exchange(backlog_, {})) post([this, dialling] { accept(dialling); });
}

// The kernel takes a connection for whoever listens; a coordinator then shakes hands.
void Agent::dial_in(const std::shared_ptr<Dialling>& dialling) {
  if (!coordinator_) return backlog_.push_back(dialling);
  post([this, dialling] { accept(dialling); });
}

void Agent::accept(const std::shared_ptr<Dialling>& dialling) {
  Network& network = world_.network();
  if (dialling->over || !coordinator_) return;
  if (!network.reaches(dialling->from, place_) || !network.reaches(place_, dialling->from)) return;
  dialling->over = true;
  const Milliseconds host_timeout = world_.launch().host_timeout;
  const auto link = network.connect(dialling->from, place_, member_limit(host_timeout), host_timeout);
  link->leader = number_;
  coordinator_->admit(link);
  world_.clock().after(network.way(), [dialling, link] { dialling->taken(link); });
}

}  // namespace ddprun::simulation
