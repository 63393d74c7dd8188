#include "workers/worker_group.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "net/tcp_tools.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/files/slow_files.hpp"
#include "os/private_files.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/process_table.hpp"
#include "os/process/signals.hpp"
#include "os/read_file.hpp"
#include "plan/worker_env.hpp"
#include "rendezvous/host_limits.hpp"
#include "report/report.hpp"
#include "status/flight_record.hpp"

namespace ddprun::workers {

namespace {

constexpr std::size_t k_error_file_limit = std::size_t{16} << 20U;  // torch puts the traceback in whole

// Reads the last collective that ddprun's module in a worker has left at its end (keep_last_collective).
std::string read_last_collective(const std::string& prefix) {
  constexpr std::size_t k_record_limit = std::size_t{64} << 10U;
  if (prefix.empty()) return {};
  const auto text = os::try_read_file(prefix + ".record", k_record_limit);
  const auto collective = text ? status::parse_flight_record(*text, 0) : std::nullopt;
  return collective ? status::describe(*collective) : std::string();
}

// Orphans are our children too, so without children beyond the known ones there is nothing below us.
bool nothing_is_left(const std::vector<int>& known) {
  const std::vector<int> children = os::capture_children();
  return std::all_of(children.begin(), children.end(),
                     [&](int child) { return std::find(known.begin(), known.end(), child) != known.end(); });
}

// Returns the file of a program that was found on PATH, so that not every worker has to search again.
std::string found_program(const std::string& word, const facts::Snapshot& snapshot) {
  const auto found = snapshot.programs.find(word);
  const bool on_path = word.find('/') == std::string::npos && found != snapshot.programs.end();
  return on_path && found->second.kind == facts::ProgramKind::executable ? found->second.path : std::string();
}

}  // namespace

WorkerGroup::WorkerGroup(boost::asio::io_context& context, std::shared_ptr<const plan::NodeProposal> node,
                         const facts::Snapshot& snapshot, Ended ended)
    : context_(context),
      node_(std::move(node)),
      snapshot_(snapshot),
      ended_(std::move(ended)),
      agent_id_(os::make_random_id()),
      folder_places_(os::temp_dir_places(facts::find_variable(snapshot, "TMPDIR"), agent_id_)),
      reaper_(agent_id_, {.holding = rendezvous::k_killing, .folders = folder_places_, .host = node_->host}),
      folder_(folder_places_),
      outputs_(context, node_, snapshot),
      inherited_(os::capture_inherited_descriptors()),
      ignored_signals_(os::capture_ignored_signals(os::handled_signals())),
      open_files_(os::raise_open_files_limit()),
      binding_timer_(context) {
  if (lends_terminal(*node_)) terminal_ = os::Terminal::open_controlling();
  if (node_->options.restarts.standby.value) standbys_.emplace(context_, reaper_, helpers_);
}

// Reports whether a worker gets the terminal itself, as a single one on a terminal does; several share it
// through the pumps.
// Not into a |: there a program beside us may want the keys, and would be stopped for it together with us.
bool WorkerGroup::lends_terminal(const plan::NodeProposal& node) {
  if (node.options.several_programs) return false;
  return node.workers.value == 1 && os::is_terminal(STDIN_FILENO) && os::is_terminal(STDOUT_FILENO);
}

os::ChildGroup WorkerGroup::group_of_workers(const plan::NodeProposal& node) {
  const bool lends = lends_terminal(node) && os::Terminal::open_controlling();
  return lends ? os::ChildGroup::own_group : os::ChildGroup::own_session;
}

void WorkerGroup::begin_attempt(std::shared_ptr<const plan::LaunchPlan> plan, const std::string& interface,
                                const std::string& local_store) {
  plan_ = std::move(plan);
  const Attempt attempt = plan_->assignment.attempt;
  interface_ = interface;
  local_store_ = local_store;
  tell_foreign_proc();
  std::error_code ignored;  // without the folder a worker cannot leave an error file, and that is all
  std::filesystem::remove_all(attempt_folder(Attempt{attempt.value - 1}), ignored);
  os::make_private_folder(attempt_folder(attempt));
  begin_watchdog();
  begin_inspection(*plan_);
  begin_standbys();
  unseen_.clear();
  outputs_.begin_attempt(plan_);
  workers_.clear();
  for (std::size_t i = 0; i < plan_->planned.size(); ++i) {
    workers_.push_back(std::make_unique<Worker>());
  }
}

// Reports whether a user may be typing to this worker: at our terminal, or at that of the ddprun that started
// this one, whose keys reach rank 0.
bool WorkerGroup::is_typed_for(std::size_t worker) const {
  if (worker != 0) return false;
  return os::is_terminal(STDIN_FILENO) ||
         (plan_->assignment.workers[worker].rank.value == 0 && allocation::has_front_end_terminal(snapshot_));
}

std::string WorkerGroup::attempt_folder(Attempt attempt) const {
  return fmt::format("{}/attempt_{}", folder_.path(), attempt.value);
}

// Returns a file in a folder that only this attempt has: if it is there, it was touched in it.
std::string WorkerGroup::progress_file(std::size_t worker) const {
  return fmt::format("{}/progress_{}", attempt_folder(plan_->assignment.attempt), worker);
}

bool WorkerGroup::is_inspected(const plan::PlannedWorker& worker) const {
  return plan::is_inspected(node_->options, worker.command, snapshot_.environment);
}

void WorkerGroup::begin_inspection(const plan::LaunchPlan& plan) {
  const bool any =
      std::ranges::any_of(plan.planned, [this](const auto& worker) { return is_inspected(worker); });
  if (any && !inspection_) inspection_.emplace(folder_.path(), os::temp_dir_places(std::nullopt, agent_id_));
  if (!plan::asks_nccl_ras(*node_) || ras_keeper_ || snapshot_.environment.contains("NCCL_RAS_ADDR")) return;
  const net::BoundSocket kept = net::bind_port(0, 0);  // NCCL's processes bind it beside us
  ras_keeper_ = os::Fd(kept.descriptor);
  ras_port_ = kept.port;
}

std::string WorkerGroup::inspect_prefix(std::size_t worker) const { return inspect_prefix(*plan_, worker); }

std::string WorkerGroup::inspect_prefix(const plan::LaunchPlan& plan, std::size_t worker) const {
  if (!inspection_ || !is_inspected(plan.planned.at(worker))) return {};
  const Attempt attempt = plan.assignment.attempt;
  return inspection_->prefix(attempt_folder(attempt), attempt, worker);
}

bool WorkerGroup::made_progress() const {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    std::error_code ignored;
    if (std::filesystem::exists(progress_file(i), ignored)) return true;
  }
  return false;
}

