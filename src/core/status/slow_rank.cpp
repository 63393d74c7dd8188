#include "status/slow_rank.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/text.hpp"
#include "slow/collectives.hpp"

namespace ddprun::status {

namespace {

constexpr double k_waits_much = 0.1, k_times_others = 2;

// Returns the share of a rank's running and waiting time in which its main thread waited for a CPU.
double cpu_wait_share(const WorkerStatus& worker) {
  if (!worker.cpu_wait || !worker.own_cpu) return 0;
  const auto waited = static_cast<double>(worker.cpu_wait->count());
  const double ready = waited + static_cast<double>(worker.own_cpu->count());
  return ready > 0 ? waited / ready : 0;
}

// Returns the others that run.
std::vector<const WorkerStatus*> others_of(const JobStatus& job, const WorkerStatus& slow) {
  std::vector<const WorkerStatus*> others;
  for_each_worker(job, [&](const NodeStatus&, const WorkerStatus& worker) {
    if (worker.rank != slow.rank && worker.pid != 0) others.push_back(&worker);
  });
  return others;
}

std::string describe_cpu_wait(const JobStatus& job, const WorkerStatus& slow) {
  std::vector<double> shares;
  for (const WorkerStatus* const other : others_of(job, slow)) shares.push_back(cpu_wait_share(*other));
  const double own = cpu_wait_share(slow), usual = slow::middle_of(std::move(shares));
  if (own < k_waits_much || own < k_times_others * usual) return {};
  return fmt::format("; it waited for a CPU {:.0f} % of the time in which it could run, the others {:.0f} %",
                     100 * own, 100 * usual);
}

// Reports whether most of the others are in a collective that this one has yet to enter.
bool is_waited_for(const JobStatus& job, const WorkerStatus& slow) {
  const auto& own = slow.view.collective;
  if (!own) return false;
  const std::vector<const WorkerStatus*> others = others_of(job, slow);
  std::size_t ahead = 0;
  for (const WorkerStatus* const other : others) {
    const auto& last = other->view.collective;
    const bool waits = last && last->pending && last->group == own->group && last->sequence > own->sequence;
    ahead += waits ? 1 : 0;
  }
  return 2 * ahead > others.size();
}

std::string describe_process(const WorkerStatus& slow) {
  const std::string& process = slow.view.process;
  return process.starts_with("in unint") ? "; it is " + printable(process, 128) : "";
}

}  // namespace

std::optional<SlowNotice> describe_slow(const JobStatus& job, const slow::SlowRank& slow,
                                        Milliseconds window) {
  SlowNotice notice;
  for_each_worker(job, [&](const NodeStatus& node, const WorkerStatus& worker) {
    if (worker.rank == slow.rank && worker.pid != 0) {
      notice.worker = worker;
      notice.host = node.host;
    }
  });
  const WorkerStatus& worker = notice.worker;
  if (worker.pid == 0) return std::nullopt;
  const std::string host = printable(notice.host, 128);
  notice.seen_late = is_waited_for(job, worker);
  const inspect::Frame* const place = inspect::own_frame(worker.view);
  notice.what = fmt::format(
      "rank {} on {} is slow: the other ranks waited for it {:.0f} % of the last {}{}{}{}", slow.rank, host,
      100 * slow.share, describe_duration(window), describe_cpu_wait(job, worker), describe_process(worker),
      notice.seen_late && place != nullptr
          ? "; while they wait it is at " + printable(inspect::describe(*place), 300)
          : "");
  notice.hint = fmt::format(
      "ddprun --status shows how long the others wait for each rank; ddprun --drain {} gives its node's work "
      "to a "
      "spare",
      host);
  return notice;
}

}  // namespace ddprun::status
