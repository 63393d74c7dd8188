#include "traces/trace_looks.hpp"

#include <utility>

#include "base/error.hpp"
#include "console/console.hpp"
#include "inspection/worker_questions.hpp"
#include "net/socket_owner.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "slow/slow_watch.hpp"

namespace ddprun::traces {

void TraceLooks::begin_attempt(const plan::Assignment& assignment,
                               const std::optional<options::SlowNotice>& notice) {
  end_attempt();
  if (!notice || assignment.workers.empty() || assignment.world_size < 2) return;
  attempt_ = assignment.attempt;
  ranks_ = plan::ranks_of(assignment);
  interval_ = slow::look_interval(*notice, assignment.node_count);
  entries_ = slow::entries_wanted(assignment.world_size);
  net::call_after(timer_, interval_, [this] { look(); });
}

void TraceLooks::end_attempt() {
  timer_.cancel();
  query_.reset();
  trace_.reset();
  clock_.begin();
  ranks_.clear();
  connections_.clear();
}

// An answer that never comes, as while the coordinator is lost, does not end the looks.
void TraceLooks::look() {
  net::call_after(timer_, interval_, [this] { look(); });
  clock_.begin();
  trace_.reset();
  const std::vector<std::string> doors = workers_.places().doors.workers;
  if (!inspection::has_collective_traces(doors)) return;
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_,
        inspection::capture_traces_in_child(
            doors, ranks_, [pids = pids()] { return net::list_connections(pids); }, entries_),
        slow::k_max_trace, Milliseconds{2000}, [this](const std::string& answer, bool) {
          query_.reset();
          trace_ = slow::parse_trace(answer);
          if (trace_) note_links(*trace_);
          finish();
        });
    ask_clock();
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
}

std::vector<int> TraceLooks::pids() const {
  std::vector<int> pids;
  for (std::size_t worker = 0; worker < ranks_.size(); ++worker) {
    if (const int pid = workers_.pid(worker); pid > 0) pids.push_back(pid);
  }
  return pids;
}

void TraceLooks::note_links(slow::NodeTrace& trace) {
  const std::int64_t now = os::unix_microseconds();
  trace.link = slow::find_busiest(connections_, trace.connections, now - connections_at_);
  connections_ = std::exchange(trace.connections, {});
  connections_at_ = now;
}

void TraceLooks::ask_clock() { tell_(rendezvous::ClockQuestion{os::unix_microseconds()}); }

void TraceLooks::note(const rendezvous::ClockReply& reply) {
  if (ranks_.empty() || clock_.is_done()) return;
  clock_.note(reply.asked, reply.now, os::unix_microseconds());
  clock_.is_done() ? finish() : ask_clock();
}

// Sends what was seen, on the coordinator's clock, once both are there; looks again at the next multiple.
void TraceLooks::finish() {
  const auto reading = clock_.reading();
  if (query_ || !clock_.is_done() || !reading) return;
  if (trace_) {
    trace_->base += reading->offset;
    trace_->bound = reading->bound;
    tell_(rendezvous::CollectivesSeen{attempt_, look_, *std::exchange(trace_, std::nullopt)});
  }
  const std::int64_t interval = interval_.count() * 1000;
  const std::int64_t now = os::unix_microseconds() + reading->offset;
  look_ = static_cast<int>(now / interval) + 1;
  net::call_after(timer_, Milliseconds{(look_ * interval - now) / 1000 + 1}, [this] { look(); });
}

}  // namespace ddprun::traces
