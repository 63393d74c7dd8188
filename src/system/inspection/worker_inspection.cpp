#include "inspection/worker_inspection.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "facts/proc_text.hpp"
#include "inspection/worker_questions.hpp"
#include "os/clock.hpp"
#include "os/machine/capture_network.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"
#include "status/flight_record.hpp"
#include "status/module_answer.hpp"
#include "status/native_stack.hpp"

namespace ddprun::inspection {

namespace {

constexpr Milliseconds k_ras_limit{1300};  // RAS waits a second for processes that do not answer
constexpr Milliseconds k_worker_limit{700}, k_dump_limit{300}, k_dump_look{20};
constexpr std::size_t k_largest_dump = std::size_t{256} << 10;
constexpr const char* k_record = "fr_trace_json?includestacktraces=false";
constexpr const char* k_nccl_record = "dump_nccl_trace_json?includestacktraces=false";
constexpr int k_dump_signal_offset = 3;  // SIGRTMIN+3, for which the module registers faulthandler

// Reports whether the process has a handler for the signal, which would end it otherwise.
bool catches(int pid, int signal) {
  const std::string path = fmt::format("/proc/{}/status", pid);
  return facts::has_signal(os::try_read_file(path).value_or(""), "SigCgt:", signal);
}

struct Dump {
  status::WorkerStatus* worker;
  status::Collected* collected;
  std::string path;
  std::size_t size = 0;
};

// Has the workers dump their stacks by a signal. The handler writes while another thread may hold the
// interpreter and never let go of it. A text that has not grown from one look to the next is whole.
void dump_by_signal(std::vector<Dump> dumps) {
  const int signal = SIGRTMIN + k_dump_signal_offset;
  std::erase_if(dumps, [signal](const Dump& dump) {
    const auto process = os::capture_process(dump.worker->pid);
    const bool asked = process && process->state != 'T' && catches(process->pid, signal) &&
                       ::truncate(dump.path.c_str(), 0) == 0 && send_signal_to(*process, signal);
    return !asked;
  });
  const TimePoint deadline = os::now() + k_dump_limit;
  while (!dumps.empty() && os::now() < deadline) {
    std::this_thread::sleep_for(k_dump_look);
    std::erase_if(dumps, [](Dump& dump) {
      const std::string text = os::try_read_file(dump.path, k_largest_dump).value_or("");
      const bool whole = !text.empty() && text.size() == std::exchange(dump.size, text.size());
      if (!whole || !status::add_stack_dump(dump.worker->view, text)) return false;
      dump.collected->dump = text;
      return true;
    });
  }
}

// Describes an unusual state of the process; for one without a stack, any state.
std::string describe_process(const status::WorkerStatus& worker) {
  const facts::StuckProcess process = os::capture_stuck_process(worker.pid);
  const std::string where = process.wait_channel.empty() ? "" : " in " + process.wait_channel;
  // An agent may trace its worker itself, to hold signals (os/process/signals.hpp): then T is shown
  // as t.
  const auto entry = os::capture_process(worker.pid);
  const bool by_agent = entry && process.tracer == entry->parent;
  if (process.tracer != 0 && !by_agent)
    return fmt::format("traced by {} (pid {})", process.tracer_name, process.tracer);
  if (process.state == 'T' || process.state == 't') return "stopped by a signal (state T)";
  if (process.state == 'D') return "in uninterruptible sleep (state D)" + where;
  if (!worker.view.stack.empty() || worker.view.ending) return {};
  return process.state == 'R' ? "running" : "sleeping" + where;
}

// Reports whether the process is stopped. A request would wait until it continues, and might then meet an
// interpreter that ends, which it would abort.
bool is_stopped(int pid) {
  const auto process = os::capture_process(pid);
  return process && (process->state == 'T' || process->state == 't');
}

bool has_module(const std::string& door) {
  const auto exists = [&](const char* end) { return ::access((door + end).c_str(), F_OK) == 0; };
  return !door.empty() && (exists(".socket") || exists(".ending") || exists(".stacks"));
}

// Reports whether its script is over: then a rank's server has another name, and nothing that needs the
// interpreter is asked any more.
bool is_ending(const std::string& door) {
  return ::access((door + ".socket").c_str(), F_OK) != 0 && ::access((door + ".ending").c_str(), F_OK) == 0;
}

void add_stacks(std::vector<status::WorkerStatus>& workers, const std::vector<std::string>& doors,
                const std::vector<std::size_t>& asked, const std::vector<SocketQuestion>& questions,
                std::vector<status::Collected>& collected) {
  std::vector<Dump> dumps;
  std::vector<bool> told(workers.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto body = body_of(questions[i]);
    told[asked[i]] = body && status::add_module_answer(workers[asked[i]].view, *body);
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

// Adds NCCL's counts of the ranks whose collectives torch's server does not show.
void add_ras_counts(std::vector<status::WorkerStatus>& workers, std::string_view answer) {
  const auto own = os::capture_addresses();
  const auto is_here = [&own](const status::RasProcess& process) {
    return std::ranges::any_of(own, [&](const auto& each) { return each.address == process.host; });
  };
  for (const status::RasProcess& process : status::parse_ras_answer(answer)) {
    if (!is_here(process)) continue;
    for (status::WorkerStatus& worker : workers) {
      if (worker.pid == process.pid && !worker.view.answers) worker.view.nccl = process.counts;
    }
  }
}

// Questions of one look at all workers that have doors.
struct Questions {
  std::vector<std::size_t> asked;  // workers; the others by these
  std::vector<SocketQuestion> records, modules;
  std::vector<bool> of_nccl_alone;  // records
  std::optional<SocketQuestion> ras;
};

Questions make_questions(std::vector<status::WorkerStatus>& workers, const std::vector<std::string>& doors,
                         int ras_port, bool stacks) {
  Questions questions;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].pid == 0 || doors[i].empty()) continue;
    questions.asked.push_back(i);
    const bool ending = workers[i].view.ending = is_ending(doors[i]);
    const bool stopped = is_stopped(workers[i].pid);
    const std::string door = stopped ? "" : doors[i] + (ending ? ".ending" : ".socket");
    questions.records.push_back(post(door, k_record));
    questions.of_nccl_alone.push_back(false);
    if (stacks) questions.modules.push_back(post(ending ? "" : door, "ddprun"));
  }
  // All processes of the job take part in its answer: it is not asked at each look of each host without need.
  if (ras_port != 0 && (stacks || std::ranges::none_of(questions.records, &SocketQuestion::is_open)))
    questions.ras.emplace(connect_to_local_port(ras_port), std::string(status::k_ras_request));
  return questions;
}

// Asks torch 2.8 and 2.9 for the recorder of NCCL alone, which they serve.
void ask_again(Questions& questions, const std::vector<std::string>& doors) {
  std::vector<SocketQuestion*> again;
  for (std::size_t i = 0; i < questions.asked.size(); ++i) {
    SocketQuestion& record = questions.records[i];
    if (!record.answer().value_or("").starts_with("HTTP/1.1 404")) continue;
    record = post(doors[questions.asked[i]] + ".socket", k_nccl_record);
    questions.of_nccl_alone[i] = true;
    again.push_back(&record);
  }
  if (!again.empty()) ask_all(again, k_worker_limit);
}

void ask(Questions& questions, const std::vector<std::string>& doors) {
  std::vector<SocketQuestion*> all;
  for (auto* const each : {&questions.records, &questions.modules}) {
    for (SocketQuestion& question : *each) all.push_back(&question);
  }
  if (questions.ras) all.push_back(&*questions.ras);
  ask_all(all, k_worker_limit);
  ask_again(questions, doors);
  if (questions.ras) ask_all({&*questions.ras}, k_ras_limit - k_worker_limit);
}

}  // namespace

