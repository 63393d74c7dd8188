#include "program_nodes/program_child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <variant>

#include "allocation/detection/left_over.hpp"
#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "net/timed_socket.hpp"
#include "os/process/become.hpp"
#include "os/process/signals.hpp"
#include "os/process/spawn.hpp"
#include "os/read_file.hpp"
#include "plan/worker_env.hpp"
#include "report/outcome.hpp"

namespace ddprun::program_nodes {

using programs::Program;

namespace {

constexpr std::string_view k_report = "--report=";
constexpr std::size_t k_longest_report = std::size_t{1} << 20;
constexpr Milliseconds k_port_limit{100};
constexpr Milliseconds k_ready_look{100};   // time between looks whether it is ready
constexpr Milliseconds k_ready_again{500};  // time between looks whether it still is
constexpr int k_most_looks_in_vain = 3;

// Returns the value of an option of the program, "--report="; nullopt: it does not have it.
std::optional<std::string> find_option(const Program& program, std::string_view option) {
  const auto end = std::ranges::find(program.words, "--");  // the script and its arguments follow
  const auto found = std::find_if(program.words.begin(), end,
                                  [&](const std::string& word) { return word.starts_with(option); });
  return found == end ? std::nullopt : std::optional(found->substr(option.size()));
}

std::string own_report(const ProgramPlace& place) { return place.folder + "/report.json"; }

}  // namespace

void ProgramPlace::note_gpus(const placement::VisibleDevices& devices) {
  std::vector<std::string> visible;
  for (const int gpu : share.gpus) visible.push_back(devices.entries[static_cast<std::size_t>(gpu)]);
  visible_gpus = join(visible, ",");
  visible_variable = devices.narrowing.empty() ? "CUDA_VISIBLE_DEVICES" : devices.narrowing;
}

std::vector<facts::Core> cores_of(const facts::HostFacts& host) {
  std::vector<facts::Core> cores;
  for (facts::Core core :
       host.topology ? host.topology->cores : facts::make_flat_topology(host.allowed_cpus).cores) {
    std::erase_if(core.cpus, [&](int cpu) { return !std::ranges::binary_search(host.allowed_cpus, cpu); });
    if (!core.cpus.empty()) cores.push_back(std::move(core));
  }
  return cores;
}

facts::Environment make_environment(const Program& program, const ProgramPlace& place,
                                    const facts::Environment& environment) {
  facts::Environment own = allocation::without_worker_variables(environment);
  own[allocation::k_started_hosts_variable] = join(place.hosts, ",");
  own[allocation::k_started_rank_variable] = std::to_string(place.rank);
  if (!place.job.empty()) own[allocation::k_started_job_variable] = place.job;
  own["MASTER_ADDR"] = place.address;
  own.erase("MASTER_PORT");
  own["DDPRUN_PROGRAM"] = program.name;
  own["DDPRUN_READY_FILE"] = place.folder + "/ready";
  if (parse_integer(program.ready)) own["DDPRUN_READY_PORT"] = program.ready;
  if (program.replica >= 0) {
    own["DDPRUN_REPLICA"] = std::to_string(program.replica);
    own["DDPRUN_REPLICAS"] = std::to_string(program.replicas);
  }
  if (!place.share.all_gpus) own[place.visible_variable] = place.visible_gpus;
  return own;
}

std::string own_program(const facts::Environment& environment) {
  const auto name = environment.find("DDPRUN_PROGRAM"), replica = environment.find("DDPRUN_REPLICA");
  if (name == environment.end()) return {};
  return printable(replica == environment.end() ? name->second : name->second + " " + replica->second, 64);
}

std::vector<std::string> make_arguments(const Program& program, const ProgramPlace& place) {
  const auto end = std::ranges::find(program.words, "--");
  const auto count = static_cast<int>(place.hosts.size());
  std::vector<std::string> arguments{"ddprun", "--rdzv-id=" + program.name,
                                     std::string(k_report) + own_report(place)};
  if (!find_option(program, "--nnodes=")) arguments.push_back(fmt::format("--nnodes={}", count));
  arguments.insert(arguments.end(), program.words.begin(), end);
  if (count < program.nodes && program.replica < 0) {
    const bool spares = find_option(program, "--spares=").has_value();
    arguments.push_back(spares ? fmt::format("--nnodes={}", count)
                               : fmt::format("--nnodes={}:{}", program.least, count));
    if (spares) arguments.push_back(fmt::format("--spares={}", count - program.least));
  }
  arguments.insert(arguments.end(), end, program.words.end());
  return arguments;
}

void ProgramChild::start(int attempt, const facts::Environment& environment) {
  ::unlink(ready_file().c_str());
  ::unlink(own_report(place_).c_str());
  attempt_ = attempt;
  ready_ = false;
  os::SpawnRequest request;
  request.arguments = make_arguments(program_, place_);
  request.program = os::capture_own_file();
  request.environment = plan::make_environment_strings(make_environment(program_, place_, environment));
  const os::Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  request.standard_input = place_.first ? 0 : nothing.get();
  request.unbound_cpus = place_.share.cpus;
  request.ignored_signals = os::capture_ignored_signals(os::handled_signals());
  auto result = os::spawn(request);
  if (std::holds_alternative<os::SpawnFailure>(result)) {
    failed_ = k_exit_not_found;
    return;
  }
  child_ = std::move(std::get<os::Child>(result));
}

std::optional<int> ProgramChild::take_end() {
  if (failed_) return std::exchange(failed_, std::nullopt);
  if (!child_) return std::nullopt;
  const auto status = child_->ending();
  if (!status) return std::nullopt;
  child_->reap();
  child_.reset();
  return report::exit_code_of(*status);
}

std::string ProgramChild::read_report() const {
  const std::string path = find_option(program_, k_report).value_or(own_report(place_));
  return os::try_read_file(path, k_longest_report).value_or("");
}

void ProgramChild::signal(int number) {
  if (child_) child_->send_signal(number);
}

bool ProgramChild::shows_ready() const {
  const std::string& ready = program_.ready;
  const auto port = parse_integer(ready);
  if (!port) return ::access((ready.empty() ? ready_file() : ready).c_str(), F_OK) == 0;
  return std::ranges::any_of(
      std::vector{std::string("127.0.0.1"), std::string("::1"), place_.own_address},
      [&](const std::string& address) {
        return net::TimedSocket().connect(address, static_cast<int>(*port), k_port_limit).empty();
      });
}

std::optional<bool> ProgramChild::take_ready(TimePoint now) {
  if (!child_ || now < look_due_) return std::nullopt;
  look_due_ = now + (ready_ ? k_ready_again : k_ready_look);
  const bool ready = shows_ready();
  looks_in_vain_ = ready ? 0 : looks_in_vain_ + 1;
  if (ready == ready_ || (ready_ && looks_in_vain_ < k_most_looks_in_vain)) return std::nullopt;
  ready_ = ready;
  return ready;
}

}  // namespace ddprun::program_nodes
