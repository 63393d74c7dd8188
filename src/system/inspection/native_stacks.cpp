#include "inspection/native_stacks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/become.hpp"
#include "os/process/process_table.hpp"
#include "os/process/spawn.hpp"
#include "os/read_file.hpp"
#include "status/native_stack.hpp"

namespace ddprun::inspection {

namespace {

constexpr std::size_t k_largest_output = std::size_t{1} << 20;
constexpr Milliseconds k_leave_limit{100}, k_kill_limit{300}, k_kill_look{2}, k_look{10};

struct Tool {
  status::StackTool kind;
  std::string program;
};

std::optional<std::string> find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
    const std::string file = folder + "/" + name;
    if (folder.starts_with('/') && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

std::vector<Tool> find_tools() {
  std::vector<Tool> tools;
  for (const status::StackTool kind : status::k_stack_tools) {
    if (auto program = find_in_path(status::name_of(kind))) tools.push_back({kind, std::move(*program)});
  }
  return tools;
}

// Returns the environment without the servers from which symbols would be loaded, over the network.
std::vector<std::string> tool_environment() {
  std::vector<std::string> environment = os::capture_environment_strings();
  std::erase_if(environment, [](const std::string& each) { return each.starts_with("DEBUGINFOD_URLS="); });
  return environment;
}

// Reports whether the process is stopped, or will be once a thread of it sees the SIGSTOP by which it was to
// be traced.
bool is_stopping(int pid) {
  const auto process = os::capture_process(pid);
  if (process && (process->state == 'T' || process->state == 't')) return true;
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  return std::ranges::any_of(os::list_folder(tasks), [&](const std::string& task) {
    const std::string status = os::try_read_file(tasks + "/" + task + "/status").value_or("");
    return facts::has_signal(status, "SigPnd:", SIGSTOP) || facts::has_signal(status, "ShdPnd:", SIGSTOP);
  });
}

// Run of one tool at one process.
class TracedRank {
 public:
  // `process`: as it is before.
  TracedRank(const Tool& tool, std::size_t worker, const os::ProcessEntry& process)
      : tool_(tool), worker_(worker), process_(process) {
    const os::Fd null = os::open_null();
    os::Pipe pipe = os::make_pipe();
    os::SpawnRequest request;
    request.arguments = status::stack_command(tool.kind, tool.program, process.pid);
    request.environment = tool_environment();
    request.standard_input = null.get();
    request.standard_output = pipe.writer.get();
    request.standard_error = null.get();
    auto result = spawn(request);
    if (auto* const child = std::get_if<os::Child>(&result)) {
      child_.emplace(std::move(*child));
      answer_ = std::move(pipe.reader);
    }
  }
  ~TracedRank() { end(); }
  TracedRank(const TracedRank&) = delete;
  TracedRank& operator=(const TracedRank&) = delete;

  const Tool& tool() const { return tool_; }
  std::size_t worker() const { return worker_; }
  int pid() const { return process_.pid; }
  const std::string& text() const { return text_; }
  int descriptor() const { return answer_.get(); }
  bool is_over() const { return !answer_; }
  void read() {
    std::array<char, 16384> buffer;
    const ssize_t length = ::read(answer_.get(), buffer.data(), buffer.size());
    if (length < 0 && errno == EINTR) return;
    if (length > 0) text_.append(buffer.data(), static_cast<std::size_t>(length));
    if (length <= 0 || text_.size() > k_largest_output) answer_.close();
  }

  // Notes whether another sender than the tool has stopped it: the tool's hold is another state (t).
  void look_at_process() {
    const auto process = os::capture_process(process_.pid);
    stopped_by_others_ = stopped_by_others_ || (process && process->state == 'T');
  }

  // Lets the process continue once the tool is gone. A tool that was killed may have left it stopped, or
  // about to be.
  void end() {
    if (!child_) return;
    look_at_process();
    const TimePoint began = os::now();
    while (!child_->reap() && os::now() < began + k_kill_limit) {
      if (!is_over() || os::now() > began + k_leave_limit) child_->send_signal_to_group(SIGKILL);
      std::this_thread::sleep_for(k_kill_look);
    }
    const auto ending = child_->ending();
    const bool left_early = !ending || ending->kind == ExitStatus::Kind::signalled;
    if (left_early && !stopped_by_others_ && is_stopping(process_.pid)) send_signal_to(process_, SIGCONT);
    child_.reset();
  }

 private:
  const Tool& tool_;
  std::size_t worker_;
  os::ProcessEntry process_;
  std::optional<os::Child> child_;
  os::Fd answer_;
  std::string text_;
  bool stopped_by_others_ = false;
};

// Reports whether it may be traced: others are stopped or traced already, or would hold the tool up until the
// kernel lets go of them.
bool may_be_traced(const status::WorkerStatus& worker) {
  const facts::StuckProcess process = os::capture_stuck_process(worker.pid);
  return process.tracer == 0 && (process.state == 'S' || process.state == 'R');
}

// Returns the workers to look at; those that wait for others in a collective come last.
std::vector<std::size_t> choose(const std::vector<status::WorkerStatus>& workers) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].pid != 0 && workers[i].view.stack.empty()) chosen.push_back(i);
  }
  std::ranges::stable_sort(chosen, {}, [&](std::size_t each) {
    const auto& collective = workers[each].view.collective;
    return collective && collective->pending;
  });
  chosen.resize(std::min(chosen.size(), k_most_traced));
  std::erase_if(chosen, [&](std::size_t each) { return !may_be_traced(workers[each]); });
  return chosen;
}

