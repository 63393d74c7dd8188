#include "os/capture/worker_inspection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "facts/proc_text.hpp"
#include "inspect/flight_record.hpp"
#include "inspect/module_answer.hpp"
#include "inspect/stack_dump.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "os/process/process_table.hpp"
#include "os/process/stuck_process.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_worker_limit{700}, k_dump_limit{300}, k_dump_look{20};
constexpr std::size_t k_largest_answer = std::size_t{8} << 20;
constexpr std::size_t k_largest_dump = std::size_t{256} << 10;
constexpr int k_dump_signal_offset = 3;  // SIGRTMIN+3, for which the module registers faulthandler

// One POST to a worker's server, whose answer ends with the connection.
class Question {
 public:
  Question(const std::string& socket_path, std::string_view handler)
      : request_(fmt::format("POST /handler/{} HTTP/1.1\r\nHost: worker\r\nContent-Length: 0\r\n"
                             "Connection: close\r\n\r\n",
                             handler)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket_path.size() >= sizeof address.sun_path) return;
    std::ranges::copy(socket_path, address.sun_path);
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto size = static_cast<socklen_t>(sizeof address);
    if (socket && ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0)
      socket_ = std::move(socket);
  }

  bool is_open() const { return static_cast<bool>(socket_); }
  pollfd polled() const {
    return {socket_.get(), static_cast<short>(sent_ < request_.size() ? POLLOUT : POLLIN), 0};
  }
  void go_on() {
    if (sent_ < request_.size()) return send();
    std::array<char, 65536> buffer;
    const ssize_t length = ::read(socket_.get(), buffer.data(), buffer.size());
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (length > 0) answer_.append(buffer.data(), static_cast<std::size_t>(length));
    whole_ = length == 0;
    if (length <= 0 || answer_.size() > k_largest_answer) socket_ = Fd();
  }
  // What stands behind the head of an answer that is whole and good.
  std::optional<std::string_view> body() const {
    const std::string_view answer = answer_;
    const std::size_t head = answer.find("\r\n\r\n");
    if (!whole_ || head == std::string_view::npos) return std::nullopt;
    if (!answer.starts_with("HTTP/1.1 200") && !answer.starts_with("HTTP/1.0 200")) return std::nullopt;
    return answer.substr(head + 4);
  }

 private:
  void send() {
    const ssize_t length =
        ::send(socket_.get(), request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL);
    if (length >= 0) sent_ += static_cast<std::size_t>(length);
    if (length < 0 && errno != EAGAIN && errno != EINTR) socket_ = Fd();
  }

  std::string request_;
  std::size_t sent_ = 0;
  Fd socket_;
  std::string answer_;
  bool whole_ = false;
};

void ask_all(const std::vector<Question*>& questions) {
  const TimePoint deadline = now() + k_worker_limit;
  while (true) {
    std::vector<pollfd> polled;
    std::vector<Question*> open;
    for (Question* const question : questions) {
      if (!question->is_open()) continue;
      polled.push_back(question->polled());
      open.push_back(question);
    }
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - now()).count();
    if (open.empty() || left <= 0) return;
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (polled[i].revents != 0) open[i]->go_on();
    }
  }
}

// Without a handler the signal would end it.
bool catches(int pid, int signal) {
  const std::string path = fmt::format("/proc/{}/status", pid);
  return facts::has_signal(try_read_file(path).value_or(""), "SigCgt:", signal);
}

struct Dump {
  status::WorkerStatus* worker;
  inspect::Collected* collected;
  std::string path;
  std::size_t size = 0;
};

// The handler writes while the interpreter may be held by somebody who never lets go of it. A text that has
// not grown from one look to the next is whole.
void dump_by_signal(std::vector<Dump> dumps) {
  const int signal = SIGRTMIN + k_dump_signal_offset;
  std::erase_if(dumps, [signal](const Dump& dump) {
    const auto process = capture_process(dump.worker->pid);
    const bool asked = process && process->state != 'T' && catches(process->pid, signal) &&
                       ::truncate(dump.path.c_str(), 0) == 0 && send_signal_to(*process, signal);
    return !asked;
  });
  const TimePoint deadline = now() + k_dump_limit;
  while (!dumps.empty() && now() < deadline) {
    std::this_thread::sleep_for(k_dump_look);
    std::erase_if(dumps, [](Dump& dump) {
      const std::string text = try_read_file(dump.path, k_largest_dump).value_or("");
      const bool whole = !text.empty() && text.size() == std::exchange(dump.size, text.size());
      if (!whole || !inspect::add_stack_dump(dump.worker->view, text)) return false;
      dump.collected->dump = text;
      return true;
    });
  }
}

