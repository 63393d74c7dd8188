#include "probes/launch_facts.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <ctime>

#include "allocation/detection/left_over.hpp"
#include "allocation/launchers/launchers.hpp"
#include "allocation/schedulers/job_end.hpp"
#include "allocation/schedulers/slurm_place.hpp"
#include "allocation/schedulers/slurm_step.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "lifecycle/after_success.hpp"
#include "os/clock.hpp"
#include "os/libraries/key_value_space.hpp"
#include "os/libraries/slurm_api.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/machine/capture_step.hpp"
#include "os/process/child_call.hpp"
#include "placement/devices.hpp"
#include "plan/bind_workers.hpp"
#include "plan/network_order.hpp"
#include "plan/propose.hpp"
#include "plan/worker_count.hpp"

namespace ddprun::probes {

namespace {

constexpr Milliseconds k_pmix_limit{10000};  // prterun may still be starting processes elsewhere
constexpr Milliseconds k_slurm_limit{2000};
constexpr std::int64_t k_longest = std::int64_t{10} * 365 * 86400;  // "unlimited" is longer

// Reports whether the size is missing; a malformed variable is for the detection to complain about.
bool lacks_size(const facts::Snapshot& snapshot) {
  try {
    const auto places = allocation::find_launch_places(snapshot);
    return !places.empty() && std::ranges::all_of(places, [](const allocation::LaunchPlace& place) {
      return !place.size && place.slurm_step.empty() &&
             place.key_value_space == allocation::KeyValueSpace::pmix;
    });
  } catch (const Error&) {
    return false;
  }
}

std::optional<std::int64_t> ask_slurm(
    const std::function<std::optional<std::int64_t>(os::SlurmApi&)>& question) {
  const os::ChildAnswer answer = os::call_in_child(
      [&] {
        auto api = os::SlurmApi::open_in_child();
        const auto number = api ? question(*api) : std::nullopt;
        return number ? fmt::format("{}", *number) : std::string();
      },
      k_slurm_limit);
  return answer.bytes ? parse_integer(*answer.bytes) : std::nullopt;
}

bool came_by_ssh(const facts::HostFacts& host) {
  return std::ranges::any_of(
      host.ancestors, [](const facts::Ancestor& ancestor) { return ancestor.title.starts_with("sshd"); });
}

std::optional<std::int64_t> find_own_job(const facts::Snapshot& snapshot) {
  if (const auto place = allocation::find_slurm_place(snapshot.host)) return place->job;
  if (!came_by_ssh(snapshot.host)) return std::nullopt;
  return ask_slurm([&](os::SlurmApi& api) { return api.job_of(snapshot.host.pid); });
}

}  // namespace

void ask_pmix_for_size(facts::Snapshot& snapshot) {
  if (!lacks_size(snapshot)) return;
  const os::ChildAnswer answer =
      os::call_in_child([] { return os::ask_pmix_place(os::KeyValueRequest{}.library); }, k_pmix_limit);
  for (const std::string& line : split(answer.bytes.value_or(""), '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) snapshot.environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
}

void ask_slurm_for_end(facts::Snapshot& snapshot) {
  const auto job = parse_integer(facts::find_variable(snapshot, "SLURM_JOB_ID").value_or(""));
  if (!job || *job < 1) return;
  const auto left =
      ask_slurm([&](os::SlurmApi& api) { return api.remaining_seconds(static_cast<std::uint32_t>(*job)); });
  if (!left || *left > k_longest) return;
  snapshot.environment["SLURM_JOB_END_TIME"] = fmt::format("{}", snapshot.unix_time + *left);
}

std::optional<std::int64_t> age_of_date(const std::string& date) {
  std::tm parts{};
  if (::strptime(date.c_str(), "%a %b %d %H:%M:%S %Y", &parts) == nullptr) return std::nullopt;
  parts.tm_isdst = -1;
  return os::unix_milliseconds() / 1000 - std::mktime(&parts);
}

void ask_for_job_time(allocation::Allocation& allocation, facts::Snapshot& snapshot) {
  const facts::Scheduler scheduler = allocation.scheduler.value;
  const auto question = allocation::time_question(allocation);
  if (question.empty()) return;
  if (!allocation.end_time) {
    const auto left = allocation::parse_time_left(
        allocation, os::ask_program(question, k_slurm_limit, allocation::k_most_shown), age_of_date);
    if (left) allocation.end_time = sourced(snapshot.unix_time + *left, join(question, " "));
  }
  if (scheduler != facts::Scheduler::slurm) return;
  const std::vector<std::string> words{"scontrol", "show", "config"};
  for (const std::string& line : split(os::ask_program(words, k_slurm_limit), '\n')) {
    if (line.starts_with("KillWait")) snapshot.files[std::string(allocation::k_slurm_config)] = line + "\n";
  }
}

void ask_for_tasks(allocation::Allocation& allocation, const options::Options& options,
                   const facts::Snapshot& snapshot) {
  if (!allocation::lacks_asked_tasks(allocation, snapshot) ||
      !plan::is_for_tasks(allocation, options, placement::find_visible_devices(snapshot)))
    return;
  const std::string shown =
      os::ask_program(allocation::job_question(allocation), k_slurm_limit, allocation::k_most_shown);
  if (auto asked = allocation::parse_shown_tasks(shown, allocation, snapshot))
    allocation.asked_tasks = std::move(asked);
}

void ask_for_topology(const allocation::Allocation& allocation, const options::Options& options,
                      facts::Snapshot& snapshot) {
  if (!plan::asks_for_topology(options, allocation, snapshot)) return;
  snapshot.files[std::string(allocation::k_shown_topology)] = os::ask_program(
      split_words(allocation::k_shown_topology), k_slurm_limit, allocation::k_order_file_limit);
}

std::optional<allocation::ShownJob> ask_for_job(const allocation::Allocation& allocation) {
  constexpr Milliseconds k_limit{2000};
  const auto question = allocation::job_question(allocation);
  if (question.empty()) return std::nullopt;
  return allocation::parse_shown_job(allocation,
                                     os::ask_program(question, k_limit, allocation::k_most_shown));
}

std::string ask_why_job_ends(const allocation::Allocation& allocation) {
  constexpr Milliseconds k_limit{1000};
  const auto question = allocation::job_question(allocation);
  if (question.empty()) return {};
  const std::string shown = os::ask_program(question, k_limit, allocation::k_most_shown);
  return allocation.scheduler.value == facts::Scheduler::slurm
             ? allocation::describe_end_of_slurm_job(shown, allocation)
             : allocation::describe_end_of_pbs_job(shown, allocation, age_of_date);
}

facts::PythonFacts python_of_workers(const plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  if (node.offered.empty()) return {};
  const std::vector<std::string>& command = node.offered.front().command;
  if (!lifecycle::starts_python(command)) return {};
  const auto program = snapshot.programs.find(command.front());
  const bool found = program != snapshot.programs.end() && !program->second.path.empty();
  return os::capture_python(found ? program->second.path : command.front(), snapshot.environment);
}

std::optional<allocation::Notice> find_job_without_variables(const facts::Snapshot& snapshot,
                                                             const allocation::Allocation& allocation) {
  const bool alone =
      allocation.style.value == allocation::LaunchStyle::alone && allocation.job_id.value.empty();
  if (!alone || allocation.scheduler.value != facts::Scheduler::none ||
      allocation::is_inside_worker(snapshot))
    return std::nullopt;
  const auto job = find_own_job(snapshot);
  if (!job) return std::nullopt;
  return allocation::Notice{
      fmt::format(
          "ddprun uses {} only: this shell belongs to Slurm job {}, but the job's variables are not set here",
          snapshot.host.name, *job),
      fmt::format("to use all nodes of the job: srun --jobid={} --overlap --ntasks-per-node=1 ddprun ...",
                  *job)};
}

plan::NodeProposal keep_to_granted_cpus(plan::NodeProposal node, facts::Snapshot& snapshot,
                                        os::CoreClaims& claims) {
  const plan::GrantedCores granted = plan::find_granted_cores(node, snapshot);
  if (granted.count == 0) return node;
  const std::vector<int> cpus = claims.claim(granted.cores, granted.count);
  if (cpus.empty() || !os::keep_to_cpus(cpus)) {
    node.notices.push_back(plan::describe_held_cores(node.host, granted));
    return node;
  }
  snapshot.host.allowed_cpus = cpus;
  snapshot.host.allowed_cores = granted.count;
  return plan::propose(snapshot, node.options, node.allocation);
}

}  // namespace ddprun::probes