WorkerStreams WorkerGroup::open_streams(std::size_t worker) {
  WorkerStreams streams;
  open_input(worker, streams);
  outputs_.open(worker, terminal_.has_value(), is_typed_for(worker), streams);
  return streams;
}

void WorkerGroup::open_input(std::size_t worker, WorkerStreams& streams) {
  if (worker != 0) {
    streams.input = streams.own(os::open_null());
  } else if (terminal_) {
    streams.terminal = terminal_->in_foreground() ? terminal_->descriptor() : -1;
  } else if (os::is_terminal(STDIN_FILENO)) {
    os::Pipe pipe = os::make_pipe();
    streams.input = streams.own(std::move(pipe.reader));
    if (!input_) input_.emplace(context_, STDIN_FILENO);
    input_->connect(std::move(pipe.writer));
  }
}

os::SpawnRequest WorkerGroup::make_request(const plan::LaunchPlan& plan, std::size_t worker,
                                           const WorkerStreams& streams,
                                           const std::string& error_file) const {
  const plan::WorkerContext context{worker,
                                    error_file,
                                    agent_id_,
                                    interface_,
                                    watchdog_ ? watchdog_->path() : std::string(),
                                    progress_file(worker),
                                    inspection_ ? inspection_->folder() : std::string(),
                                    inspect_prefix(plan, worker),
                                    outputs_.logs().flight_record(),
                                    ras_port_ > 0 ? fmt::format("127.0.0.1:{}", ras_port_) : std::string(),
                                    terminal_ ? 0 : os::terminal_columns(),
                                    local_store_};
  os::SpawnRequest request;
  const auto changes = plan::make_worker_changes(plan, snapshot_.environment, context);
  request.arguments = plan::command_to_start(plan, worker, changes, snapshot_.environment);
  request.program = staging::map_path(found_program(request.arguments.front(), snapshot_), plan.staged);
  request.environment = plan::make_environment_strings(plan::apply_changes(snapshot_.environment, changes));
  request.standard_input = streams.input;
  request.standard_output = streams.output;
  request.standard_error = streams.error;
  request.terminal = streams.terminal;
  request.group = terminal_ ? os::ChildGroup::own_group : os::ChildGroup::own_session;
  request.ignored_signals = ignored_signals_;
  request.open_files = open_files_;
  request.binding = plan.planned[worker].binding;
  if (!plan.binding.spare.empty()) request.unbound_cpus = snapshot_.host.allowed_cpus;  // we moved away
  request.hold = node_->options.show_binding;
  if (!node_->changes.empty()) request.close_descriptors = inherited_;
  return request;
}

