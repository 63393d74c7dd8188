#include "agent/standby_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "console/console.hpp"
#include "facts/proc_text.hpp"
#include "inspection/worker_questions.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/machine/capture_processors.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_modules_limit{2000};
constexpr std::size_t k_cpus_each = 8;  // CPUs of the host for each interpreter that imports

std::size_t at_once(const facts::HostFacts& host) {
  return std::max<std::size_t>(host.allowed_cpus.size() / k_cpus_each, 1);
}

}  // namespace

StandbyKeeper::StandbyKeeper(boost::asio::io_context& context, const Plans& plans, plan::LaunchPlan expected,
                             const facts::HostFacts& host, workers::WorkerGroup& workers, Tell tell)
    : context_(context),
      plans_(plans),
      expected_(std::move(expected)),
      workers_(workers),
      tell_(std::move(tell)),
      plan_(at_once(host)),
      timer_(context) {
  expected_.staged.clear();  // unknown before the copies are made
}

void StandbyKeeper::begin_attempt() {
  end_attempt();
  if (workers_.standbys() == nullptr) return;
  told_ = 0;  // the coordinator may be another
  begin(plans_.attempt->assignment.workers.size());
  if (!modules_.empty()) wait_for_look();
}

void StandbyKeeper::begin(std::size_t workers) {
  workers_.standbys()->when_told(
      [this](std::size_t worker, const workers::StandbyPython::News& news) { note_news(worker, news); });
  modules_.resize(workers);
  plan_.begin_attempt(workers, os::now());
  for (std::size_t i = plans_.node->options.restarts.standbys; i < workers; ++i) plan_.give_up(i);
}

void StandbyKeeper::note(const rendezvous::Modules& modules) {
  if (workers_.standbys() == nullptr || expected_.planned.empty()) return;
  begin(expected_.planned.size());
  modules_.assign(modules_.size(), modules.names);
  const std::vector<std::size_t> counts(modules_.size(), modules.names.size());
  for (int looks = 0; looks < 2; ++looks) plan_.note_modules(counts);  // equal counts settle them
  prepare();
}

// Announces the modules of one node's workers, which stand for all.
void StandbyKeeper::tell_others() {
  const bool tells =
      options::outlives_nodes(plans_.node->options) && plans_.attempt->assignment.node.value == 0;
  if (!tells || !plan_.is_settled(0) || modules_.front().size() <= told_) return;
  told_ = modules_.front().size();
  tell_(rendezvous::Modules{modules_.front()});
}

void StandbyKeeper::note_start(std::size_t worker) {
  if (const workers::Standbys* const standbys = workers_.standbys(); standbys && standbys->pid(worker) == 0)
    plan_.note_taken(worker);
}

void StandbyKeeper::end_attempt() {
  timer_.cancel();
  query_.reset();
}

void StandbyKeeper::end() {
  end_attempt();
  if (workers::Standbys* const standbys = workers_.standbys()) standbys->end();
}

void StandbyKeeper::wait_for_look() {
  net::call_at(timer_, plan_.next_look(os::now()), [this] { look(); });
}

void StandbyKeeper::look() {
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_, inspection::capture_modules_in_child(workers_.places().doors.workers),
        inspection::k_most_modules_text, k_modules_limit, [this](const std::string& answer, bool) {
          query_.reset();
          note_modules(inspection::parse_modules(answer));
          wait_for_look();
        });
  } catch (const Error& error) {
    console::say_detail(error.what());
    wait_for_look();
  }
}

void StandbyKeeper::note_modules(const std::vector<std::vector<std::string>>& modules) {
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < modules.size() && i < modules_.size(); ++i) {
    counts.push_back(modules[i].size());
    if (modules[i].size() > modules_[i].size()) modules_[i] = modules[i];
  }
  plan_.note_modules(counts);
  for (const std::size_t worker : plan_.overdue(os::now())) {
    give_up(worker,
            "its imports took longer than " + describe_duration(lifecycle::StandbyPlan::k_longest_import));
  }
  tell_others();
  prepare();
}

void StandbyKeeper::prepare() {
  for (const lifecycle::StandbyPlan::Prepare& due : plan_.take_due(os::now())) prepare(due);
}

void StandbyKeeper::prepare(const lifecycle::StandbyPlan::Prepare& due) {
  try {
    if (due.anew) {
      if (!has_memory(due.worker)) return;
      workers_.start_standby(due.worker, expected_);
    }
    workers_.standbys()->import(due.worker, modules_[due.worker], plan_.left_out());
  } catch (const Error& error) {
    give_up(due.worker, error.what());
  }
}

// Reports whether an interpreter fits into free memory, with as much again left to the workers; gives it up
// if not.
bool StandbyKeeper::has_memory(std::size_t worker) {
  const std::uint64_t wanted = 2 * plans_.node->options.restarts.standby_memory.value;
  const auto free = os::free_memory();
  if (!free || *free >= wanted) return true;
  give_up(worker, fmt::format("only {} of memory are free", facts::describe_bytes(*free)));
  return false;
}

void StandbyKeeper::give_up(std::size_t worker, const std::string& why) {
  workers_.standbys()->drop(worker);
  workers_.standbys()->note_why_none(worker, why);
  tell_end(worker, why);
  plan_.give_up(worker);
}

void StandbyKeeper::tell_end(std::size_t worker, const std::string& why) const {
  console::say_detail(
      fmt::format("standby interpreter for local rank {} on {} ends: {}", worker, plans_.node->host, why));
}

void StandbyKeeper::note_news(std::size_t worker, const workers::StandbyPython::News& news) {
  if (const auto* unfit = std::get_if<workers::StandbyPython::Unfit>(&news)) {
    tell_end(worker, unfit->package.empty() ? unfit->reason : unfit->package + " " + unfit->reason);
    plan_.note_unfit(worker, unfit->package);
  } else {
    note_ready(worker);
  }
  prepare();
}

void StandbyKeeper::note_ready(std::size_t worker) {
  const auto used = os::memory_of(workers_.standbys()->pid(worker)).value_or(0);
  const std::uint64_t limit = plans_.node->options.restarts.standby_memory.value;
  if (used > limit) {
    const std::string why = fmt::format("it uses {}, more than --standby-memory ({})",
                                        facts::describe_bytes(used), facts::describe_bytes(limit));
    return give_up(worker, why);
  }
  console::say_detail(fmt::format("standby interpreter for local rank {} on {} is ready: {} modules, {}",
                                  worker, plans_.node->host, modules_[worker].size(),
                                  facts::describe_bytes(used)));
  plan_.note_ready(worker);
}

}  // namespace ddprun::agent
