#include "agent/node_look.hpp"

#include <algorithm>
#include <utility>

#include "check/gpu_release.hpp"
#include "check/record_fields.hpp"
#include "console/log.hpp"
#include "net/timers.hpp"
#include "os/capture/gpu_holders.hpp"
#include "os/clock.hpp"
#include "probes/node_record.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_patience{3000};  // for a folder that may hang
constexpr Milliseconds k_look_limit{5000};
constexpr Milliseconds k_memory_pause{500};
constexpr std::size_t k_most = std::size_t{1} << 20;  // bytes of a record

}  // namespace

void NodeLook::begin() {
  if (!before_ || busy_) return;
  busy_ = true;
  finding_.reset();
  doubts_.clear();
  release_until_.reset();
  look();
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
  checked.quick = true;
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
  settle_unfit(*again);
}

// Returns NVIDIA's alone, without those that are divided (MIG): another part may be another job's.
std::vector<std::string> NodeLook::gpus_of_workers() const {
  std::vector<std::string> addresses;
  for (const plan::PlannedWorker& worker : plans_.attempt->planned) {
    for (const int index : worker.gpus) {
      const facts::Gpu& gpu = snapshot_.host.gpus.at(static_cast<std::size_t>(index));
      if (gpu.vendor == "nvidia" && gpu.mig.empty()) addresses.push_back(gpu.pci_address);
    }
  }
  return addresses;
}

std::vector<int> NodeLook::standby_processes() const {
  std::vector<int> pids;
  const workers::Standbys* const standbys = workers_.standbys();
  for (std::size_t i = 0; standbys != nullptr && i < plans_.attempt->planned.size(); ++i) {
    if (const int pid = standbys->pid(i); pid > 0) pids.push_back(pid);
  }
  return pids;
}

void NodeLook::look_at_memory() {
  if (!busy_) return;
  if (plans_.node->options.check.release_timeout == Milliseconds{0} || gpus_of_workers().empty())
    return settle({});
  ask([] { return check::render_json_text(os::capture_gpu_memory()); }, "look at the memory of the GPUs",
      &NodeLook::note_memory);
}

void NodeLook::note_memory(const std::string& answer) {
  query_.reset();
  std::vector<check::GpuMemory> held;
  try {
    if (!answer.empty())
      held = check::find_held(check::parse_json_text<std::vector<check::GpuMemory>>(answer),
                              gpus_of_workers(), standby_processes(), *before_);
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
  if (held.empty()) return settle({});
  if (release_until_ && os::now() >= *release_until_)
    return settle_unfit(
        check::describe_held(held, plans_.node->host, plans_.node->options.check.release_timeout));
  net::call_after(timer_, k_memory_pause, [this] { look_at_memory(); });
}

void NodeLook::settle_unfit(const check::Finding& finding) {
  console::say_notice(probes::exclude_node(*plans_.node));
  settle(finding);
}

void NodeLook::settle(std::optional<check::Finding> finding) {
  busy_ = false;
  finding_ = std::move(finding);
  if (const auto done = std::exchange(done_, nullptr)) done(finding_);
}

void NodeLook::when_known(std::function<void(const std::optional<check::Finding>&)> done) {
  if (!busy_) return done(std::exchange(finding_, std::nullopt));
  done_ = std::move(done);
  release_until_ = os::now() + plans_.node->options.check.release_timeout;
}

void NodeLook::give_up() {
  if (!busy_) return;
  timer_.cancel();
  query_.reset();
  settle({});
}

void NodeLook::end() {
  done_ = nullptr;
  finding_.reset();
  busy_ = false;
  timer_.cancel();
  query_.reset();
}

}  // namespace ddprun::agent
