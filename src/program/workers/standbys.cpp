#include "workers/standbys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "console/log.hpp"
#include "os/atomic_file.hpp"
#include "os/clock.hpp"
#include "os/private_files.hpp"
#include "os/system_failure.hpp"
#include "workers/inspection_module.hpp"

namespace ddprun::workers {

namespace {

constexpr Milliseconds k_end_limit{1000}, k_end_look{1};

void write_hook(const std::string& folder) {
  if (const int error = os::make_private_folder(folder); error != 0)
    throw os::system_failure("cannot create the folder " + folder, error);
  os::write_file(folder + "/sitecustomize.py", k_standby_module);
  os::write_file(folder + "/imports.py", k_imports_module);
}

}  // namespace

void Standbys::begin(const std::string& folder) {
  if (!folder_.empty()) return;
  try {
    write_hook(folder);
    folder_ = folder;
  } catch (const Error& error) {
    console::say_detail(std::string("no standby interpreters: ") + error.what());
  }
}

os::SpawnRequest Standbys::with_imports_noted(os::SpawnRequest request) const {
  if (!folder_.empty()) request.environment = environment_of_hook(request.environment, Hook::notes, folder_);
  return request;
}

void Standbys::start(std::size_t worker, const os::SpawnRequest& request) {
  if (folder_.empty()) throw Error("what Python imports at its start could not be written");
  drop(worker);
  auto started = std::make_unique<StandbyPython>(
      context_, request, folder_, [this, worker](const StandbyPython::News& news) { note(worker, news); });
  reaper_.watch(started->pid());
  helpers_.push_back(started->pid());
  waiting_[worker] = std::move(started);
  why_none_[worker] = "its imports were not finished";
}

void Standbys::import(std::size_t worker, const std::vector<std::string>& modules,
                      const std::vector<std::string>& left_out) {
  const auto found = waiting_.find(worker);
  if (found == waiting_.end()) return;
  const std::string path = fmt::format("{}/modules_{}.json", folder_, worker);
  os::write_file(path, nlohmann::json(modules).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  found->second->import(path, left_out);
}

void Standbys::note(std::size_t worker, const StandbyPython::News& news) {
  if (const auto* unfit = std::get_if<StandbyPython::Unfit>(&news)) {
    why_none_[worker] =
        unfit->package.empty() ? unfit->reason : fmt::format("{} {}", unfit->package, unfit->reason);
    drop(worker);
  }
  on_news_(worker, news);
}

std::variant<os::Child, std::string> Standbys::take(std::size_t worker, const os::SpawnRequest& request,
                                                    TimePoint deadline) {
  const auto found = waiting_.find(worker);
  if (found == waiting_.end()) {
    const auto why = why_none_.find(worker);
    return why == why_none_.end() ? "none was prepared" : why->second;
  }
  const int pid = found->second->pid();
  auto taken = found->second->become(request, deadline);
  why_none_[worker] = "none was prepared";
  if (std::holds_alternative<std::string>(taken)) {
    drop(worker);
  } else {
    std::erase(helpers_, pid);
    waiting_.erase(found);
  }
  return taken;
}

void Standbys::drop(std::size_t worker) {
  const auto found = waiting_.find(worker);
  if (found == waiting_.end()) return;
  reaper_.forget(found->second->pid());
  found->second->kill();
  ending_.push_back(std::move(found->second));
  waiting_.erase(found);
}

void Standbys::drop_from(std::size_t worker) {
  while (!waiting_.empty() && waiting_.rbegin()->first >= worker) drop(waiting_.rbegin()->first);
}

int Standbys::pid(std::size_t worker) const {
  const auto found = waiting_.find(worker);
  return found == waiting_.end() ? 0 : found->second->pid();
}

bool Standbys::is_ready(std::size_t worker) const {
  const auto found = waiting_.find(worker);
  return found != waiting_.end() && found->second->ready();
}

void Standbys::look_for_ends() {
  std::erase_if(ending_, [this](const std::unique_ptr<StandbyPython>& each) {
    const int pid = each->pid();
    if (!each->reap()) return false;
    std::erase(helpers_, pid);
    return true;
  });
}

void Standbys::end() {
  drop_from(0);
  const TimePoint deadline = os::now() + k_end_limit;
  for (look_for_ends(); !ending_.empty() && os::now() < deadline; look_for_ends())
    std::this_thread::sleep_for(k_end_look);
}

}  // namespace ddprun::workers
