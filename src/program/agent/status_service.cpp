#include "agent/status_service.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/reaper.hpp"
#include "os/status_socket.hpp"
#include "rendezvous/codec.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_coordinator_limit{6500};  // for two status rounds
constexpr Milliseconds k_last_write{2000};         // at the end of the job
// Limits below StatusRound's: without an answer the workers are reported all the same.
constexpr Milliseconds k_usage_limit{2000}, k_stacks_limit{2800};
constexpr Milliseconds k_write_limit{60'000};  // for a disk that hangs
constexpr std::size_t k_most_problem = 8192;

}  // namespace

void StatusService::serve(const std::function<void(bool stacks)>& asked) {
  const auto hooks = [asked](bool stacks) {
    return net::StatusServer::Hooks{os::is_of_this_user, [asked, stacks] { asked(stacks); }};
  };
  // Anybody may have taken the first; the second cannot be foreseen.
  const auto names = [](os::Asks asks) {
    const std::string name = os::status_socket_name(::getpid(), asks);
    return std::vector{name, name + "/" + os::make_random_id()};
  };
  server_.emplace(context_, names(os::Asks::status), hooks(false));
  stacks_server_.emplace(context_, names(os::Asks::stacks), hooks(true));
  tell_taken(os::status_socket_name(::getpid()), server_->name());
  tell_taken(os::status_socket_name(::getpid(), os::Asks::stacks), stacks_server_->name());
  const options::Options& options = plans_.node->options;
  if (options.hang.stacks_every && !options.output.logs.value.empty()) wait_for_dump();
}

// The dumps of all hosts are of the same moments, as far as their clocks agree.
void StatusService::wait_for_dump() {
  net::call_after(dump_timer_, os::until_multiple(plans_.node->options.hang.stacks_every->value), [this] {
    measure(inspection::Depth::dump, [](const status::NodeStatus&) {});
    wait_for_dump();
  });
}

// A process of the same user has the same number in another namespace, as in a container.
void StatusService::tell_taken(const std::string& wanted, const std::string& had) const {
  if (had == wanted) return;
  if (had.empty()) return console::say_detail("cannot listen for --status and --stacks: no unix socket");
  const auto owner = os::find_other_owner(wanted);
  const std::string what = fmt::format("the unix socket @{} on {} is taken", wanted, plans_.node->host);
  if (!owner) return console::say_detail(what + "; --status and --stacks use another one");
  console::say_notice(fmt::format("{} by a process of the user with the number {}; --status and --stacks use "
                                  "another one",
                                  what, *owner),
                      "nothing is lost; ask that user or the administrators why");
}

void StatusService::wait_for_job(bool stacks, std::function<void()> otherwise) {
  Awaited& awaited = stacks ? job_stacks_ : job_;
  awaited.nodes.clear();
  net::call_after(awaited.limit, k_coordinator_limit, std::move(otherwise));
}

void StatusService::note(const rendezvous::NodeShown& shown) {
  (shown.stacks ? job_stacks_ : job_).nodes.push_back(shown.node);
}

void StatusService::show(const rendezvous::JobShown& shown) {
  Awaited& awaited = shown.stacks ? job_stacks_ : job_;
  awaited.limit.cancel();
  status::JobStatus status = shown.job;
  status.here = std::exchange(awaited.nodes, {});
  show(std::move(status), shown.stacks);
}

void StatusService::show_this_host(const std::string& coordinator, bool ending, bool stacks) {
  measure(stacks ? inspection::Depth::stacks : inspection::Depth::usage,
          [=, this](const status::NodeStatus& here) {
            status::JobStatus status = job_here();
            status.coordinator = coordinator.empty() ? "the coordinator's host" : coordinator;
            if (here.workers.empty()) {
              status.nodes = plans_.node->rendezvous.agents;
              status.workers = 0;
              status.phase = "waiting for the coordinator";
            }
            if (ending) status.phase = "ending";
            status.here.push_back(here);
            show(std::move(status), stacks);
          });
}

// Returns what this agent knows of a job that runs.
status::JobStatus StatusService::job_here() const {
  const plan::Assignment& assignment = plans_.attempt->assignment;
  status::JobStatus status;
  status.launch_id = assignment.launch_id;
  status.phase = "running";
  status.attempt = assignment.attempt.value;
  status.max_restarts = plans_.node->options.max_restarts.value;
  status.nodes = assignment.node_count;
  status.workers = assignment.world_size;
  return status;
}

void StatusService::add_job(status::JobStatus& status) const {
  status.job = plans_.node->run_id.value;
  status.program = join(plans_.node->options.command, " ");
  status.host = plans_.node->host;
  status.pid = static_cast<int>(::getpid());
  status.uptime = Milliseconds{os::unix_milliseconds() - began_};
}

void StatusService::show(status::JobStatus status, bool stacks) {
  add_job(status);
  (stacks ? stacks_server_ : server_)->answer(status::render_status(status));
}

