#include "ddprun/app/worker_group.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <utility>

#include "ddprun/base/error.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/process_table.hpp"
#include "ddprun/os/read_file.hpp"
#include "ddprun/os/signals.hpp"
#include "ddprun/plan/worker_env.hpp"
#include "ddprun/supervise/error_file.hpp"
#include "ddprun/supervise/known_failures.hpp"

namespace ddprun {

namespace {

using boost::system::error_code;

// How long a worker's pipes are read after its end when a process it left behind keeps them open.
constexpr Milliseconds k_pipe_grace{250};
constexpr std::size_t k_error_file_limit = std::size_t{1} << 20U;
constexpr std::size_t k_reported_lines = 20;

Fd open_null() { return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

std::int64_t unix_milliseconds() {
  return std::chrono::duration_cast<Milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Orphans are our children too, so without children beyond the known ones there is nothing below us.
bool nothing_is_left(const std::vector<int>& known) {
  const std::vector<int> children = capture_children();
  return std::all_of(children.begin(), children.end(),
                     [&](int child) { return std::find(known.begin(), known.end(), child) != known.end(); });
}

// The file of a program that was found on PATH, so that not every worker has to search again.
std::string found_program(const std::string& word, const Snapshot& snapshot) {
  const auto found = snapshot.programs.find(word);
  const bool on_path = word.find('/') == std::string::npos && found != snapshot.programs.end();
  return on_path && found->second.kind == ProgramKind::executable ? found->second.path : std::string();
}

}  // namespace

struct WorkerGroup::Streams {
  int input = 0;
  int output = 1;
  int error = 2;
  int terminal = -1;
  std::vector<Fd> owned;  // closed once the worker has them
};

WorkerGroup::WorkerGroup(boost::asio::io_context& context, const NodePlan& plan, const Snapshot& snapshot,
                         Ended ended)
    : context_(context),
      plan_(plan),
      snapshot_(snapshot),
      ended_(std::move(ended)),
      launch_id_(make_launch_id()),
      keeper_(launch_id_),
      folder_(find_variable(snapshot, "TMPDIR")),
      output_(context, STDOUT_FILENO),
      error_(same_file(STDOUT_FILENO, STDERR_FILENO) ? output_
                                                     : separate_error_.emplace(context, STDERR_FILENO)),
      inherited_(capture_inherited_descriptors()),
      ignored_signals_(capture_ignored_signals(handled_signals())),
      open_files_(raise_open_files_limit()),
      binding_timer_(context) {
  if (lends_terminal()) terminal_ = Terminal::open_controlling();
}

// One worker on a terminal gets the terminal itself; several share it through the pumps.
bool WorkerGroup::lends_terminal() const { return plan_.workers.value == 1 && is_terminal(STDIN_FILENO); }

void WorkerGroup::begin_attempt(const Assignment& assignment, const std::string& interface) {
  assignment_ = assignment;
  interface_ = interface;
  std::error_code ignored;  // without the folder a worker cannot leave an error file, and that is all
  std::filesystem::create_directory(fmt::format("{}/attempt_{}", folder_.path(), assignment.attempt.value),
                                    ignored);
  unseen_.clear();
  workers_.clear();
  for (std::size_t i = 0; i < assignment.seats.size(); ++i) {
    workers_.push_back(std::make_unique<Worker>(context_));
  }
}

WorkerGroup::Streams WorkerGroup::open_streams(std::size_t worker) {
  Streams streams;
  const bool first = worker == 0;
  const auto own = [&](Fd descriptor) {
    streams.owned.push_back(std::move(descriptor));
    return streams.owned.back().get();
  };
  if (!first) {
    streams.input = own(open_null());
  } else if (terminal_) {
    streams.terminal = terminal_->in_foreground() ? terminal_->descriptor() : -1;
  } else if (is_terminal(STDIN_FILENO)) {
    Pipe pipe = make_pipe();
    streams.input = own(std::move(pipe.reader));
    input_.emplace(context_, STDIN_FILENO, std::move(pipe.writer));
  }
  Worker& state = *workers_[worker];
  const auto pump_through = [&](OutputPump& pump, std::optional<StreamId>& stream) {
    Pipe pipe = make_pipe();
    stream = pump.add(std::move(pipe.reader), first && input_.has_value());
    return own(std::move(pipe.writer));
  };
  if (!terminal_ || !is_terminal(STDOUT_FILENO)) streams.output = pump_through(output_, state.output);
  if (!terminal_ || !is_terminal(STDERR_FILENO)) streams.error = pump_through(error_, state.error);
  return streams;
}

SpawnRequest WorkerGroup::make_request(std::size_t worker, const Streams& streams) const {
  const WorkerContext context{worker, workers_[worker]->error_file, launch_id_, interface_};
  SpawnRequest request;
  request.arguments = plan_.planned[worker].command;
  request.program = found_program(request.arguments.front(), snapshot_);
  request.environment = make_environment_strings(apply_changes(
      snapshot_.environment, make_worker_changes(plan_, assignment_, snapshot_.environment, context)));
  request.standard_input = streams.input;
  request.standard_output = streams.output;
  request.standard_error = streams.error;
  request.terminal = streams.terminal;
  request.group = terminal_ ? ChildGroup::own_group : ChildGroup::own_session;
  request.ignored_signals = ignored_signals_;
  request.open_files = open_files_;
  request.binding = plan_.planned[worker].binding;
  if (!plan_.binding.spare.empty()) request.unbound_cpus = snapshot_.host.allowed_cpus;  // we moved away
  request.hold = plan_.options.show_binding;
  if (!plan_.changes.empty()) request.close_descriptors = inherited_;
  return request;
}

std::optional<ExitStatus> WorkerGroup::try_start(std::size_t worker) {
  Worker& state = *workers_[worker];
  state.error_file =
      fmt::format("{}/attempt_{}/error_{}.json", folder_.path(), assignment_.attempt.value, worker);
  const Streams streams = open_streams(worker);
  auto result = spawn(make_request(worker, streams));
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) return not_started(*failure);
  state.child = std::move(std::get<Child>(result));
  keeper_.watch(state.child->pid());
  watch(worker);
  expect_binding(worker);
  return std::nullopt;
}

bool WorkerGroup::start(std::size_t worker) {
  std::optional<ExitStatus> failure;
  try {
    failure = try_start(worker);
  } catch (const Error& error) {
    const std::string hint = error.hint().empty() ? "" : " (" + error.hint() + ")";
    failure = ExitStatus{ExitStatus::Kind::not_started, 0, error.what() + hint, false};
  } catch (const std::exception& error) {
    failure = ExitStatus{ExitStatus::Kind::not_started, 0, error.what(), false};
  }
  if (!failure) return true;
  workers_[worker]->ended = true;
  ended_(worker, *failure);
  return false;
}

void WorkerGroup::watch(std::size_t worker) {
  Worker& state = *workers_[worker];
  Fd descriptor = state.child->pidfd() ? duplicate(state.child->pidfd().get()) : Fd();
  if (!descriptor) return;  // an old kernel, or no descriptor left
  error_code error;
  state.watch.assign(descriptor.get(), error);
  if (error) return;
  [[maybe_unused]] const int taken = descriptor.release();
  state.watched = true;
  state.watch.async_wait(boost::asio::posix::descriptor_base::wait_read,
                         [this, worker, attempt = assignment_.attempt](const error_code& failed) {
                           if (!failed && attempt == assignment_.attempt) note_end(worker);
                         });
}

void WorkerGroup::note_end(std::size_t worker) {
  Worker& state = *workers_[worker];
  if (state.ended || !state.child) return;
  const auto status = state.child->ending();
  if (!status) return;
  state.ended = true;
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
  std::vector<int> known{keeper_.pid()};
  for (const auto& worker : workers_) {
    if (worker->child) known.push_back(worker->child->pid());
  }
  return known;
}

std::size_t WorkerGroup::signal_descendants(int number) {
  const std::vector<int> known = main_processes();
  reap_orphans(known);
  if (nothing_is_left(known)) return 0;
  if (number == SIGKILL) return kill_descendants(known);
  const ProcessTable below = find_descendants(capture_processes(), ::getpid(), known);
  for (const ProcessEntry& process : below) send_signal_to(process, number);
  return below.size();
}

std::size_t WorkerGroup::count_descendants() {
  const std::vector<int> known = main_processes();
  reap_orphans(known);
  if (nothing_is_left(known)) return 0;
  return find_descendants(capture_processes(), ::getpid(), known).size();
}

void WorkerGroup::end_attempt() {
  look_at_bindings();  // of those that came and went meanwhile
  for (const auto& worker : workers_) {
    // What keeps a pipe open now is no process of ours any more.
    if (worker->output && !worker->described) output_.finish(*worker->output, k_pipe_grace, [] {});
    if (worker->error && !worker->described) error_.finish(*worker->error, k_pipe_grace, [] {});
    if (!worker->child) continue;
    keeper_.forget(worker->child->pid());
    worker->watch.close();
    worker->child->reap();
    worker->child.reset();
  }
  input_.reset();
}

void WorkerGroup::describe_failure(std::size_t worker, const ExitStatus& status,
                                   std::function<void(Failure)> handler) {
  Worker& state = *workers_[worker];
  state.described = true;
  Failure failure;
  failure.attempt = assignment_.attempt;
  failure.rank = assignment_.seats[worker].rank;
  failure.local_rank = assignment_.seats[worker].local_rank;
  failure.host = plan_.host;
  failure.pid = state.child ? state.child->pid() : 0;
  failure.program = plan_.planned[worker].command.front();
  failure.status = status;
  failure.unix_milliseconds = unix_milliseconds();
  auto read = [this, worker, failure = std::move(failure), handler = std::move(handler)]() mutable {
    failure.message = read_error_file(*workers_[worker]);
    failure.last_lines = last_lines(*workers_[worker]);
    failure.hint = find_failure_hint(failure, assignment_.world_size);
    handler(std::move(failure));
  };
  auto then_error = [this, error = state.error, read = std::move(read)]() mutable {
    error ? error_.finish(*error, k_pipe_grace, read) : read();
  };
  state.output ? output_.finish(*state.output, k_pipe_grace, then_error)
               : boost::asio::post(context_, then_error);
}

std::string WorkerGroup::read_error_file(const Worker& worker) const {
  const auto text = try_read_file(worker.error_file, k_error_file_limit);
  return text ? parse_error_file(*text) : std::string();
}

std::vector<std::string> WorkerGroup::last_lines(const Worker& worker) const {
  std::vector<std::string> lines;
  if (worker.error) lines = error_.last_lines(*worker.error);
  if (lines.empty() && worker.output) lines = output_.last_lines(*worker.output);
  if (lines.size() > k_reported_lines) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(k_reported_lines));
  }
  return lines;
}

void WorkerGroup::look_for_stops() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& state = *workers_[i];
    if (state.ended || !state.child) continue;
    if (!state.watched) note_end(i);
    if (!terminal_ || state.ended || !state.child->take_stop()) continue;
    const int group = state.child->pid();
    terminal_->take_back(group);
    stop_own_group();
    if (terminal_->in_foreground()) terminal_->give_to(group);
    state.child->send_signal_to_group(SIGCONT);
  }
}

void WorkerGroup::continue_all() {
  for (const auto& worker : workers_) {
    if (!worker->ended && worker->child) worker->child->send_signal_to_group(SIGCONT);
  }
}

void WorkerGroup::when_drained(Milliseconds limit, std::function<void()> handler) {
  output_.when_drained(limit, [this, limit, handler = std::move(handler)](bool) {
    error_.when_drained(limit, [handler](bool) { handler(); });
  });
}

void WorkerGroup::dismiss_keeper() { keeper_.dismiss(); }

}  // namespace ddprun
