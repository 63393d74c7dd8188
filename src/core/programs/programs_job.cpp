#include "programs/programs_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "programs/replicas.hpp"

namespace ddprun::programs {

namespace {

constexpr Milliseconds k_tell_every{30'000};
constexpr Milliseconds k_quick_end{10'000};  // a program that ends so soon waits before it starts again
constexpr Milliseconds k_first_pause{1'000};
constexpr Milliseconds k_longest_pause{30'000};
constexpr std::size_t k_most_ends = 1000;  // kept for the report

// Reports whether a start that ended so at once would end so again: a wrong option or argument, no such
// script.
bool is_hopeless(int code) {
  return code == k_exit_usage || code == k_exit_not_executable || code == k_exit_not_found;
}

Milliseconds pause_after(int quick_ends) {
  if (quick_ends == 0) return Milliseconds{0};
  return std::min(k_first_pause * (1 << std::min(quick_ends - 1, 10)), k_longest_pause);
}

}  // namespace

ProgramsJob::ProgramsJob(PlacedPrograms placed, std::vector<std::string> hosts)
    : programs_(std::move(placed.programs)),
      nodes_(std::move(placed.nodes)),
      hosts_(std::move(hosts)),
      states_(programs_.size()) {
  std::map<std::string, std::size_t> groups;
  for (std::size_t i = 0; i < programs_.size(); ++i)
    states_[i].group = groups.try_emplace(programs_[i].name, groups.size()).first->second;
  unready_.resize(groups.size());
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    ++unready_[states_[i].group];
    for (const std::string& name : programs_[i].after) states_[i].needs.push_back(groups.at(name));
  }
}

ProgramsJob::Actions ProgramsJob::start(TimePoint now) {
  start_those_that_may(now);
  tell_at_ = now + k_tell_every;
  return take();
}

bool ProgramsJob::has_node(std::size_t program, int node) const {
  return std::ranges::find(nodes_[program], node) != nodes_[program].end();
}

bool ProgramsJob::may_start(std::size_t program) const {
  const State& state = states_[program];
  return state.phase == Phase::waiting && !ending_ &&
         std::ranges::all_of(state.needs, [&](std::size_t group) { return unready_[group] == 0; });
}

void ProgramsJob::set_ready(State& state, bool ready) {
  if (state.ready != ready) unready_[state.group] += ready ? -1 : 1;
  state.ready = ready;
}

void ProgramsJob::start_those_that_may(TimePoint now) {
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    if (may_start(i)) begin(i, now);
  }
}

void ProgramsJob::begin(std::size_t program, TimePoint now) {
  State& state = states_[program];
  state.phase = Phase::running;
  state.ended.clear();
  state.ready_nodes.clear();
  state.started = now;
  state.again.reset();
  actions_.orders.push_back({Doing::start, static_cast<int>(program), state.attempt, 0});
  actions_.changed = true;
  if (!gone_.empty()) note_ended(program, now);  // its nodes may have gone while it waited
}

ProgramsJob::Actions ProgramsJob::on_news(const NodeNews& news, TimePoint now) {
  if (news.what == News::gone) {
    gone_.insert(news.node);
    tell_lost(news.node);
    for (State& each : states_) actions_.changed |= each.ready_nodes.erase(news.node) > 0;
    for (std::size_t i = 0; i < programs_.size(); ++i) note_ended(i, now);
    return take();
  }
  const auto program = static_cast<std::size_t>(news.program);
  if (program >= programs_.size() || news.attempt != states_[program].attempt) return take();
  State& state = states_[program];
  if (news.what == News::ended) {
    state.ended[news.node] = news.code;
    state.ready_nodes.erase(news.node);
    note_ended(program, now);
    return take();
  }
  actions_.changed = true;
  if (news.what == News::not_ready) {
    state.ready_nodes.erase(news.node);
    return take();
  }
  state.ready_nodes.insert(news.node);
  if (state.ready) return take();
  set_ready(state, true);
  start_those_that_may(now);
  return take();
}

// Says so where nothing is left of a program: the others have somebody who says what their loss means.
void ProgramsJob::tell_lost(int node) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    const bool all_gone = std::ranges::all_of(nodes_[i], [&](int each) { return gone_.contains(each); });
    if (states_[i].runs() && has_node(i, node) && all_gone) names.push_back(name_of(programs_[i]));
  }
  if (names.empty()) return;
  const std::string what = fmt::format("lost {}, on which {} ran: it gives no sign any more",
                                       hosts_[static_cast<std::size_t>(node)], join(names, " and "));
  actions_.sentences.push_back({what});
}

ProgramsJob::Actions ProgramsJob::on_stop() {
  end_job(0, {});
  return take();
}

// Looks whether the program has ended on all its nodes, and what follows.
void ProgramsJob::note_ended(std::size_t program, TimePoint now) {
  State& state = states_[program];
  if (!state.runs() || state.again) return;
  for (const int node : nodes_[program]) {
    if (!state.ended.contains(node) && !gone_.contains(node)) return;
  }
  int worst = state.ended.empty() ? k_exit_own_failure : 0;
  for (const auto& [node, code] : state.ended) worst = std::max(worst, code);
  state.code = worst;
  const Program& each = programs_[program];
  const bool stopped = state.phase == Phase::stopping;
  state.phase = Phase::over;
  actions_.changed = true;
  ends_.push_back({name_of(each), state.attempt, worst, stopped || ending_, now});
  if (ends_.size() > k_most_ends) ends_.erase(ends_.begin() + 1);  // the first one says the most
  if (stopped || ending_) return stop_next();
  const bool lost = std::ranges::any_of(nodes_[program], [&](int node) { return gone_.contains(node); });
  if (lost && each.on_exit == options::OnExit::restart) {
    if (!is_last(program)) return;  // the other replicas go on
    const char* const nodes = nodes_[program].size() == 1 ? "its node is lost" : "a node of it is lost";
    return end_job(std::max(worst, 1), fmt::format("{} cannot start again, as {}", each.name, nodes));
  }
  const bool hopeless =
      state.attempt == 0 && !state.ready && now - state.started < k_quick_end && is_hopeless(worst);
  if (each.on_exit == options::OnExit::restart && !hopeless) return start_again(program, now);
  const std::string end = fmt::format("{} ended with code {}", name_of(each), worst);
  const bool failed = worst != 0;
  if (!failed) set_ready(state, true);
  if (each.on_exit == options::OnExit::job && (failed || is_last(program))) return end_job(worst, end);
  if (failed && each.on_exit != options::OnExit::ignore) return end_job(worst, end);
  for (std::size_t other = 0; other < programs_.size(); ++other) {
    const bool needs = std::ranges::find(states_[other].needs, state.group) != states_[other].needs.end();
    if (states_[other].phase != Phase::waiting || !needs || state.ready) continue;
    return fail_job(worst,
                    fmt::format("{} cannot start: {} before it was ready", name_of(programs_[other]), end),
                    "see why it ended, in its lines above");
  }
  start_those_that_may(now);
  if (std::ranges::all_of(states_, [](const State& one) { return one.phase == Phase::over; })) end_job(0, {});
}

// Reports whether no other replica of this program runs, or will.
bool ProgramsJob::is_last(std::size_t program) const {
  return std::ranges::none_of(states_, [&](const State& other) {
    return other.group == states_[program].group && other.phase != Phase::over;
  });
}

void ProgramsJob::start_again(std::size_t program, TimePoint now) {
  State& state = states_[program];
  state.quick_ends = now - state.started < k_quick_end ? state.quick_ends + 1 : 0;
  const Milliseconds pause = pause_after(state.quick_ends > 1 ? state.quick_ends - 1 : 0);
  ++state.attempt;
  set_ready(state, false);
  state.phase = Phase::running;
  state.again = now + pause;
  const std::string when = pause == Milliseconds{0} ? "" : " in " + describe_duration(pause);
  actions_.sentences.push_back({fmt::format("{} ended with code {}; it starts again{} (number {})",
                                            name_of(programs_[program]), *state.code, when, state.attempt)});
  if (pause == Milliseconds{0}) begin(program, now);
}

std::string ProgramsJob::name_running() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    const std::string& name = programs_[i].name;
    const bool told = !names.empty() && names.back() == name;  // replicas have one name
    if (states_[i].phase == Phase::running && !told) names.push_back(name);
  }
  return join(names, ", ");
}

