#include "commands/check.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "check/gpu_release.hpp"
#include "check/record_fields.hpp"
#include "check/render_check.hpp"
#include "commands/check_meeting.hpp"
#include "commands/print_files.hpp"
#include "console/console.hpp"
#include "inspection/nvml_health.hpp"
#include "net/connection_check.hpp"
#include "net/name_lookup.hpp"
#include "net/tcp_tools.hpp"
#include "os/clock.hpp"
#include "os/process/become.hpp"
#include "os/process/child_call.hpp"
#include "os/process/helper_child.hpp"
#include "os/system_failure.hpp"
#include "plan/worker_command.hpp"
#include "probes/node_record.hpp"
#include "probes/own_check.hpp"
#include "probes/own_worker.hpp"
#include "rendezvous/missing_agents.hpp"

namespace ddprun::commands {

namespace {

constexpr Milliseconds k_join_limit{60000};
constexpr Milliseconds k_stop_limit{2000};

std::string folder_of_logs(const output::OutputOptions& output) {
  return output.logs.value.empty() ? output.log_dir.value : output.logs.value;
}

}  // namespace

void make_check_job(options::Options& options) {
  const bool made = options.command.size() > 1 && options.command[1] == k_check_node;
  if (!options.check.wanted || made) return;
  options.module = options.run_path = options.local_rank_argument = false;
  options.no_python = true;
  options.command = {
      os::capture_own_file(), k_check_node,
      check::render_json_text(CheckWords{options.check.json, options.check.strict, options.check.deep,
                                         folder_of_logs(options.output), options.check.exclude_file})};
  // All nodes take part, once, and no worker is bound: what is judged is what the job has.
  options.max_restarts.value = 0;
  options.spares.value = 0;
  options.least_nodes.reset();
  options.restarts.standby.value = false;
  options.hang = {};
  options.time_limit = {};
  options.bind.mode = options::BindMode::none;
  options.store = options::StoreHost::agent;
  options.show_binding = false;
  options.container = {};  // the node is checked, not the container
  options.shutdown_timeout.value = k_stop_limit;
  if (options.join_timeout.by_default()) options.join_timeout.value = k_join_limit;
  const bool gather = options.output.gather;
  options.output = {};
  options.output.gather = gather;
}

namespace {

constexpr int k_backlog = 128;
constexpr Milliseconds k_answer{3000};  // limit of another node's answer
constexpr Milliseconds k_stream{1000};  // sent to the next node to see its rate
constexpr Milliseconds k_name_limit{3000};
constexpr std::size_t k_most_turns = 3;  // all of them within the time for a record

std::string make_word() {
  std::string word(net::k_check_word, '\0');
  if (::getrandom(word.data(), word.size(), 0) != static_cast<ssize_t>(word.size()))
    throw Error("cannot get random numbers from the system");
  for (char& letter : word) letter = static_cast<char>('a' + static_cast<unsigned char>(letter) % 26);
  return word;
}

// Answers the other nodes for as long as this process lives.
class Answers {
 public:
  Answers() : word_(make_word()), listener_(net::bind_port(0, k_backlog)) {
    if (listener_.descriptor < 0) throw Error("cannot listen on any port of this node");
    child_ = os::AnsweringChild([this]() -> std::string { net::answer_checks(listener_, word_); },
                                "answer the other nodes of the check");
  }
  int port() const { return listener_.port; }
  const std::string& word() const { return word_; }

 private:
  std::string word_;
  net::BoundSocket listener_;
  os::AnsweringChild child_;
};

class CheckNode {
 public:
  CheckNode(const facts::Snapshot& snapshot, const probes::OwnWorker& worker, CheckWords words)
      : snapshot_(snapshot),
        words_(std::move(words)),
        rank_(worker.rank),
        meeting_(worker.rank, worker.world, worker.address, worker.port) {}

