#include "world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <utility>

#include "agent_sides.hpp"
#include "rendezvous/host_limits.hpp"

namespace ddprun::simulation {

using namespace rendezvous;

namespace {

constexpr Microseconds k_second{1000000};
constexpr std::chrono::minutes k_decided_by{20};  // of virtual time
constexpr Milliseconds k_connect_limit{3000}, k_handshake_limit{20000};

Timing random_timing(Random& random) {
  if (one_in(random, 6)) return {Microseconds{50000}, Microseconds{400000}};
  return {};
}

}  // namespace

Launch World::random_launch(Random& random, unsigned seed) {
  const bool returns = seed % 5 == 0;
  Launch launch;
  launch.by_network = seed % 3 == 0;
  launch.domain_size = seed % 6 == 0 && !returns ? 2 : 0;
  launch.agents = 2 + pick(random, 8);
  launch.spares = one_in(random, 3) ? pick(random, launch.agents - 1) : 0;
  launch.least = 1 + pick(random, launch.agents - launch.spares);
  launch.workers = 1 + pick(random, 2);
  launch.max_restarts = pick(random, 4);
  launch.grow = options::Grow{pick(random, 3)};
  if (one_in(random, 4)) launch.backoff = std::chrono::seconds(1);
  launch.host_timeout = std::vector<Milliseconds>{
      Milliseconds{7000}, Milliseconds{10000}, Milliseconds{20000},
      Milliseconds{60000}}.at(static_cast<std::size_t>(pick(random, 4)));
  launch.grace = std::chrono::seconds(1 + pick(random, 5));
  launch.returns = returns;
  launch.saves = seed % 4 != 3;
  launch.flushes = seed % 8 < 4;
  if (seed % 16 < 8) launch.flush_every = std::chrono::seconds(3);
  if (!returns) return launch;
  launch.spares = 0;
  launch.least = launch.agents;
  launch.max_restarts = std::max(1, launch.max_restarts);
  return launch;
}

World::World(unsigned seed, bool trace)
    : trace_(trace),
      random_(seed),
      launch_(random_launch(random_, seed)),
      network_(clock_, random_, launch_.agents, random_timing(random_)) {}

void World::tell(const std::string& who, const std::string& what) const {
  if (!trace_) return;
  fmt::print("{:10.4f} {:6} {}\n", std::chrono::duration<double>(clock_.now().time_since_epoch()).count(),
             who, what);
}

void World::require(bool holds, const std::string& what) const {
  if (!holds) throw Violation{what};
}

// ---- a schedule

Summary World::run() {
  tell("world", fmt::format("{} agents, {} at least, {} spare, {} workers each, {} restarts, host timeout {}",
                            launch_.agents, launch_.least, launch_.spares, launch_.workers,
                            launch_.max_restarts, describe_duration(launch_.host_timeout)));
  plan_faults();
  for (int place = 0; place < launch_.agents; ++place) {
    agents_.push_back(std::make_unique<Agent>(*this, place, place));
    const bool is_late = one_in(random_, 10);
    anyone_late_ |= is_late;
    const Microseconds late = between(random_, Microseconds{0}, is_late ? 6 * k_second : Microseconds{50000});
    clock_.after(late, [agent = agents_.back().get()] {
      if (agent->alive()) agent->start();
    });
  }
  while (any_running()) {
    if (all_frozen() || !clock_.step()) require(kill_frozen(), "an agent waits for nothing");
    require(clock_.now() < TimePoint{} + k_decided_by, "nothing is decided after 20 minutes");
  }
  check_end();
  return summary_;
}

bool World::any_running() const {
  return std::ranges::any_of(agents_, [](const auto& agent) { return agent->alive(); });
}

// Those that are left frozen, without anybody who would wait for them, are ended by whoever has frozen them.
bool World::all_frozen() const {
  return std::ranges::all_of(agents_,
                             [](const auto& each) { return !each->alive() || each->frozen_for_good(); });
}

bool World::kill_frozen() {
  bool any = false;
  for (const auto& each : agents_) {
    if (!each->alive() || !each->frozen_for_good()) continue;
    tell(each->name(), "is killed at last");
    each->kill();
    any = true;
  }
  return any;
}

void World::check_end() {
  for (const auto& worker : workers_) {
    require(!worker->runs, fmt::format("the worker of rank {} is left", worker->rank));
    require(worker->told <= 1, fmt::format("rank {} was reaped {} times", worker->rank, worker->told));
    const Agent& agent = *agents_[static_cast<std::size_t>(worker->agent)];
    require(worker->told == 1 || !agent.exit_code(),
            fmt::format("rank {} was not reaped by {}", worker->rank, agent.name()));
  }
  std::set<int> codes;
  for (const auto& agent : agents_) {
    if (!agent->exit_code()) continue;
    codes.insert(*agent->exit_code());
    require(*agent->exit_code() == 0 || !agent->last_words().empty(),
            agent->name() + " does not say why it ended");
  }
  summary_.succeeded = codes.contains(0);
  summary_.had_to_succeed = one_loss_;
  // Those that end alone, or on the lesser side of a split, and have said so.
  for (const int code : {k_exit_own_failure, k_exit_deadline, 128 + SIGTERM}) {
    if (code <= k_exit_own_failure || signalled_) codes.erase(code);
  }
  require(codes.size() <= 1 || ended_by_.size() > 1,
          fmt::format("agents end with {}", fmt::join(codes, " and ")));
  if (!one_loss_) return;
  for (const auto& agent : agents_) {
    const bool lost = !agent->exit_code() || agent->exit_code() == k_exit_own_failure;
    require(agent->exit_code() == 0 || lost, "the job failed after one loss");
  }
  require(summary_.succeeded, "the job did not go on after one loss");
}

// ---- faults

void World::plan_faults() {
  workers_fail_ = one_in(random_, 3);
  const int kind = pick(random_, 4);
  if (kind == 0 && launch_.returns && !workers_fail_) {
    one_loss_ = true;
    return clock_.after(between(random_, 8 * k_second, 14 * k_second), [this] { lose_one_that_returns(); });
  }
  if (kind == 0 && !launch_.returns && launch_.agents >= 3 && !workers_fail_) {
    // One loss after the first start, with enough that are left.
    launch_.least = std::min(launch_.least, launch_.agents - 1 - launch_.spares);
    launch_.least = std::max(launch_.least, 1);
    if (launch_.grow == options::Grow::never) launch_.grow = options::Grow::now;  // a late one would count
    one_loss_ = for_good_ = true;
    faults_left_ = 1;
    clock_.after(between(random_, 8 * k_second, 14 * k_second), [this] { fault(); });
    return;
  }
  static const std::vector<std::string> stages{"joining",  "probing",  "opening",  "starting",
                                               "stopping", "takeover", "finishing"};
  faults_left_ = pick(random_, 6);
  for (int i = faults_left_; i > 0; --i) {
    if (one_in(random_, 2)) {
      clock_.after(between(random_, Microseconds{0}, 40 * k_second), [this] { fault(); });
    } else {
      clock_.after(between(random_, Microseconds{0}, 30 * k_second), [this] {
        next_stage_ = stages[static_cast<std::size_t>(pick(random_, static_cast<int>(stages.size())))];
      });
    }
  }
}

// Now, or soon: while what the stage began is under way.
void World::note_stage(const std::string& stage) {
  if (next_stage_ != stage) return;
  next_stage_.reset();
  const Microseconds most = one_in(random_, 3) ? k_second : Microseconds{5000};
  clock_.after(between(random_, Microseconds{0}, most), [this] { fault(); });
}

Agent* World::running_at(int place) {
  const auto found = std::ranges::find_if(
      agents_, [place](const auto& each) { return each->place() == place && each->alive(); });
  return found == agents_.end() ? nullptr : found->get();
}

Agent* World::anyone() {
  if (Agent* const leader = running_at(coordinator_place_); leader != nullptr && one_in(random_, 3))
    return leader;
  return running_at(pick(random_, launch_.agents));
}

void World::fault() {
  const auto running = std::ranges::count_if(workers_, [](const auto& worker) { return worker->runs; });
  if (one_loss_ && (world_size_ == 0 || running < world_size_))
    return clock_.after(k_second, [this] { fault(); });
  Agent* const agent = anyone();
  if (faults_left_-- <= 0 || agent == nullptr || !agent->started()) return;
  ++summary_.faults;
  if (one_loss_ && one_in(random_, 4)) return split_for_good();
  const int kind = one_loss_ ? pick(random_, 3) : pick(random_, 6);
  // Half of two is not enough without the lowest number, unless the other one has ended.
  if (kind > 0 && hosts_ < 3) one_loss_ = false;
  switch (kind) {
    case 0:
      return fault_of_process(*agent);
    case 1:
      return fault_of_host(*agent);
    case 2:
      if (!for_good_) return fault_of_network();
      return cut({{agent->place(), -1}}, agent->name() + " is cut off for good");
    case 3:
      return fault_of_process(*agent);
    case 4:
      return fault_of_network();
    default:
      // Another one soon after the one before.
      faults_left_ += 2;
      clock_.after(between(random_, Microseconds{0}, Microseconds{300000}), [this] { fault(); });
      clock_.after(between(random_, Microseconds{0}, 12 * k_second), [this] { fault(); });
  }
}

// While all workers run: before that a loss ends the job.
void World::lose_one_that_returns() {
  const auto running = std::ranges::count_if(workers_, [](const auto& worker) { return worker->runs; });
  if (any_running() && (world_size_ == 0 || running < world_size_))
    return clock_.after(k_second, [this] { lose_one_that_returns(); });
  Agent* const agent = running_at(1 + pick(random_, launch_.agents - 1));
  if (agent == nullptr) return;
  ++summary_.faults;
  tell(agent->name(), "is killed");
  agent->kill();
  start_again(agent->place());
}

void World::fault_of_process(Agent& agent) {
  const int kind = one_loss_ ? 0 : pick(random_, 10);
  if (kind >= 8) {
    const std::string drained = kind == 8 ? "" : fmt::format("n{}", 1 + pick(random_, launch_.agents));
    tell(agent.name(), drained.empty() ? "is asked to restart" : "is asked to drain " + drained);
    return agent.ask_to_restart(drained);
  }
  if (kind == 7) {
    tell(agent.name(), "gets SIGTERM");
    signalled_ = true;
    return agent.ask_to_stop(SIGTERM);
  }
  if (kind >= 5) {
    tell(agent.name(), "is frozen");
    agent.freeze();
    if (one_in(random_, 4)) return agent.note_frozen_for_good();
    return clock_.after(between(random_, k_second / 10, 50 * k_second), [this, &agent] {
      if (agent.alive()) tell(agent.name(), "goes on");
      agent.thaw();
    });
  }
  tell(agent.name(), "is killed");
  agent.kill();
  if (!one_loss_ && agent.place() != 0 && one_in(random_, 2)) start_again(agent.place());
}

// Those who start it again do so where the job runs.
void World::start_again(int place) {
  clock_.after(between(random_, Microseconds{100000}, 15 * k_second), [this, place] {
    if (running_at(place) != nullptr || dead_hosts_.contains(place)) return;
    agents_.push_back(std::make_unique<Agent>(*this, place, static_cast<int>(agents_.size())));
    agents_.back()->start();
  });
}

void World::fault_of_host(Agent& agent) {
  tell(agent.name(), "loses its power");
  const int place = agent.place();
  agent.lose_power();
  std::vector<std::pair<int, int>> paths;
  dead_hosts_.insert(place);
  for (int other = 0; other < launch_.agents; ++other) {
    network_.set_path(place, other, false);
    network_.set_path(other, place, false);
  }
  if (one_loss_ || place == 0 || !one_in(random_, 3)) return;
  clock_.after(between(random_, k_second / 2, 20 * k_second), [this, place] {
    tell("world", fmt::format("host {} is up again", place + 1));
    dead_hosts_.erase(place);
    for (int other = 0; other < launch_.agents; ++other) {
      if (dead_hosts_.contains(other)) continue;
      network_.set_path(place, other, true);
      network_.set_path(other, place, true);
    }
    if (one_in(random_, 2)) start_again(place);
  });
}

void World::fault_of_network() {
  const int kind = pick(random_, 4), some = pick(random_, launch_.agents);
  std::vector<std::pair<int, int>> paths;
  if (kind == 0) return cut({{some, -1}}, fmt::format("host {} is cut off", some + 1));
  if (kind == 1) {
    const int other = pick(random_, launch_.agents);
    paths = {{some, other}};
    if (one_in(random_, 2)) paths.emplace_back(other, some);
    return cut(paths, fmt::format("the path from {} to {} is cut{}", some + 1, other + 1,
                                  paths.size() > 1 ? ", and back" : ""));
  }
  std::set<int> side;
  for (int place = 0; place < launch_.agents; ++place) {
    if (one_in(random_, 2)) side.insert(place);
  }
  for (const int one : side) {
    for (int other = 0; other < launch_.agents; ++other) {
      if (side.contains(other)) continue;
      paths.emplace_back(one, other);
      paths.emplace_back(other, one);
    }
  }
  cut(paths, fmt::format("hosts {} are cut off from the others", fmt::join(side, ",")));
}

// Of which one side has to go on: that with more than half of all, or half of them with the lowest place.
void World::split_for_good() {
  std::vector<int> places(static_cast<std::size_t>(launch_.agents));
  std::iota(places.begin(), places.end(), 0);
  std::ranges::shuffle(places, random_);
  const std::set<int> side(places.begin(), places.begin() + 1 + pick(random_, launch_.agents - 1));
  const int here = static_cast<int>(side.size()), there = launch_.agents - here;
  const int most = std::max(here, there);
  one_loss_ = !anyone_late_ && most >= launch_.least;  // who came late counts for no majority
  std::vector<std::pair<int, int>> paths;
  for (const int one : side) {
    for (int other = 0; other < launch_.agents; ++other) {
      if (!side.contains(other)) paths.insert(paths.end(), {{one, other}, {other, one}});
    }
  }
  cut(paths, fmt::format("hosts {} are cut off from the others for good", fmt::join(side, ",")));
}

// {place, -1}: from and to all others.
void World::cut(const std::vector<std::pair<int, int>>& paths, const std::string& what) {
  std::vector<std::pair<int, int>> all;
  for (const auto& [from, to] : paths) {
    if (to >= 0) all.emplace_back(from, to);
    for (int other = 0; to < 0 && other < launch_.agents; ++other) {
      all.emplace_back(from, other);
      all.emplace_back(other, from);
    }
  }
  tell("world", what);
  for (const auto& [from, to] : all) network_.set_path(from, to, false);
  if (for_good_ || one_in(random_, 2)) return;
  clock_.after(between(random_, k_second / 2, 30 * k_second), [this, all, what] {
    tell("world", what + ": no more");
    for (const auto& [from, to] : all) {
      if (!dead_hosts_.contains(from) && !dead_hosts_.contains(to)) network_.set_path(from, to, true);
    }
  });
}

// ---- connections

Agent* World::listener(const std::string& address, int port) {
  const int place = std::stoi(address.substr(address.rfind('.') + 1)) - 1;
  Agent* const agent = running_at(place);
  if (agent == nullptr || !agent->listens()) return nullptr;
  return port == (place == 0 ? k_first_port : k_successor_port + place) ? agent : nullptr;
}

void World::fail_dial(const std::shared_ptr<Dialling>& dialling, const std::string& why) {
  if (!std::exchange(dialling->over, true)) dialling->failed(why);
}

std::shared_ptr<Dialling> World::dial(const Agent& from, const std::string& address, int port) {
  const auto dialling = std::make_shared<Dialling>();
  dialling->from = from.place();
  const int place = std::stoi(address.substr(address.rfind('.') + 1)) - 1;
  clock_.after(network_.way(), [this, dialling, address, port, place] {
    if (dialling->over) return;
    const bool there = network_.reaches(dialling->from, place) && network_.reaches(place, dialling->from);
    if (!there) return clock_.after(k_connect_limit, [this, dialling] { fail_dial(dialling, "no answer"); });
    Agent* const agent = listener(address, port);
    if (agent == nullptr) return fail_dial(dialling, "connection refused");
    clock_.after(k_handshake_limit, [this, dialling] { fail_dial(dialling, "no answer"); });
    agent->dial_in(dialling);
  });
  return dialling;
}

void World::note_coordinator(const Agent& agent) {
  if (agent.place() != 0) {
    ++summary_.takeovers;
    note_stage("takeover");
  }
  coordinator_place_ = agent.place();
}

// ---- workers

World::Worker* World::find(int agent, std::size_t index) {
  for (auto each = workers_.rbegin(); each != workers_.rend(); ++each) {
    if ((*each)->agent == agent && (*each)->index == index) return each->get();
  }
  return nullptr;
}

void World::spawn(const Agent& agent, std::size_t index, int coordinator, Attempt attempt, int rank) {
  tell(agent.name(), fmt::format("starts rank {} of attempt {} of #{}", rank, attempt.value, coordinator));
  workers_.push_back(std::make_unique<Worker>());
  Worker& worker = *workers_.back();
  worker = {agent.number(), index, coordinator, attempt.value, rank};
  worker.obeys = !one_in(random_, 5);
  check_overlap(worker);
  const bool fails = workers_fail_ && one_in(random_, 6);
  const Microseconds after = fails ? between(random_, Microseconds{0}, 10 * k_second)
                                   : between(random_, 15 * k_second, 16 * k_second);
  const ExitStatus status{ExitStatus::Kind::exited, fails ? 1 : 0, {}, false};
  clock_.after(after, [this, &worker, status] { end_worker(worker, status, Microseconds{1000}); });
}

// It does nothing any more; its agent hears of it later.
void World::end_worker(Worker& worker, ExitStatus status, Microseconds told_after) {
  if (!std::exchange(worker.runs, false)) return;
  worker.succeeded = status.success();
  tell(agents_[static_cast<std::size_t>(worker.agent)]->name(),
       fmt::format("rank {} ends: {}", worker.rank,
                   status.success() ? "success" : std::to_string(status.value)));
  clock_.after(told_after, [this, &worker, status] {
    Agent* const agent = process(worker.agent);
    agent->post([agent, &worker, status] { agent->end_worker(worker.index, status); });
  });
}

void World::signal(int agent, std::size_t index, int signal) {
  Worker* const worker = find(agent, index);
  if (worker == nullptr || !worker->runs) return;
  const ExitStatus status{ExitStatus::Kind::signalled, signal, {}, false};
  if (signal == SIGKILL)
    return clock_.after(
        between(random_, Microseconds{10}, Microseconds{one_in(random_, 10) ? 1500000 : 100000}),
        [this, worker, status] { end_worker(*worker, status, Microseconds{2000}); });
  if (!worker->obeys) return;
  clock_.after(between(random_, Microseconds{1000}, Microseconds{700000}),
               [this, worker, status] { end_worker(*worker, status, Microseconds{2000}); });
}

void World::kill_all_of(int agent) {
  for (const auto& worker : workers_) {
    if (worker->agent == agent && worker->runs)
      end_worker(*worker, {ExitStatus::Kind::signalled, SIGKILL, {}, false}, {});
  }
}

void World::note_end_told(int agent, std::size_t index) { ++find(agent, index)->told; }

// Nobody can stop the workers of an agent that is frozen, until its reaper takes notice, nor for a moment
// after that, when it also hears of what was long ago.
bool World::is_dazed(const Agent& agent) const {
  return (agent.frozen() && !agent.held()) ||
         (agent.thawed_at() && clock_.now() - *agent.thawed_at() < k_killing);
}

void World::check_overlap(const Worker& worker) {
  const auto is_dazed = [this](int number) {
    return this->is_dazed(*agents_[static_cast<std::size_t>(number)]);
  };
  if (is_dazed(worker.agent)) return;
  for (const auto& other : workers_) {
    if (!other->runs || (other->coordinator == worker.coordinator && other->attempt == worker.attempt))
      continue;
    const Agent& agent = *agents_[static_cast<std::size_t>(other->agent)];
    // Who follows a coordinator that is frozen learns nothing of a majority elsewhere.
    if (is_dazed(other->agent) || is_dazed(other->coordinator)) continue;
    require(false,
            fmt::format("rank {} of attempt {} of #{} starts, and rank {} of attempt {} of #{} runs on {}",
                        worker.rank, worker.attempt, worker.coordinator, other->rank, other->attempt,
                        other->coordinator, agent.name()));
  }
}

// ---- what coordinators do

void World::note_starts(const Agent& agent, const std::vector<std::pair<int, Start>>& starts) {
  ++summary_.worlds;
  Ranks ranks;
  std::set<int> all;
  int attempt = 0;
  for (const auto& [place, start] : starts) {
    const plan::Assignment& share = start.assignment;
    attempt = share.attempt.value;
    ranks.world_size = share.world_size;
    std::vector<int>& own = ranks.of_place[place];
    for (const plan::RankAssignment& assigned : share.workers) {
      require(all.insert(assigned.rank.value).second,
              fmt::format("rank {} is given twice", assigned.rank.value));
      own.push_back(assigned.rank.value);
    }
  }
  require(static_cast<int>(all.size()) == ranks.world_size && *all.rbegin() == ranks.world_size - 1,
          fmt::format("a world of {} has {} ranks", ranks.world_size, all.size()));
  int last = -1;
  for (const auto& [place, own] : ranks.of_place) {
    require(launch_.spares > 0 || launch_.by_network || own.front() > last,
            "ranks are not in the order of the nodes");
    last = own.back();
  }
  check_units(ranks);
  check_restores(agent, starts);
  require(!launch_.returns || ranks.world_size == launch_.agents * launch_.workers,
          "a fixed number of nodes has shrunk");
  world_size_ = ranks.world_size;
  hosts_ = static_cast<int>(ranks.of_place.size());
  require(begun_.emplace(agent.number(), attempt).second, fmt::format("attempt {} is begun twice", attempt));
}

// By the network, the hosts of a switch follow each other, and as many as are wanted take part.
void World::check_units(const Ranks& ranks) const {
  if (!launch_.by_network) return;
  std::map<int, int> switch_of_rank;
  std::map<int, int> taken;
  for (const auto& [place, own] : ranks.of_place) {
    switch_of_rank[own.front()] = place % k_switches;
    ++taken[place % k_switches];
  }
  int changes = 0, last = switch_of_rank.begin()->second;
  for (const auto& [rank, leaf] : switch_of_rank) changes += std::exchange(last, leaf) != leaf ? 1 : 0;
  require(launch_.spares > 0 || changes < static_cast<int>(taken.size()),
          "a switch's ranks do not follow each other");
  const bool whole = std::ranges::all_of(
      taken, [this](const auto& each) { return each.second % std::max(launch_.domain_size, 1) == 0; });
  require(whole || static_cast<int>(ranks.of_place.size()) == launch_.least, "a switch takes part in part");
}

// Who takes part again in a whole world has the same ranks, where that has slots.
void World::note_share(const Agent& agent, int leader, const plan::Assignment& share) {
  Share& last = shares_[agent.number()];
  const int whole = (launch_.agents - launch_.spares) * launch_.workers;
  const bool again =
      launch_.spares > 0 && last.attempt + 1 == share.attempt.value && share.world_size == whole;
  const int rank = share.workers.front().rank.value;
  require(
      !again || last.world_size != share.world_size || last.rank == rank,
      fmt::format("{} had rank {}, and has {} in a world of the same size", agent.name(), last.rank, rank));
  require(share.attempt.value > last.attempt, fmt::format("{} is told to start attempt {} after attempt {}",
                                                          agent.name(), share.attempt.value, last.attempt));
  last = {share.attempt.value, share.world_size, rank, std::max(last.restarts, used_restarts_[leader])};
}

void World::note_restart(const Agent& agent, const ShowRestart& restart) {
  ++summary_.restarts;
  require(restart.restarts > shares_[agent.number()].restarts,
          fmt::format("restart {} after restart {}", restart.restarts, shares_[agent.number()].restarts));
  used_restarts_[agent.number()] = restart.restarts;
  require(restart.restarts <= launch_.max_restarts,
          fmt::format("restart {} of {}", restart.restarts, launch_.max_restarts));
}

void World::note_end(const Agent& agent, const report::Cause& cause) {
  ended_by_.insert(agent.number());
  if (cause.kind != report::Cause::Kind::success) return;
  int latest = -1;
  for (const auto& worker : workers_) {
    if (worker->coordinator == agent.number()) latest = std::max(latest, worker->attempt);
  }
  for (const auto& worker : workers_) {
    const bool of_it = worker->coordinator == agent.number() && worker->attempt == latest;
    require(!of_it || worker->succeeded,
            fmt::format("success is told, and rank {} has not succeeded", worker->rank));
  }
}

}  // namespace ddprun::simulation