// Ends the job. `why`: said where others are to be stopped.
void ProgramsJob::end_job(int code, const std::string& why) {
  if (ending_) return;
  ending_ = code;
  why_ = why;
  const std::string running = name_running();
  if (!why.empty() && !running.empty())
    actions_.sentences.push_back({fmt::format("{}; stopping {}", why, running)});
  stop_next();
}

void ProgramsJob::fail_job(int code, const std::string& what, const std::string& hint) {
  actions_.sentences.push_back({what, hint});
  end_job(code, "the job ends");
  why_ = what;
}

// Stops the running programs that no other running one has asked for (--after); once none runs, all end.
void ProgramsJob::stop_next() {
  if (over_) return;
  bool runs = false;
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    State& state = states_[i];
    if (state.again) {  // waits to be started again: nothing of it runs
      state.again.reset();
      state.phase = Phase::over;
    }
    runs |= state.runs();
  }
  if (!runs) {
    over_ = true;
    actions_.orders.push_back({Doing::end, 0, 0, *ending_});
    return;
  }
  std::set<std::size_t> needed;
  for (const State& each : states_) {
    if (each.runs()) needed.insert(each.needs.begin(), each.needs.end());
  }
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    if (states_[i].phase != Phase::running || needed.contains(states_[i].group)) continue;
    states_[i].phase = Phase::stopping;
    actions_.orders.push_back({Doing::stop, static_cast<int>(i), states_[i].attempt, 0});
  }
}