// What is unusual; where there is no stack, all that is known.
std::string describe_process(const status::WorkerStatus& worker) {
  const supervise::StuckProcess process = capture_stuck_process(worker.pid);
  const std::string where = process.wait_channel.empty() ? "" : " in " + process.wait_channel;
  // Its agent may trace it itself, to hold signals (os/process/held_signals.hpp): then T is shown as t.
  const auto entry = capture_process(worker.pid);
  const bool by_agent = entry && process.tracer == entry->parent;
  if (process.tracer != 0 && !by_agent)
    return fmt::format("traced by {} (pid {})", process.tracer_name, process.tracer);
  if (process.state == 'T' || process.state == 't') return "stopped by a signal (state T)";
  if (process.state == 'D') return "in uninterruptible sleep (state D)" + where;
  if (!worker.view.stack.empty() || worker.view.ending) return {};
  return process.state == 'R' ? "running" : "sleeping" + where;
}

// A request would wait until it goes on, and might then meet an interpreter that ends, which it would abort.
bool is_stopped(int pid) {
  const auto process = capture_process(pid);
  return process && (process->state == 'T' || process->state == 't');
}

bool has_module(const std::string& door) {
  const auto exists = [&](const char* end) { return ::access((door + end).c_str(), F_OK) == 0; };
  return !door.empty() && (exists(".socket") || exists(".ending") || exists(".stacks"));
}

// Once its script is over a rank's server has another name, and what needs the interpreter is not asked any
// more.
bool is_ending(const std::string& door) {
  return ::access((door + ".socket").c_str(), F_OK) != 0 && ::access((door + ".ending").c_str(), F_OK) == 0;
}

void add_stacks(std::vector<status::WorkerStatus>& workers, const std::vector<std::string>& doors,
                const std::vector<std::size_t>& asked, const std::vector<Question>& questions,
                std::vector<inspect::Collected>& collected) {
  std::vector<Dump> dumps;
  std::vector<bool> told(workers.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto body = questions[i].body();
    told[asked[i]] = body && inspect::add_module_answer(workers[asked[i]].view, *body);
    if (told[asked[i]]) collected[asked[i]].module = *body;
  }
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].pid != 0 && !doors[i].empty() && !told[i])
      dumps.push_back({&workers[i], &collected[i], doors[i] + ".stacks"});
  }
  dump_by_signal(std::move(dumps));
  for (std::size_t i = 0; i < workers.size(); ++i) {
    status::WorkerStatus& worker = workers[i];
    if (worker.pid == 0) continue;
    if (worker.view.stack.empty() && !worker.view.ending)
      worker.view.unseen = has_module(doors[i]) ? "the interpreter does not answer" : "not inspected";
    worker.view.process = describe_process(worker);
  }
}

}  // namespace

std::vector<inspect::Collected> inspect_workers(std::vector<status::WorkerStatus>& workers,
                                                const std::vector<std::string>& places, bool stacks) {
  std::vector<inspect::Collected> collected(workers.size());
  std::vector<std::string> doors = places;
  doors.resize(workers.size());
  std::vector<std::size_t> asked;
  std::vector<Question> records, modules;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].pid == 0 || doors[i].empty()) continue;
    asked.push_back(i);
    const bool ending = workers[i].view.ending = is_ending(doors[i]);
    records.emplace_back(doors[i] + (ending ? ".ending" : ".socket"),
                         "fr_trace_json?includestacktraces=false");
    const bool may_ask = !ending && !is_stopped(workers[i].pid);
    if (stacks) modules.emplace_back(doors[i] + (may_ask ? ".socket" : ""), "ddprun");
  }
  std::vector<Question*> all;
  for (auto* const questions : {&records, &modules}) {
    for (Question& question : *questions) all.push_back(&question);
  }
  ask_all(all);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto body = records[i].body();
    inspect::RankView& view = workers[asked[i]].view;
    view.answers = body.has_value();
    if (!body) continue;
    view.collective = inspect::parse_flight_record(*body, unix_milliseconds() * 1'000'000);
    if (stacks) collected[asked[i]].record = *body;
  }
  if (stacks) add_stacks(workers, doors, asked, modules, collected);
  return collected;
}

}  // namespace ddprun::os