void read_ready(const std::vector<std::unique_ptr<TracedRank>>& running, TimePoint deadline) {
  if (std::ranges::any_of(running, [](const auto& each) { return each->is_over(); })) return;
  std::vector<pollfd> polled;
  for (const auto& each : running) {
    each->look_at_process();
    polled.push_back({each->descriptor(), POLLIN, 0});
  }
  const auto left =
      std::clamp(std::chrono::duration_cast<Milliseconds>(deadline - os::now()), Milliseconds{0}, k_look);
  if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) <= 0) return;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (polled[i].revents != 0) running[i]->read();
  }
}

class Round {
 public:
  Round(std::vector<status::WorkerStatus>& workers, std::vector<status::Collected>& collected)
      : workers_(workers), collected_(collected), tools_(find_tools()) {
    if (tools_.empty()) return;
    for (const std::size_t worker : choose(workers)) waiting_.emplace_back(worker, 0);
  }

  void run(TimePoint deadline) {
    while (os::now() < deadline) {
      while (!waiting_.empty() && running_.size() < k_traced_at_once) start();
      if (running_.empty()) return;
      read_ready(running_, deadline);
      std::erase_if(running_, [this](const auto& each) {
        if (each->is_over()) conclude(*each);
        return each->is_over();
      });
    }
    for (const auto& each : running_) conclude(*each);
    running_.clear();
  }

 private:
  void start() {
    const auto [worker, tool] = waiting_.front();
    waiting_.pop_front();
    if (const auto process = os::capture_process(workers_[worker].pid))
      running_.push_back(std::make_unique<TracedRank>(tools_[tool], worker, *process));
  }
  void conclude(TracedRank& rank) {
    rank.end();
    status::WorkerStatus& worker = workers_[rank.worker()];
    if (status::add_tool_answer(worker.view, rank.tool().kind, rank.pid(), rank.text())) {
      collected_[rank.worker()].native = rank.text();
      collected_[rank.worker()].native_tool = status::name_of(rank.tool().kind);
      return;
    }
    const auto next = static_cast<std::size_t>(&rank.tool() - tools_.data()) + 1;
    if (next < tools_.size()) waiting_.emplace_front(rank.worker(), next);
  }

  std::vector<status::WorkerStatus>& workers_;
  std::vector<status::Collected>& collected_;
  std::vector<Tool> tools_;
  std::deque<std::pair<std::size_t, std::size_t>> waiting_;  // workers, and the tool to ask
  std::vector<std::unique_ptr<TracedRank>> running_;
};

}  // namespace

void add_native_stacks(std::vector<status::WorkerStatus>& workers, std::vector<status::Collected>& collected,
                       TimePoint deadline) {
  try {
    Round(workers, collected).run(deadline);
  } catch (const Error&) {
    return;  // no descriptors are left
  }
}

}  // namespace ddprun::inspection
