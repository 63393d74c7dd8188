#include "agent/node_look.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "check/gpu_release.hpp"
#include "check/record_fields.hpp"
#include "console/console.hpp"
#include "inspection/nvml_health.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/process_table.hpp"
#include "probes/node_record.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_patience{3000};     // for a folder that may hang
constexpr Milliseconds k_look_limit{10000};  // a look without an answer then finds nothing
constexpr Milliseconds k_memory_pause{200};
constexpr std::size_t k_most = std::size_t{1} << 20;  // bytes of a record

}  // namespace

void NodeLook::begin(const rendezvous::Stop& stop, bool failed_here) {
  command_.begin(stop, failed_here);
  if (!stop.again || !before_ || busy_) return;
  busy_ = true;
  finding_.reset();
  doubts_.clear();
  release_until_.reset();
  used_ = memory_of_workers();
  look();
}

// Returns what is known of it for certain: what they hold, and the node has less of than before, since each
// counts what they share. A worker that has ended is not among them.
std::uint64_t NodeLook::memory_of_workers() const {
  std::uint64_t pages = 0;
  for (std::size_t i = 0; i < plans_.attempt->planned.size(); ++i) {
    if (const auto process = os::capture_process(workers_.pid(i))) pages += process->resident_pages;
  }
  const std::uint64_t free = os::free_memory().value_or(before_->free_memory);
  return std::min(pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
                  before_->free_memory - std::min(free, before_->free_memory));
}

void NodeLook::ask(const std::function<std::string()>& question, const char* purpose, Note then) {
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_, os::AnsweringChild(question, purpose), k_most, k_look_limit,
        [this, then](const std::string& answer, bool) { (this->*then)(answer); });
  } catch (const Error& error) {
    console::say_detail(error.what());
    settle({});
  }
}

void NodeLook::look() {
  probes::CheckedNode checked;
  checked.workers = plans_.node->local_world_size;
  checked.log_folder = plans_.node->options.output.logs.value;
  checked.quick = checked.again = true;
  checked.patience = k_patience;
  ask([checked, this] { return check::render_json_text(probes::make_node_record(checked, snapshot_)); },
      "look at this node", &NodeLook::note);
}

void NodeLook::note(const std::string& answer) {
  query_.reset();
  std::vector<check::Finding> faults;
  try {
    if (!answer.empty())
      faults = check::find_faults(*before_, check::parse_json_text<check::HostRecord>(answer));
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
  if (faults.empty()) return look_at_memory();
  if (doubts_.empty()) {
    doubts_ = std::move(faults);
    return look();
  }
  const auto again = std::ranges::find_if(faults, [this](const check::Finding& each) {
    return std::ranges::find(doubts_, each.subject, &check::Finding::subject) != doubts_.end();
  });
  if (again == faults.end()) return look_at_memory();
  settle(*again);
}

std::vector<int> NodeLook::standby_processes() const {
  std::vector<int> pids;
  const workers::Standbys* const standbys = workers_.standbys();
  for (std::size_t i = 0; standbys != nullptr && i < plans_.attempt->planned.size(); ++i) {
    if (const int pid = standbys->pid(i); pid > 0) pids.push_back(pid);
  }
  return pids;
}

// Once the workers have ended: they hold it until then.
void NodeLook::look_at_memory() {
  if (!busy_ || !release_until_) return;
  if (plans_.node->options.check.release_timeout == Milliseconds{0}) return settle({});
  if (check::whole_gpus(snapshot_.host, plans_.attempt->planned).empty()) return note_memory({});
  ask([] { return check::render_json_text(inspection::capture_gpu_memory()); },
      "look at the memory of the GPUs", &NodeLook::note_memory);
}

void NodeLook::note_memory(const std::string& answer) {
  query_.reset();
  std::vector<check::GpuMemory> held;
  try {
    if (!answer.empty())
      held = check::find_held(check::parse_json_text<std::vector<check::GpuMemory>>(answer),
                              check::whole_gpus(snapshot_.host, plans_.attempt->planned), standby_processes(),
                              *before_);
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
  auto finding = check::judge_memory(plans_.node->host, used_, os::free_memory().value_or(used_));
  if (held.empty() && !finding) return settle({});
  if (!held.empty())
    finding = check::describe_held(held, plans_.node->host, plans_.node->options.check.release_timeout);
  if (os::now() >= *release_until_) return settle(finding);
  net::call_after(timer_, k_memory_pause, [this] { look_at_memory(); });
}

void NodeLook::settle(std::optional<check::Finding> finding) {
  busy_ = false;
  finding_ = std::move(finding);
  if (const auto done = std::exchange(done_, nullptr)) tell(done);
}

void NodeLook::tell(const std::function<void(const rendezvous::Unfit&)>& done) {
  command_.when_known([this, own = std::exchange(finding_, std::nullopt), done](const auto& other) {
    const auto& found = own ? own : other;
    if (found) console::say_notice(probes::exclude_node(*plans_.node));
    done(found ? rendezvous::Unfit{check::reason_of(*found), found->fix, found->mark != check::Mark::error}
               : rendezvous::Unfit{});
  });
}

void NodeLook::when_known(std::function<void(const rendezvous::Unfit&)> done) {
  if (!busy_) return tell(done);
  done_ = std::move(done);
  release_until_ = os::now() + plans_.node->options.check.release_timeout;
  if (!query_) look_at_memory();
}

void NodeLook::give_up() {
  command_.give_up();
  if (!busy_) return;
  timer_.cancel();
  query_.reset();
  settle({});
}

void NodeLook::end() {
  command_.end();
  done_ = nullptr;
  finding_.reset();
  busy_ = false;
  timer_.cancel();
  query_.reset();
}

}  // namespace ddprun::agent