std::string ProgramsJob::describe_ready(std::size_t program) const {
  const std::string& ready = programs_[program].ready;
  if (ready.empty()) return "it has not touched $DDPRUN_READY_FILE";
  if (parse_integer(ready)) return fmt::format("its port {} does not answer", ready);
  return fmt::format("{} is not there", printable(ready));
}

// Returns for each program, with its replicas, the one that is not ready and was started first; none: nothing
// that runs is waited for.
std::vector<std::optional<std::size_t>> ProgramsJob::find_slowest() const {
  std::vector<std::optional<std::size_t>> slowest(unready_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].ready || states_[i].phase != Phase::running) continue;
    auto& found = slowest[states_[i].group];
    if (!found || states_[i].started < states_[*found].started) found = i;
  }
  return slowest;
}

// Says what programs wait for, and ends the job once that takes longer than they may.
void ProgramsJob::tell_waiting(TimePoint now) {
  const std::vector<std::optional<std::size_t>> slowest = find_slowest();
  for (std::size_t i = 0; i < programs_.size() && !ending_; ++i) {
    if (states_[i].phase != Phase::waiting) continue;
    for (const std::size_t group : states_[i].needs) {
      if (!slowest[group]) continue;
      const std::size_t other = *slowest[group];
      const auto waited = std::chrono::floor<Milliseconds>(now - states_[other].started);
      const bool late = waited >= Milliseconds{programs_[i].ready_timeout};
      if (late) {
        return fail_job(
            k_exit_deadline,
            fmt::format("{} was not started: {} was not ready within {}: {}", name_of(programs_[i]),
                        name_of(programs_[other]),
                        describe_duration(Milliseconds{programs_[i].ready_timeout}), describe_ready(other)),
            "give it more time with --ready-timeout, or say with --ready how it shows");
      }
      if (tell_at_ && now >= *tell_at_)
        actions_.sentences.push_back(
            {fmt::format("{} waits for {} to be ready, for {} so far: {}", name_of(programs_[i]),
                         name_of(programs_[other]), describe_seconds(waited), describe_ready(other))});
    }
  }
}

ProgramsJob::Actions ProgramsJob::on_time(TimePoint now) {
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    if (states_[i].again && now >= *states_[i].again && !ending_) begin(i, now);
  }
  tell_waiting(now);
  if (tell_at_ && now >= *tell_at_) tell_at_ = now + k_tell_every;
  return take();
}

std::optional<TimePoint> ProgramsJob::deadline() const {
  std::optional<TimePoint> soonest;
  const auto consider = [&](TimePoint at) { soonest = std::min(at, soonest.value_or(at)); };
  if (ending_) return soonest;
  const std::vector<std::optional<std::size_t>> slowest = find_slowest();
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    if (states_[i].again) consider(*states_[i].again);
    if (states_[i].phase != Phase::waiting) continue;
    if (tell_at_) consider(*tell_at_);
    for (const std::size_t group : states_[i].needs) {
      if (slowest[group])
        consider(states_[*slowest[group]].started + Milliseconds{programs_[i].ready_timeout});
    }
  }
  return soonest;
}

bool ProgramsJob::is_awaited(int node) const {
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    const State& state = states_[i];
    if (state.runs() && has_node(i, node) && !state.again && !state.ended.empty() &&
        !state.ended.contains(node))
      return true;
  }
  return false;
}

std::string ProgramsJob::state_of(std::size_t program) const {
  switch (states_[program].phase) {
    case Phase::waiting:
      return "waiting";
    case Phase::over:
      return "ended";
    default:
      return states_[program].ready ? "ready" : "running";
  }
}

ProgramsJob::Actions ProgramsJob::take() { return std::exchange(actions_, {}); }

}  // namespace ddprun::programs
