#include "workers/standbys.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "os/atomic_file.hpp"
#include "os/clock.hpp"
#include "os/private_files.hpp"
#include "os/process/serving_child.hpp"
#include "os/system_failure.hpp"
#include "workers/inspection.hpp"

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

namespace {

using boost::system::error_code;

constexpr Milliseconds k_command_limit{200};
constexpr std::string_view k_path = "PYTHONPATH=", k_inspection = "DDPRUN_INSPECT=";
constexpr std::size_t k_longest_line = 8192;

std::string zero_ended(const std::vector<std::string>& strings) {
  std::string text;
  for (const std::string& each : strings) text.append(each).push_back('\0');
  return text;
}

os::Child start(os::SpawnRequest request, int input, const std::string& folder) {
  request.environment = environment_of_hook(request.environment, Hook::stands_by, folder);
  request.standard_input = input;
  request.terminal = -1;
  auto started = os::spawn(request);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&started))
    throw os::system_failure("cannot start a standby interpreter", failure->error);
  return std::move(std::get<os::Child>(started));
}

}  // namespace

// Returns the worker's environment with the hook's folder first; inspection of a worker waits until a standby
// interpreter is one.
std::vector<std::string> environment_of_hook(const std::vector<std::string>& worker, Hook hook,
                                             const std::string& folder) {
  std::vector<std::string> environment;
  std::string path;
  for (const std::string& each : worker) {
    if (each.starts_with(k_path)) {
      path = each.substr(k_path.size());
    } else if (hook == Hook::notes || !each.starts_with(k_inspection)) {
      environment.push_back(each);
    }
  }
  environment.push_back((hook == Hook::notes ? "DDPRUN_IMPORTS=" : "DDPRUN_STANDBY=") + path);
  environment.push_back(std::string(k_path) + folder + (path.empty() ? "" : ":" + path));
  return environment;
}

StandbyPython::StandbyPython(boost::asio::io_context& context, os::SpawnRequest worker,
                             const std::string& folder, OnNews on_news)
    : started_as_(std::move(worker)), on_news_(std::move(on_news)), socket_(context) {
  os::SocketPair sockets = os::make_socket_pair();
  child_ = start(started_as_, sockets.theirs.get(), folder);
  socket_.assign(sockets.ours.release());
  read();
}

void StandbyPython::kill() {
  alive_.reset();
  if (child_) child_->send_signal(SIGKILL);
}

void StandbyPython::import(const std::string& modules, const std::vector<std::string>& left_out) {
  ready_ = false;
  const std::string command = fmt::format("leave-out {}\nimport {}\n", join(left_out, ","), modules);
  os::send_whole(socket_.native_handle(), command, {}, os::now() + k_command_limit);
}

void StandbyPython::read() {
  socket_.async_read_some(boost::asio::buffer(buffer_),
                          [this, alive = std::weak_ptr(alive_)](const error_code& error, std::size_t size) {
                            if (alive.expired() || error == boost::asio::error::operation_aborted) return;
                            text_.append(buffer_.data(), size);
                            if (error || text_.size() > k_longest_line)
                              return tell(Unfit{"", "it has ended"});
                            const std::size_t end = text_.find('\n');
                            if (end == std::string::npos) return read();
                            const std::string line = text_.substr(0, end);
                            text_.erase(0, end + 1);
                            note_line(line);
                          });
}

void StandbyPython::note_line(std::string_view line) {
  if (line.starts_with("ready")) {
    ready_ = true;
    read();
    return tell(Ready{});
  }
  const auto words = split(std::string(line), ' ');
  if (words.size() < 3 || words[0] != "unfit")
    return tell(Unfit{"", "it sent an unexpected line: " + printable(line)});
  const std::size_t reason = words[0].size() + words[1].size() + 2;
  tell(Unfit{words[1] == "-" ? "" : words[1], printable(line.substr(reason), 400)});
}

void StandbyPython::tell(const News& news) {
  const OnNews on_news = on_news_;  // the handler may destroy this
  on_news(news);
}

// Returns the difference that keeps it from becoming this worker: it can adopt another environment and other
// streams, nothing else.
std::string StandbyPython::why_other(const os::SpawnRequest& worker) const {
  if (worker.arguments != started_as_.arguments) return "the command has changed";
  if (worker.binding != started_as_.binding) return "the binding has changed";
  os::SpawnRequest alike = worker;
  alike.environment = started_as_.environment;
  alike.standard_input = started_as_.standard_input;
  alike.standard_output = started_as_.standard_output;
  alike.standard_error = started_as_.standard_error;
  alike.terminal = started_as_.terminal;
  return alike == started_as_ ? "" : "the start of the worker has changed";
}

std::variant<os::Child, std::string> StandbyPython::become(const os::SpawnRequest& worker,
                                                           TimePoint deadline) {
  if (!ready_) return "its imports were not finished";
  ready_ = false;
  if (std::string why = why_other(worker); !why.empty()) return why;
  alive_.reset();
  const os::Fd socket(socket_.release());
  const std::string environment = zero_ended(worker.environment);
  const std::vector<int> streams{worker.standard_input, worker.standard_output, worker.standard_error};
  const bool sent =
      os::send_whole(socket.get(), fmt::format("go {}\n", environment.size()), streams, deadline) &&
      os::send_whole(socket.get(), environment, {}, deadline);
  const auto answer = sent ? os::receive_line(socket.get(), deadline) : std::nullopt;
  if (answer == "gone") {
    os::Child child = std::move(*child_);
    child_.reset();
    return child;
  }
  constexpr std::string_view k_unfit = "unfit - ";
  if (answer && answer->starts_with(k_unfit)) return printable(answer->substr(k_unfit.size()), 400);
  return "it did not answer";
}

}  // namespace ddprun::workers