// Measures once for all that ask meanwhile for no more than it looks at. A dump is measured anew.
void StatusService::measure(inspection::Depth depth, Measured done) {
  if (const status::NodeStatus status = workers_.status(); status.workers.empty()) return done(status);
  if (usage_ && depth <= depth_ && depth != inspection::Depth::dump)
    return measured_for_.push_back(std::move(done));
  next_.emplace_back(depth, std::move(done));
  if (!usage_) begin_measurement();
}

void StatusService::begin_measurement() {
  depth_ = inspection::Depth::signs;
  const bool dumps =
      std::ranges::any_of(next_, [](const auto& each) { return each.first == inspection::Depth::dump; });
  for (auto& [depth, done] : std::exchange(next_, {})) {
    depth_ = std::max(depth_, depth);
    measured_for_.push_back(std::move(done));
  }
  if (measured_for_.empty()) return;
  const auto tell = [this](const status::NodeStatus& measured) {
    for (const Measured& each : std::exchange(measured_for_, {})) each(measured);
  };
  const status::NodeStatus status = workers_.status();
  try {
    inspection::WorkerPlaces places = this->places(dumps);
    os::Pipe problem = os::make_pipe();
    const bool writes = inspection::writes_files(places, depth_);
    const Milliseconds limit = depth_ >= inspection::Depth::dump ? k_stacks_limit : k_usage_limit;
    usage_ = std::make_unique<probes::ChildQuery>(
        context_, inspection::measure_node_in_child(status, std::move(places), depth_, problem.writer.get()),
        status::k_max_node_status, limit, [=, this](const std::string& answer, bool late) {
          end_measurement(writes && !late);
          tell(status::parse_node_status(answer).value_or(status));
          if (!usage_) begin_measurement();
        });
    problem_ = std::move(problem.reader);
  } catch (const Error& error) {
    console::say_detail(error.what());
    tell(status);
  }
}

// Returns the places to look at. While one record or dump is still being written, as on a disk that hangs, no
// other is.
inspection::WorkerPlaces StatusService::places(bool dumps) const {
  inspection::WorkerPlaces places = workers_.places();
  if (writing_) places.records.clear();
  if (!dumps || writing_ || places.dump.empty()) return places;
  status::Moment& moment = places.moment.emplace();
  moment.time = os::unix_milliseconds();
  const std::int64_t every = plans_.node->options.hang.stacks_every->value.count();
  moment.number = (moment.time + every / 2) / every;  // the multiple that it is for
  moment.job = job_here();
  add_job(moment.job);
  return places;
}

void StatusService::end_measurement(bool writes) {
  if (writes) {
    writing_ = std::move(usage_);
    return writing_->read_more(
        std::move(problem_), k_most_problem, k_write_limit,
        [this](const std::string& text, bool late) { note_written(text, late, k_write_limit); });
  }
  usage_.reset();
}

void StatusService::note_written(std::string problem, bool late, Milliseconds limit) {
  if (late) problem = "not written within " + describe_duration(limit);
  writing_.reset();
  if (problem.empty() || std::exchange(told_unwritten_, true)) return;
  console::say_notice(fmt::format("cannot write all stacks of the ranks on {}: {}; the job continues",
                                  plans_.node->host, printable(problem, 400)),
                      {});
}

void StatusService::end() {
  if (writing_) {
    const auto [text, late] = writing_->wait_for_more(k_most_problem, k_last_write);
    note_written(text, late, k_last_write);
  }
  server_.reset();
  stacks_server_.reset();
  usage_.reset();
  dump_timer_.cancel();
  job_.limit.cancel();
  job_stacks_.limit.cancel();
}

namespace {

constexpr std::size_t k_most_waiting = 64;  // requests whose answer may never come

}  // namespace

void RestartService::serve() {
  const std::string name = os::status_socket_name(::getpid(), os::Asks::restart);
  net::StatusServer::Hooks hooks;
  hooks.may_ask = os::is_of_this_user;
  hooks.requested = [this](int descriptor, const std::string& text, Answer answer) {
    pass_on(descriptor, text, std::move(answer));
  };
  // Anybody may have taken the first; the second cannot be foreseen.
  server_.emplace(context_, std::vector{name, name + "/" + os::make_random_id()}, std::move(hooks));
}

void RestartService::pass_on(int descriptor, const std::string& text, Answer answer) {
  auto decoded = rendezvous::decode_agent_message(text);
  auto* const message = std::get_if<rendezvous::AgentMessage>(&decoded);
  auto* const request = message ? std::get_if<rendezvous::RestartRequest>(message) : nullptr;
  if (request == nullptr) return answer({});
  request->number = ++last_;
  request->sender = fmt::format("{} on {}", os::describe_peer(descriptor, user_), host_);
  if (waiting_.size() >= k_most_waiting) waiting_.erase(waiting_.begin());
  waiting_[last_] = std::move(answer);
  const int number = last_;
  if (ask_(std::move(*message))) return;
  note({number, false, "the coordinator of the job cannot be asked at the moment", "ask again"});
}

void RestartService::note(const rendezvous::RestartReply& reply) {
  if (const auto waiting = waiting_.extract(reply.number); !waiting.empty())
    waiting.mapped()(rendezvous::encode(reply).substr(rendezvous::k_frame_header));
}

}  // namespace ddprun::agent
