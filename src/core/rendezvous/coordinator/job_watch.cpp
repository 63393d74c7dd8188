#include "rendezvous/coordinator/job_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/text.hpp"
#include "profile/rank_profile.hpp"
#include "rendezvous/missing_agents.hpp"

namespace ddprun::rendezvous {

using State = CoordinatorState;

// Adds the asker to a round in progress with the same purpose, whose answer it gets; else notes a further
// round.
void StatusRound::want(Purpose purpose, ConnectionId asker) {
  (deadline_ && purpose == purpose_ ? askers_ : wanted_[purpose]).insert(asker);
}

void StatusRound::drop(ConnectionId agent) {
  asked_.erase(agent);
  askers_.erase(agent);
  for (auto& [purpose, askers] : wanted_) askers.erase(agent);
}

std::optional<StatusQuestion> StatusRound::begin(std::set<ConnectionId> agents, TimePoint now) {
  if (deadline_ || wanted_.empty()) return std::nullopt;
  auto next = wanted_.extract(wanted_.begin());
  purpose_ = next.key();
  askers_ = std::move(next.mapped());
  asked_ = std::move(agents);
  answers_.clear();
  deadline_ = now + k_limit;
  return StatusQuestion{++number_, purpose_ != Purpose::status};
}

void StatusRound::note(ConnectionId agent, const StatusAnswer& answer) {
  if (deadline_ && answer.question == number_ && asked_.erase(agent) > 0) answers_.push_back(answer.status);
}

std::vector<status::NodeStatus> StatusRound::take_answers() {
  deadline_.reset();
  const auto first_rank = [](const status::NodeStatus& node) {
    return node.workers.empty() ? std::numeric_limits<int>::max() : node.workers.front().rank;
  };
  std::ranges::stable_sort(answers_, {}, first_rank);
  return std::exchange(answers_, {});
}

void Hangs::note(AgentIndex agent, const Quiet& quiet) {
  if (quiet.quiet) {
    quiet_[agent] = quiet.since;
  } else {
    quiet_.erase(agent);
    told_ = false;
  }
}

bool Hangs::takes(const EarlyExit& early) {
  if (early_ && early_->expired >= early.expired) return false;
  early_ = early;
  return true;
}

std::string Hangs::why_quiet() const {
  const auto shortest = std::ranges::min_element(quiet_, {}, [](const auto& each) { return each.second; });
  return "no rank has shown a sign of life for " + describe_seconds(shortest->second);
}

std::string Hangs::why_early() const {
  return fmt::format("rank {} exited with code 0 {} ago", early_->rank.value,
                     describe_seconds(early_->since));
}

std::string name_host(const Membership& members, const CoordinatorSettings& settings, AgentIndex agent) {
  const auto index = static_cast<std::size_t>(agent.value);
  if (const auto& announcement = members.at(agent).announcement) return printable(announcement->host);
  if (index < settings.peers.size() && !settings.peers[index].empty()) return settings.peers[index];
  return fmt::format("number {}", agent.value);
}

// ---- questions to all agents

namespace {

void show_job(ConnectionId asker, const status::JobStatus& job, bool stacks,
              std::vector<CoordinatorAction>& actions) {
  for (const status::NodeStatus& node : job.here) actions.push_back(SendTo{asker, NodeShown{stacks, node}});
  status::JobStatus rest = job;
  rest.here.clear();
  actions.push_back(SendTo{asker, JobShown{stacks, std::move(rest)}});
}

}  // namespace

void JobWatch::begin_attempt() {
  hangs_.begin_attempt();
  slow_.begin_attempt();
  slow_due_.reset();
}

void JobWatch::record(Found& found, const JobFacts& job, events::Event event) {
  if (job.settings.record) found.actions.push_back(Record{std::move(event)});
}

JobWatch::Found JobWatch::note(ConnectionId asker, const JobQuestion& question, const JobFacts& job,
                               TimePoint now) {
  using enum StatusRound::Purpose;
  Found found;
  round_.want(question.stacks ? stacks : status, asker);
  ask(found, job, now);
  return found;
}

void JobWatch::ask(Found& found, const JobFacts& job, TimePoint now) {
  std::set<ConnectionId> agents;
  for (const auto& [connection, agent] : job.members.here()) agents.insert(connection);
  const auto question = round_.begin(agents, now);
  if (!question) return;
  for (const ConnectionId connection : agents) found.actions.push_back(SendTo{connection, *question});
}

JobWatch::Found JobWatch::note(ConnectionId agent, const StatusAnswer& answer, const JobFacts& job,
                               TimePoint now) {
  round_.note(agent, answer);
  Found found;
  if (round_.is_over(now)) end_round(found, job, now);
  return found;
}

JobWatch::Found JobWatch::on_time(const JobFacts& job, TimePoint now) {
  Found found;
  if (job.state != State::finished && round_.is_over(now)) end_round(found, job, now);
  return found;
}

void JobWatch::end_round(Found& found, const JobFacts& job, TimePoint now) {
  using enum StatusRound::Purpose;
  const StatusRound::Purpose purpose = round_.purpose();
  const status::JobStatus shown = take_status(job);
  if (purpose == hang || purpose == early_exit) {
    judge_hang(found, shown, purpose == early_exit, job);
  } else if (purpose == slow) {
    judge_slow(found, shown, job);
  } else {
    for (const ConnectionId asker : round_.askers()) show_job(asker, shown, purpose == stacks, found.actions);
  }
  if (job.state != State::finished) ask(found, job, now);
}

status::JobStatus JobWatch::take_status(const JobFacts& job) {
  status::JobStatus status;
  status.launch_id = job.settings.launch_id;
  status.phase = job.phase();
  status.attempt = job.attempt.value;
  status.restarts = job.restarts;
  status.max_restarts = job.settings.max_restarts;
  status.nodes = job.settings.agents;
  if (!job.world.assignments.empty()) {
    status.nodes = job.world.assignments.front().node_count;
    status.workers = job.world.world_size;
  }
  for (const ConnectionId connection : round_.silent()) {
    const auto found = job.members.here().find(connection);
    if (found != job.members.here().end())
      status.silent.push_back(name_host(job.members, job.settings, found->second));
  }
  status.here = round_.take_answers();
  slow::add_waits(status, slow_);
  return status;
}

// ---- ranks that hang: found by their agents, judged here by what all of them show

JobWatch::Found JobWatch::note(ConnectionId agent, const Quiet& quiet, const JobFacts& job, TimePoint now) {
  Found found;
  if (job.state != State::running) return found;
  hangs_.note(job.members.here().at(agent), quiet);
  if (!all_quiet(job) || !hangs_.takes_silence()) return found;
  round_.want(StatusRound::Purpose::hang);
  ask(found, job, now);
  return found;
}

// Reports whether all agents are quiet; one whose ranks have all ended has no sign to show.
bool JobWatch::all_quiet(const JobFacts& job) const {
  const std::vector<AgentIndex> agents = job.members.participants();
  return std::ranges::all_of(
             agents, [&](AgentIndex agent) { return job.is_over(agent) || hangs_.is_quiet(agent); }) &&
         !std::ranges::all_of(agents, job.is_over);
}

JobWatch::Found JobWatch::note(ConnectionId, const EarlyExit& early, const JobFacts& job, TimePoint now) {
  Found found;
  if (job.state != State::running || !hangs_.takes(early)) return found;
  round_.want(StatusRound::Purpose::early_exit);
  ask(found, job, now);
  return found;
}

void JobWatch::judge_hang(Found& found, const status::JobStatus& status, bool early,
                          const JobFacts& job) const {
  if (job.state != State::running || (early ? !hangs_.early_exit() : !all_quiet(job))) return;
  const std::string why = early ? hangs_.why_early() : hangs_.why_quiet();
  if (early && !hangs_.early_exit()->expired) {
    const auto notice = status::describe_early_exit(status, why);
    if (notice) found.actions.push_back(ShowNotice{{notice->what, notice->hint}});
  } else if (const auto verdict = status::make_verdict(status, why)) {
    record(found, job, told::hang(job.attempt, *verdict));
    const auto& action = job.settings.hang.action;
    if (action && action->value == options::OnHang::report)
      found.actions.push_back(ShowHang{*verdict});
    else
      found.hang = *verdict;
  }
}

// ---- ranks that the others wait for: seen by their agents, judged here by what all have seen

namespace {

// Looks at where a slow rank is, one for each look at its collectives, before its notice does without the
// place where it is while the others wait.
constexpr int k_most_places = 5;

}  // namespace

JobWatch::Found JobWatch::note(ConnectionId agent, const ClockQuestion& question, const JobFacts&,
                               TimePoint now) const {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return {{SendTo{agent, ClockReply{question.asked, time.count()}}}, {}, {}};
}

JobWatch::Found JobWatch::note(ConnectionId agent, const CollectivesSeen& seen, const JobFacts& job,
                               TimePoint now) {
  Found found;
  if (job.state != State::running) return found;
  const std::vector<AgentIndex> agents = job.members.participants();
  const auto running = std::ranges::count_if(agents, std::not_fn(job.is_over));
  slow_.note(job.members.here().at(agent).value, seen.look, seen.trace, static_cast<std::size_t>(running),
             now);
  for (const auto& [rank, seconds] : slow_.take_seconds(now))
    record(found, job, told::waited(job.attempt, rank, seconds));
  if (const auto link = slow_.take_slow_link(now)) tell_slow_link(found, *link, job);
  if (!slow_due_) slow_due_ = slow_.take_slow(now);
  if (!slow_due_ || std::exchange(slow_due_->look, seen.look) == seen.look) return found;
  round_.want(StatusRound::Purpose::slow);
  ask(found, job, now);
  return found;
}

// Finds the slow rank to be told once it is seen where it is while the others wait, or after some looks.
void JobWatch::judge_slow(Found& found, const status::JobStatus& status, const JobFacts& job) {
  if (job.state != State::running || !slow_due_) return;
  auto notice = slow::describe_slow(status, *slow_due_, job.settings.hang.slow->window);
  if (notice && !notice->seen_late && ++slow_due_->places < k_most_places) return;
  slow_due_.reset();
  found.slow = std::move(notice);
}

void JobWatch::tell_slow_link(Found& found, const slow::SlowLink& link, const JobFacts& job) const {
  const std::vector<AgentIndex> agents = job.members.participants();
  const auto peer = std::ranges::find_if(agents, [&](AgentIndex agent) {
    const std::vector<std::string>& addresses = job.members.at(agent).announcement->addresses;
    return std::ranges::find(addresses, link.use.peer) != addresses.end();
  });
  const slow::SlowNotice notice = slow::describe_slow_link(
      link, name_host(job.members, job.settings, AgentIndex{link.agent}),
      peer == agents.end() ? link.use.peer : name_host(job.members, job.settings, *peer),
      job.settings.hang.slow->window);
  record(found, job, told::slow(job.attempt, notice));
  found.actions.push_back(ShowNotice{{notice.what, notice.hint}});
}

// ---- profiles

JobWatch::Found JobWatch::note(ConnectionId asker, const ProfileRequest& request, const JobFacts& job,
                               TimePoint) const {
  Found found;
  ProfileRequest asked = request;
  asked.asker = asker.value;
  std::vector<std::string> hosts;
  for (const auto& [agent, index] : job.members.here()) {
    if (job.may_run_workers(index)) hosts.push_back(name_host(job.members, job.settings, index));
  }
  const int agents = static_cast<int>(job.members.here().size());
  found.actions.push_back(
      SendTo{asker, ProfilePart{request.number, asked.asker, agents, false, profile::render_asked(hosts)}});
  for (const auto& [agent, index] : job.members.here()) found.actions.push_back(SendTo{agent, asked});
  return found;
}

JobWatch::Found JobWatch::note(ConnectionId, const ProfilePart& part, const JobFacts& job, TimePoint) const {
  Found found;
  const ConnectionId asker{part.asker};
  if (!job.members.here().contains(asker)) return found;
  ProfilePart passed = part;
  passed.agents = 0;
  found.actions.push_back(SendTo{asker, std::move(passed)});
  return found;
}

}  // namespace ddprun::rendezvous
