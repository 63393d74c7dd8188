#include "slow/slow_rank.hpp"

#include <fmt/format.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "base/text.hpp"
#include "slow/collectives.hpp"

namespace ddprun::slow {

namespace {

constexpr double k_waits_much = 0.1, k_times_others = 2;

// Returns the share of a rank's running and waiting time in which its main thread waited for a CPU.
double cpu_wait_share(const status::WorkerStatus& worker) {
  if (!worker.cpu_wait || !worker.own_cpu || worker.cpu_wait->count() == 0) return 0;
  const auto waited = static_cast<double>(worker.cpu_wait->count());
  return waited / (waited + static_cast<double>(worker.own_cpu->count()));
}

// Compared with the others that run.
struct Compared {
  double usual_cpu_wait = 0;
  bool is_waited_for = false;  // most of them are in a collective that the slow one has yet to enter
};

Compared compare(const status::JobStatus& job, const status::WorkerStatus& slow) {
  std::vector<double> shares;
  std::size_t ahead = 0;
  const auto& own = slow.view.collective;
  for_each_worker(job, [&](const status::NodeStatus&, const status::WorkerStatus& worker) {
    if (worker.rank == slow.rank || worker.pid == 0) return;
    shares.push_back(cpu_wait_share(worker));
    const auto& last = worker.view.collective;
    if (own && last && last->pending && last->group == own->group && last->sequence > own->sequence) ++ahead;
  });
  return {slow::middle_of(shares), 2 * ahead > shares.size()};
}

std::string describe_cause(const status::WorkerStatus& slow, const Compared& compared) {
  std::string text;
  const double own = cpu_wait_share(slow), usual = compared.usual_cpu_wait;
  if (own >= k_waits_much && own >= k_times_others * usual)
    text =
        fmt::format("; it waited for a CPU {:.0f} % of the time in which it could run, the others {:.0f} %",
                    100 * own, 100 * usual);
  if (slow.view.process.starts_with("in unint")) text += "; it is " + printable(slow.view.process, 128);
  const status::Frame* const place = status::own_frame(slow.view);
  if (compared.is_waited_for && place != nullptr)
    text += "; while they wait it is at " + printable(status::describe(*place), 300);
  return text;
}

}  // namespace

void add_waits(status::JobStatus& job, const slow::SlowWatch& watch) {
  const auto shares = watch.shares();
  for (status::NodeStatus& node : job.here) {
    for (status::WorkerStatus& worker : node.workers) {
      if (const auto found = shares.find(worker.rank); found != shares.end())
        worker.waited_percent = static_cast<int>(std::lround(100 * found->second));
    }
  }
  if (const auto step = watch.step())
    std::tie(job.step, job.step_hour_ago) = std::tie(step->now, step->hour_ago);
}

std::optional<SlowNotice> describe_slow(const status::JobStatus& job, const slow::SlowRank& slow,
                                        Milliseconds window) {
  SlowNotice notice;
  for_each_worker(job, [&](const status::NodeStatus& node, const status::WorkerStatus& worker) {
    if (worker.rank != slow.rank || worker.pid == 0) return;
    notice.worker = worker;
    notice.host = node.host;
  });
  if (notice.worker.pid == 0) return std::nullopt;
  const std::string host = printable(notice.host, 128);
  const Compared compared = compare(job, notice.worker);
  notice.seen_late = compared.is_waited_for;
  notice.what = fmt::format("rank {} on {} is slow: the other ranks waited for it {:.0f} % of the last {}",
                            slow.rank, host, 100 * slow.share, describe_duration(window)) +
                describe_cause(notice.worker, compared);
  notice.hint = fmt::format(
      "ddprun --status shows how long the others wait for each rank; ddprun --drain {} gives its node's work "
      "to a spare",
      host);
  return notice;
}

}  // namespace ddprun::slow