std::optional<ExitStatus> WorkerGroup::try_start(std::size_t worker) {
  Worker& state = *workers_[worker];
  outputs_.logs().begin_attempt(plan_);
  state.error_file = outputs_.logs().error_file(plan_->assignment.workers[worker]);
  if (state.error_file.empty())
    state.error_file = fmt::format("{}/error_{}.json", attempt_folder(plan_->assignment.attempt), worker);
  const WorkerStreams streams = open_streams(worker);
  const os::SpawnRequest request = make_request(*plan_, worker, streams, state.error_file);
  if (!take_standby(worker, request)) {
    const bool notes = standbys_ && is_inspected(plan_->planned[worker]);
    auto result = os::spawn(notes ? standbys_->with_imports_noted(request) : request);
    if (const auto* failure = std::get_if<os::SpawnFailure>(&result)) return os::not_started(*failure);
    state.child = std::move(std::get<os::Child>(result));
    reaper_.watch(state.child->pid());
  }
  state.has_terminal = streams.terminal >= 0;
  hold_signals(state);
  expect_binding(worker);
  return std::nullopt;
}

bool WorkerGroup::start(std::size_t worker) {
  std::optional<ExitStatus> failure;
  try {
    failure = try_start(worker);
  } catch (const Error& error) {
    const std::string hint = error.hint().empty() ? "" : " (" + error.hint() + ")";
    failure = ExitStatus{ExitStatus::Kind::not_started, 0, StartStage::process, false, error.what() + hint};
  } catch (const std::exception& error) {
    failure = ExitStatus{ExitStatus::Kind::not_started, 0, StartStage::process, false, error.what()};
  }
  if (!failure) return true;
  workers_[worker]->ended = true;
  workers_[worker]->status = failure;
  ended_(worker, *failure);
  return false;
}

void WorkerGroup::note_end(std::size_t worker) {
  Worker& state = *workers_[worker];
  if (state.ended || !state.child) return;
  const auto status = state.child->ending();
  if (!status) return;
  state.ended = true;
  state.status = status;
  state.had_terminal = state.has_terminal;
  if (terminal_) terminal_->take_back(state.child->pid());
  ended_(worker, *status);
}

void WorkerGroup::signal(std::size_t worker, int number) {
  Worker& state = *workers_[worker];
  if (!state.ended && state.child) state.child->send_signal(number);
}

void WorkerGroup::kill_group(std::size_t worker) {
  Worker& state = *workers_[worker];
  if (!state.ended && state.child) state.child->send_signal_to_group(SIGKILL);
}

std::vector<int> WorkerGroup::main_processes() const {
  std::vector<int> known = os::running_helpers();
  known.insert(known.end(), helpers_.begin(), helpers_.end());
  known.push_back(reaper_.pid());
  for (const auto& worker : workers_) {
    if (worker->child) known.push_back(worker->child->pid());
  }
  return known;
}

std::size_t WorkerGroup::signal_descendants(int number) {
  if (!os::sees_own_processes()) return signal_groups(number);
  const std::vector<int> known = main_processes();
  os::reap_orphans(known);
  if (nothing_is_left(known)) return 0;
  if (number == SIGKILL) return os::kill_descendants(known);
  const os::ProcessTable below = os::find_descendants(os::capture_processes(), ::getpid(), known);
  for (const os::ProcessEntry& process : below) os::send_signal_to(process, number);
  return below.size();
}

std::size_t WorkerGroup::count_descendants() {
  if (!os::sees_own_processes()) return presumed_left_;
  const std::vector<int> known = main_processes();
  os::reap_orphans(known);
  if (nothing_is_left(known)) return 0;
  return os::find_descendants(os::capture_processes(), ::getpid(), known).size();
}

void WorkerGroup::end_attempt() {
  watchdog_.reset();
  if (!workers_.empty()) outputs_.logs().note_ended(index_entries());
  look_at_bindings();  // includes those that came and went
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    outputs_.close(i);
    const auto& worker = workers_[i];
    if (!worker->child) continue;
    reaper_.forget(worker->child->pid());
    worker->child->reap();
    worker->child.reset();
  }
  if (input_) input_->disconnect();
}

void WorkerGroup::abandon() {
  for (const auto& worker : workers_) {
    if (terminal_ && worker->child && !worker->ended) terminal_->take_back(worker->child->pid());
    worker->ended = true;
  }
  end_attempt();
}