  int run() {
    const TimePoint start = os::now();
    const Answers answers;
    const std::string address = meeting_.local_address();
    nodes_ =
        meeting_.meet({rank_, snapshot_.host.name, address, answers.port(), answers.word(), 0}, missing_);
    const auto own = std::ranges::find_if(nodes_, [&](const MetNode& each) { return each.rank == rank_; });
    if (own == nodes_.end()) return try_torch(), 0;  // another worker reports for this node
    place_ = static_cast<std::size_t>(own - nodes_.begin());
    const bool several = nodes_.size() > 1;
    record_ =
        probes::make_node_record({rank_, own->workers, several ? address : "", words_.log_folder}, snapshot_);
    if (several) measure_connections();
    return rank_ == 0 ? judge_all(start) : take_part();
  }

 private:
  const MetNode& next_node() const { return nodes_[(place_ + 1) % nodes_.size()]; }

  check::Connection measure(const MetNode& node, std::optional<Milliseconds> stream_for) {
    const net::MeasuredConnection measured =
        net::measure_connection(node.address, node.port, node.word, stream_for, k_answer);
    if (node.rank == 0) {
      record_.clock_offset = measured.clock_offset;
      record_.clock_uncertainty = measured.clock_uncertainty;
    }
    return {node.rank,     node.host,         node.address,     node.port,        measured.latency,
            measured.rate, measured.path_mtu, measured.problem, measured.stalled, {}};
  }

  // Measures the connections to the first node and to the next one in a ring, as far as these differ.
  void measure_connections() {
    if (rank_ != 0 && next_node().rank != 0)
      record_.connections.push_back(measure(nodes_.front(), std::nullopt));
    record_.connections.push_back(measure(next_node(), k_stream));
    record_.connections.back().name_addresses = net::look_up_name(next_node().host, k_name_limit);
  }

  // Measures again; the better result counts.
  void measure_again() {
    for (check::Connection& connection : record_.connections) {
      const auto node =
          std::ranges::find_if(nodes_, [&](const MetNode& each) { return each.rank == connection.to_rank; });
      const bool streams = node->rank == next_node().rank;
      check::Connection again = measure(*node, streams ? std::optional(k_stream) : std::nullopt);
      if (!again.problem.empty() || again.stalled) continue;
      again.name_addresses = connection.name_addresses;
      again.rate = std::max(again.rate, connection.rate);
      if (connection.latency > 0) again.latency = std::min(again.latency, connection.latency);
      connection = std::move(again);
    }
  }

  // Measures again in turn, so that no node disturbs another; all at a time if turns would take long.
  void take_turn(const std::vector<int>& ranks) {
    const auto turn = std::ranges::find(ranks, rank_);
    if (turn == ranks.end()) return;
    if (turn != ranks.begin() && ranks.size() <= k_most_turns) meeting_.wait_for(*(turn - 1), 1);
    measure_again();
    meeting_.give(record_, 1);
  }

  // Tries torch as another rank than 0, when rank 0 asks.
  void try_torch() {
    if (words_.deep && meeting_.called_deep()) meeting_.give_deep(probes::run_deep_check(rank_, snapshot_));
  }

  // Tries torch as rank 0, unless a node has failed: torch would find that out the slow way.
  void try_torch(check::CheckResult& result) {
    const bool go = !check::fails(result, false);
    meeting_.call_deep(go);
    result.deep_left_out = !go;
    if (!go) return;
    result.deep = {probes::run_deep_check(rank_, snapshot_)};
    const std::vector<check::DeepResult> others = meeting_.collect_deep();
    result.deep.insert(result.deep.end(), others.begin(), others.end());
    check::judge_deep(result.deep, result.findings);
  }

  int take_part() {
    meeting_.give(record_, 0);
    take_turn(meeting_.asked_again());
    try_torch();
    meeting_.wait_for_end();
    return 0;
  }