std::vector<status::Collected> inspect_workers(std::vector<status::WorkerStatus>& workers,
                                               const InspectionDoors& places, bool stacks) {
  std::vector<status::Collected> collected(workers.size());
  std::vector<std::string> doors = places.workers;
  doors.resize(workers.size());
  Questions questions = make_questions(workers, doors, places.ras_port, stacks);
  ask(questions, doors);
  for (std::size_t i = 0; i < questions.asked.size(); ++i) {
    const std::size_t worker = questions.asked[i];
    const auto body = body_of(questions.records[i]);
    if (!body) continue;
    status::RankView& view = workers[worker].view;
    view.collective = status::parse_flight_record(*body, os::unix_milliseconds() * 1'000'000);
    // An empty record of NCCL's says nothing of a rank that uses another backend.
    view.answers = view.collective || !questions.of_nccl_alone[i];
    if (stacks) collected[worker].record = *body;
  }
  if (questions.ras && questions.ras->answer()) {
    add_ras_counts(workers, *questions.ras->answer());
    const auto first = std::ranges::find_if(workers, [](const auto& worker) { return worker.pid != 0; });
    if (stacks && first != workers.end())
      collected[static_cast<std::size_t>(first - workers.begin())].ras = *questions.ras->answer();
  }
  if (stacks) add_stacks(workers, doors, questions.asked, questions.modules, collected);
  return collected;
}

}  // namespace ddprun::inspection