void WorkerGroup::describe_failure(std::size_t worker, const ExitStatus& status,
                                   std::function<void(report::Failure)> handler) {
  const Worker& state = *workers_[worker];
  report::Failure failure;
  failure.attempt = plan_->assignment.attempt;
  failure.rank = plan_->assignment.workers[worker].rank;
  failure.local_rank = plan_->assignment.workers[worker].local_rank;
  failure.host = node_->host;
  failure.pid = state.child ? state.child->pid() : 0;
  failure.program = plan_->planned[worker].command.front();
  failure.status = status;
  failure.unix_milliseconds = os::unix_milliseconds();
  outputs_.when_known(
      worker, [this, worker, failure = std::move(failure), handler = std::move(handler)]() mutable {
        failure.message = read_error_file(*workers_[worker]);
        failure.last_lines = outputs_.last_lines(worker);
        for (std::string& line : crash_lines(worker, failure.status))
          failure.last_lines.push_back(std::move(line));
        failure.collective = read_last_collective(inspect_prefix(worker));
        failure.environment = describe_environment(worker);
        failure.log_file = workers_[worker]->child ? outputs_.kept_file(worker) : std::string();
        failure.hint = outputs_.hint_of_full_disk(worker);
        handler(std::move(failure));
      });
}

std::string WorkerGroup::read_error_file(const Worker& worker) const {
  const bool is_here = worker.error_file.starts_with(folder_.path());  // else it is with the log files
  const auto read = [&] { return os::try_read_file(worker.error_file, k_error_file_limit); };
  const auto text = is_here ? read() : os::try_file_system([&] { return read().value_or(""); });
  return text && !text->empty() ? report::parse_error_file(*text) : std::string();
}

// Looks at all of them at every SIGCHLD: one signal may stand for several, and while a tracer holds an ending
// back there is nothing to see before the SIGCHLD that comes when it lets go. A pidfd would report once, and
// too early.
void WorkerGroup::look_for_ends() {
  for (std::size_t i = 0; i < workers_.size(); ++i) note_end(i);
  if (standbys_) standbys_->look_for_ends();
  os::reap_orphans(main_processes());
}

void WorkerGroup::look_for_stops() {
  if (!terminal_) return;
  for (const auto& worker : workers_) {
    Worker& state = *worker;
    if (state.ended || !state.child) continue;
    const auto signal = state.child->take_stop();
    if (signal && !(*signal == SIGSTOP && state.stopped)) follow_stop(state, *signal);
  }
}

// Follows a worker that was stopped: ^Z was typed, or in the background it has used the terminal, which we
// may have got since: a shell's fg tells a job that runs nothing.
void WorkerGroup::follow_stop(Worker& worker, int signal) {
  const bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
  if (!wants_terminal || !terminal_->in_foreground()) {
    take_terminal(worker);
    if (os::can_be_continued()) return os::stop_own_group();  // and SIGCONT will come
  }
  lend_terminal(worker);
  worker.child->send_signal_to_group(SIGCONT);
}

void WorkerGroup::lend_terminal(Worker& worker) {
  if (!worker.has_terminal) worker.has_terminal = terminal_->give_to(worker.child->pid());
}

void WorkerGroup::take_terminal(Worker& worker) {
  terminal_->take_back(worker.child->pid());
  worker.has_terminal = false;
}

bool WorkerGroup::is_hung_up_with_worker() const {
  const bool lent =
      std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->has_terminal; });
  return lent && os::is_hung_up(terminal_->descriptor());
}

void WorkerGroup::stop_all() {
  for (const auto& worker : workers_) {
    if (worker->ended || !worker->child) continue;
    worker->stopped = node_->options.several_programs
                          ? worker->child->send_signal(SIGTSTP)  // it stops its programs
                          : worker->child->send_signal_to_group(SIGSTOP);
  }
}

void WorkerGroup::note_continued() {
  for (const auto& worker : workers_) {
    if (worker->ended || !worker->child) continue;
    if (terminal_) lend_terminal(*worker);
    worker->stopped = false;
  }
}

void WorkerGroup::continue_all() {
  for (const auto& worker : workers_) {
    if (!worker->ended && worker->child) worker->child->send_signal_to_group(SIGCONT);
  }
}

int WorkerGroup::pid(std::size_t worker) const {
  return workers_[worker]->child ? workers_[worker]->child->pid() : 0;
}

// Dismisses the reaper: both would remove the folder then, and wait for each other in the kernel.
void WorkerGroup::dismiss_reaper() {
  folder_.remove();
  reaper_.dismiss();
}

}  // namespace ddprun::workers