  void collect(check::CheckResult& result) {
    std::vector<std::string> silent;
    result.records = meeting_.collect(nodes_, 0, silent);
    result.records.insert(result.records.begin(), record_);
    const std::vector<int> doubtful = check::doubtful_connections(result.records);
    meeting_.ask_again(doubtful);
    take_turn(doubtful);
    result.records.front() = record_;
    std::vector<MetNode> again;
    std::ranges::copy_if(nodes_, std::back_inserter(again), [&](const MetNode& each) {
      return std::ranges::find(doubtful, each.rank) != doubtful.end();
    });
    for (const check::HostRecord& record : meeting_.collect(again, 1, silent)) {
      *std::ranges::find_if(result.records,
                            [&](const check::HostRecord& each) { return each.rank == record.rank; }) = record;
    }
    for (const std::string& host : silent) {
      check::report(result.findings, check::Mark::error, "check", host,
                    "the node joined the check but sent no result",
                    "check that node for a hanging file system (df, dmesg), or leave it out");
    }
  }

  // Reports the ranks that did not come: of an unknown node, or of one that others report for.
  void report_missing(check::CheckResult& result) const {
    if (missing_.empty()) return;
    check::report(result.findings, check::Mark::error, "check", record_.host,
                  fmt::format("{} did not report to rank 0", rendezvous::describe_ranks(missing_)),
                  "look at its node: the process was started there and then hung, or cannot reach this node");
  }

  int judge_all(TimePoint start) {
    check::CheckResult result;
    if (nodes_.size() > 1) {
      collect(result);
    } else {
      result.records = {record_};
    }
    report_missing(result);
    const std::vector<check::Finding> findings = check::judge(result.records);
    result.findings.insert(result.findings.end(), findings.begin(), findings.end());
    if (words_.deep) try_torch(result);
    meeting_.end();
    result.took = std::chrono::duration_cast<Milliseconds>(os::now() - start);
    if (!words_.exclude_file.empty()) write_excluded(result);
    words_.json ? console::print_data(check::render_check_json(result, words_.strict))
                : console::print_text(check::render_check_text(result));
    return check::fails(result, words_.strict) ? 1 : 0;
  }

  void write_excluded(const check::CheckResult& result) const {
    std::string names;
    for (const std::string& node : check::failing_nodes(result)) names += node + "\n";
    write_file(words_.exclude_file, names, "name another file with --exclude-file");
  }

