#include "ddprun/os/process/reaper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "ddprun/base/error.hpp"
#include "ddprun/facts/schedulers.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/process/child.hpp"
#include "ddprun/os/process/process_table.hpp"
#include "ddprun/os/read_file.hpp"
#include "ddprun/os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr const char* k_reaper_name = "ddprun-reaper";
constexpr char k_watch = 'w', k_forget = 'f', k_file = 'm', k_all_is_well = 'x';
// A process asleep in the kernel survives SIGKILL for as long as it likes.
constexpr int k_rounds = 250;
constexpr auto k_between_rounds = std::chrono::milliseconds(20);
constexpr std::size_t k_environment_limit = std::size_t{4} << 20;

struct Message {
  char what;
  int leader;  // of a file: how many bytes follow, its path and its text with a NUL between
};

std::string read_environment(int pid) {
  const Fd file(::open(fmt::format("/proc/{}/environ", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 16384> chunk;
  while (file && text.size() < k_environment_limit) {
    const ssize_t length = ::read(file.get(), chunk.data(), chunk.size());
    if (length <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(length));
  }
  return text;
}

std::optional<std::string> find_entry(const std::string& environment, const std::string& name) {
  const std::string start = '\0' + name + '=';
  const std::string entries = '\0' + environment;
  const std::size_t at = entries.find(start);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t value = at + start.size();
  return entries.substr(value, entries.find('\0', value) - value);
}

// A job that a worker has submitted has its environment, and its own number.
bool is_of_another_job(const std::string& environment, const std::string& ours) {
  return std::any_of(facts::k_schedulers.begin(), facts::k_schedulers.end(),
                     [&](const facts::SchedulerTraits& scheduler) {
                       const std::string name(scheduler.job_variable);
                       const auto theirs = find_entry(environment, name);
                       return theirs && theirs != find_entry(ours, name);
                     });
}

// A reaper of a launch inside ours carries our marker; it has its own to clean up and ends by itself.
bool may_kill(const ProcessEntry& process) {
  return process.state != 'Z' && process.pid != ::getpid() && process.name != k_reaper_name;
}

// By numbers that were given to us, since those in this /proc are other processes'. A leader that has ended
// just now keeps its group's number as long as there is somebody in it.
void kill_groups(const std::vector<int>& leaders) {
  for (const int leader : leaders) ::kill(-leader, SIGKILL);
}

void remove_folders(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
}

std::string read_file_message(int reader, int length) {
  std::string message(static_cast<std::size_t>(length), '\0');
  const ssize_t got = ::read(reader, message.data(), message.size());  // it was written in one piece
  return got == static_cast<ssize_t>(message.size()) ? message : std::string();
}

void remove_if_unchanged(const std::string& message) {
  const std::size_t middle = message.find('\0');
  if (middle == std::string::npos) return;
  const std::string path = message.substr(0, middle);
  if (try_read_file(path, message.size()) == message.substr(middle + 1)) ::unlink(path.c_str());
}

// True when nothing was left to kill.
bool kill_round(const std::vector<int>& leaders, const std::string& agent_id) {
  const std::string ours = read_environment(::getpid());
  const ProcessTable table = capture_processes();
  std::vector<int> roots = leaders;
  for (const ProcessEntry& process : table) {
    const std::string environment = read_environment(process.pid);
    if (find_entry(environment, k_agent_variable) == agent_id && !is_of_another_job(environment, ours))
      roots.push_back(process.pid);
  }
  bool none = true;
  for (const ProcessEntry& process : find_families(table, roots)) {
    if (may_kill(process) && send_signal_to(process, SIGKILL)) none = false;
  }
  return none;
}

// SIGTERM to the groups of what is watched, and some time to end.
void ask_to_end(const std::vector<int>& leaders, Milliseconds mercy) {
  const auto deadline = std::chrono::steady_clock::now() + mercy;
  for (const int leader : leaders) ::kill(-leader, SIGTERM);
  const auto any_left = [&] {
    for (const int leader : leaders) {
      if (::kill(-leader, 0) == 0) return true;
    }
    return false;
  };
  while (any_left() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(k_between_rounds);
}

// The workers first, before anything is looked for: others may start in their place.
void kill_what_is_left(const std::vector<int>& leaders, const std::string& agent_id) {
  kill_groups(leaders);
  if (!sees_own_processes()) return;
  for (int round = 0; round < k_rounds && !kill_round(leaders, agent_id); ++round) {
    std::this_thread::sleep_for(k_between_rounds);
  }
}

[[noreturn]] void keep(int reader, const std::string& agent_id, Milliseconds mercy,
                       const std::vector<std::string>& folders) noexcept {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, k_reaper_name, 0, 0, 0);
  ::setsid();
  reader = close_all_but(reader);
  if (::chdir("/") != 0) ::_exit(k_exit_own_failure);

  std::vector<int> leaders;
  Message message;
  std::string file;
  bool all_is_well = false;
  while (!all_is_well && ::read(reader, &message, sizeof message) == sizeof message) {
    if (message.what == k_all_is_well) all_is_well = true;
    if (message.what == k_watch) leaders.push_back(message.leader);
    if (message.what == k_forget) std::erase(leaders, message.leader);
    if (message.what == k_file) file = read_file_message(reader, message.leader);
  }
  if (!all_is_well) {
    if (mercy > Milliseconds{0}) ask_to_end(leaders, mercy);
    kill_what_is_left(leaders, agent_id);
  }
  remove_folders(folders);
  remove_if_unchanged(file);
  ::_exit(0);
}

}  // namespace

std::string make_random_id() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw system_failure("cannot get random bytes", errno);
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

Reaper::Reaper(const std::string& agent_id, Milliseconds mercy, const std::vector<std::string>& folders) {
  Pipe pipe = make_pipe();
  // Should it ever be stopped, we are not.
  ::fcntl(pipe.writer.get(), F_SETFL, O_NONBLOCK);
  pid_ = ::fork();
  if (pid_ < 0) throw system_failure("cannot start the reaper process", errno);
  if (pid_ == 0) keep(pipe.reader.get(), agent_id, mercy, folders);
  writer_ = std::move(pipe.writer);
}

void Reaper::tell(char what, int leader) {
  Message message{};
  message.what = what;
  message.leader = leader;
  // Should the reaper be gone, all goes on without it.
  [[maybe_unused]] const ssize_t written = ::write(writer_.get(), &message, sizeof message);
}

void Reaper::watch(int leader) { tell(k_watch, leader); }

void Reaper::forget(int leader) { tell(k_forget, leader); }

void Reaper::remove_at_end(const std::string& path, const std::string& text) {
  const std::string file = path + '\0' + text;
  Message message{};
  message.what = k_file;
  message.leader = static_cast<int>(file.size());
  std::string bytes(sizeof message, '\0');
  std::memcpy(bytes.data(), &message, sizeof message);
  bytes += file;
  if (bytes.size() > PIPE_BUF) return;  // else it might be written in two pieces
  [[maybe_unused]] const ssize_t written = ::write(writer_.get(), bytes.data(), bytes.size());
}

void Reaper::dismiss() {
  tell(k_all_is_well, 0);
  writer_.close();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!reap(pid_) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace ddprun::os