  const facts::Snapshot& snapshot_;
  CheckWords words_;
  int rank_;
  CheckMeeting meeting_;
  std::vector<MetNode> nodes_;
  std::vector<int> missing_;  // ranks
  std::size_t place_ = 0;
  check::HostRecord record_;
};

}  // namespace

bool is_check_node(const facts::Snapshot& snapshot) {
  return snapshot.arguments.size() == 2 && snapshot.arguments.front() == k_check_node;
}

int check_node(const facts::Snapshot& snapshot) {
  return CheckNode(snapshot, probes::read_own_worker(snapshot, k_check_node),
                   check::parse_json_text<CheckWords>(snapshot.arguments[1]))
      .run();
}

namespace {

constexpr Milliseconds k_second_patience{3000};
constexpr Milliseconds k_memory_limit{5000};
constexpr Milliseconds k_memory_pause{500};

std::string describe(const check::Finding& finding, const std::string& host) {
  return fmt::format("{} on {}: {}", finding.subject, host, finding.what);
}

// The coordinator's node is none that the job can do without.
bool can_be_left_out(const plan::NodeProposal& node) {
  return options::outlives_nodes(node.options) && node.rendezvous.agent.value != 0;
}

// Returns whether it is a verdict.
bool heed(const lifecycle::CommandVerdict& verdict, const plan::NodeProposal& node) {
  if (verdict.fitness == lifecycle::Fitness::unknown)
    console::say_notice(lifecycle::describe_broken(verdict, node.host), lifecycle::k_broken_hint);
  if (verdict.fitness != lifecycle::Fitness::unfit) return verdict.fitness != lifecycle::Fitness::unknown;
  console::say_notice(probes::exclude_node(node));
  throw Error(fmt::format("{} on {}: {}", node.options.check.command.origin, node.host, verdict.what),
              lifecycle::k_unfit_hint, can_be_left_out(node) ? k_exit_own_failure : k_exit_unfit);
}

void heed(const std::vector<check::Finding>& findings, const plan::NodeProposal& node) {
  for (const check::Finding& finding : findings) {
    const bool error = finding.mark == check::Mark::error;
    if (error) console::say_notice(probes::exclude_node(node));
    if (error && can_be_left_out(node)) throw Error(describe(finding, node.host), finding.fix);
    if (error || node.rendezvous.agent.value == 0)
      console::say_notice(describe(finding, node.host), finding.fix);
  }
}

// Reports whether something is wrong of which a busy machine may be the reason.
bool is_doubtful(const check::HostRecord& record) {
  return std::ranges::any_of(check::judge_alone(record), [](const check::Finding& each) {
    return each.mark == check::Mark::error || each.subject == "disk";
  });
}

std::vector<check::GpuMemory> find_held(const std::vector<std::string>& gpus,
                                        const check::HostRecord& before) {
  const os::ChildAnswer answer = os::call_in_child(
      [] { return check::render_json_text(inspection::capture_gpu_memory()); }, k_memory_limit);
  if (!answer.bytes) return {};
  return check::find_held(check::parse_json_text<std::vector<check::GpuMemory>>(*answer.bytes), gpus, {},
                          before);
}

// Waits until no other process holds memory of the workers' GPUs: what an earlier job has left. Returns
// whether one did.
bool wait_for_memory(const plan::NodeProposal& node, const facts::Snapshot& snapshot,
                     check::HostRecord record) {
  // The others wait for this node meanwhile.
  const Milliseconds patience =
      std::min(node.options.check.release_timeout, node.rendezvous.join_timeout / 2);
  const std::vector<std::string> gpus = check::whole_gpus(snapshot.host, node.offered);
  bool any = false;
  for (check::GpuHealth& each : record.gpus) any |= std::exchange(each.used, 0) > check::k_free_gpu_memory;
  if (!any || gpus.empty() || patience == Milliseconds{0}) return false;
  auto held = find_held(gpus, record);
  if (held.empty()) return false;
  const check::Finding first = check::describe_held(held, node.host, Milliseconds{0});
  console::say_notice(fmt::format("{}; waiting for it, {} at most (--gpu-release-timeout)",
                                  describe(first, node.host), describe_duration(patience)),
                      first.fix);
  for (const TimePoint until = os::now() + patience; !held.empty() && os::now() < until;) {
    std::this_thread::sleep_for(k_memory_pause);
    held = find_held(gpus, record);
  }
  if (!held.empty()) heed({check::describe_held(held, node.host, patience)}, node);
  return true;
}

}  // namespace

probes::StartLook check_before_start(const plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  std::optional<os::ChildCall> command;
  if (probes::has_own_check(node)) command.emplace([&] { return probes::ask_own_check(node, snapshot, {}); });
  probes::StartLook look;
  if (node.options.check.automatic && node.rendezvous.agents >= 2) {
    probes::CheckedNode checked;
    checked.workers = node.local_world_size;
    checked.quick = true;
    look.record = probes::make_node_record(checked, snapshot);
    if (wait_for_memory(node, snapshot, *look.record) || is_doubtful(*look.record)) {
      checked.patience = k_second_patience;
      look.record = probes::make_node_record(checked, snapshot);
    }
    heed(check::judge_alone(*look.record), node);
  }
  if (command) {
    const auto answer = command->wait(node.options.check.limit.value + probes::k_own_check_margin);
    look.command_is_broken = !heed(probes::read_verdict(answer.bytes.value_or("")), node);
  }
  return look;
}

void check_staged(const plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  if (node.rendezvous.agent.value != 0) return;
  for (const std::string& path : plan::staged_paths(node.options, snapshot)) {
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error)
      error = std::make_error_code(std::errc::no_such_file_or_directory);
    if (!error && path != "/") continue;
    throw Error(fmt::format("cannot stage {} on {}: {}", printable(path), node.host,
                            error ? os::describe_errno(error.value()) : "it is the whole file system"),
                "--stage takes an existing file or folder", k_exit_not_found);
  }
}

}  // namespace ddprun::commands
