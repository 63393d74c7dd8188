#include "os/process/reaper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/schedulers.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr const char* k_reaper_name = "ddprun-reaper";
constexpr char k_watch = 'w', k_forget = 'f', k_link = 'l', k_unlink = 'u', k_output = 'o', k_no_output = 'p',
               k_file = 'm', k_all_is_well = 'x';
constexpr int k_parent_ended = SIGUSR1;
// A process asleep in the kernel survives SIGKILL for as long as it likes.
constexpr Milliseconds k_killing{5000};
constexpr Milliseconds k_pause{20};
constexpr std::size_t k_environment_limit = std::size_t{4} << 20;

struct Message {
  char what;
  int leader;  // for a file: length of the path and the text that follow, with a NUL between
};

std::string read_environment(int pid) {
  return read_head(fmt::format("/proc/{}/environ", pid), k_environment_limit);
}

std::optional<std::string> find_entry(const std::string& environment, const std::string& name) {
  const std::string start = '\0' + name + '=';
  const std::string entries = '\0' + environment;
  const std::size_t at = entries.find(start);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t value = at + start.size();
  return entries.substr(value, entries.find('\0', value) - value);
}

// Reports whether the process is of a job that a worker has submitted: that has its environment, and its own
// number.
bool is_of_another_job(const std::string& environment, const std::string& ours) {
  return std::any_of(facts::k_schedulers.begin(), facts::k_schedulers.end(),
                     [&](const facts::SchedulerTraits& scheduler) {
                       const std::string name(scheduler.job_variable);
                       const auto theirs = find_entry(environment, name);
                       return theirs && theirs != find_entry(ours, name);
                     });
}

// Reports whether it may be killed. A reaper of a launch inside ours carries our marker; it has its own to
// clean up and ends by itself.
bool may_kill(const ProcessEntry& process) {
  return !has_ended(process) && process.pid != ::getpid() && process.name != k_reaper_name;
}

// Kills groups by numbers that were given to us, since those in this /proc may be other processes'. A leader
// that has ended just now keeps its group's number as long as there is a process in it. True when nothing was
// left to kill.
bool kill_groups(const std::vector<int>& leaders) {
  bool none = true;
  for (const int leader : leaders) none = ::kill(-leader, SIGKILL) != 0 && none;
  return none;
}

void remove_folders(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
}

std::string read_file_message(int reader, int length) {
  std::string message(static_cast<std::size_t>(length), '\0');
  const ssize_t got = ::read(reader, message.data(), message.size());  // message of one write()
  return got == static_cast<ssize_t>(message.size()) ? message : std::string();
}

void remove_if_unchanged(const std::string& message) {
  const std::size_t middle = message.find('\0');
  if (middle == std::string::npos) return;
  const std::string path = message.substr(0, middle);
  if (try_read_file(path, message.size()) == message.substr(middle + 1)) ::unlink(path.c_str());
}

bool is_same(const ProcessEntry& one, const ProcessEntry& other) {
  return one.pid == other.pid && one.start_time == other.start_time;
}

// Kills the descendants of the leaders and marked processes; true when none was left. `killed`: by calls
// before. One that is ending has no environment any more, but still what it held.
bool kill_families(const std::vector<int>& leaders, const std::string& agent_id, ProcessTable& killed) {
  const std::string ours = read_environment(::getpid());
  const ProcessTable table = capture_processes();
  std::vector<int> roots = leaders;
  for (const ProcessEntry& process : table) {
    const std::string environment = read_environment(process.pid);
    const bool is_marked =
        find_entry(environment, k_agent_variable) == agent_id && !is_of_another_job(environment, ours);
    const bool is_known = std::any_of(killed.begin(), killed.end(),
                                      [&](const ProcessEntry& known) { return is_same(known, process); });
    if (is_marked || is_known) roots.push_back(process.pid);
  }
  killed.clear();
  for (const ProcessEntry& process : find_families(table, roots)) {
    if (may_kill(process) && send_signal_to(process, SIGKILL)) killed.push_back(process);
  }
  return killed.empty() && !table.empty();  // an empty one could not be read: we are there at least
}

template <class Condition>
void wait_until(const Condition& holds, Milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!holds() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(k_pause);
}

// Sends SIGTERM to the groups that are watched, and gives them some time to end.
void ask_to_end(const std::vector<int>& leaders, Milliseconds mercy) {
  for (const int leader : leaders) ::kill(-leader, SIGTERM);
  const auto all_ended = [&] {
    return std::all_of(leaders.begin(), leaders.end(), [](int leader) { return ::kill(-leader, 0) != 0; });
  };
  wait_until(all_ended, mercy);
}

// All that ddprun has said.
struct Heard {
  std::vector<int> leaders;
  PeerLinks links;
  std::string file;
  bool all_is_well = false;
};

// Returns the next message; nullopt if ddprun has ended without one, or closed the pipe. A closed pipe alone
// is no end: a process that ddprun has just forked may still have it.
std::optional<Message> next_message(int reader, pid_t parent, const Heard& heard, HeldParent& held) {
  sigset_t heeded;
  ::sigfillset(&heeded);
  ::sigdelset(&heeded, k_parent_ended);
  while (true) {
    const bool gone = ::getppid() != parent;  // asked before the look at what it has said
    Message message;
    const ssize_t length = ::read(reader, &message, sizeof message);
    if (length == sizeof message) return message;
    if (gone || length == 0) return std::nullopt;
    if (held.look(heard.links)) kill_groups(heard.leaders);
    held.wait(reader, heard.links, heeded);
  }
}

Heard listen(int reader, pid_t parent, HeldParent& held) {
  Heard heard;
  while (!heard.all_is_well) {
    const auto message = next_message(reader, parent, heard, held);
    if (!message) break;
    if (message->what == k_watch) heard.leaders.push_back(message->leader);
    if (message->what == k_forget) std::erase(heard.leaders, message->leader);
    if (message->what == k_link) heard.links.lifelines.push_back(message->leader);
    if (message->what == k_unlink) std::erase(heard.links.lifelines, message->leader);
    if (message->what == k_output) heard.links.outputs.push_back(message->leader);
    if (message->what == k_no_output) std::erase(heard.links.outputs, message->leader);
    if (message->what == k_file) heard.file = read_file_message(reader, message->leader);
    if (message->what == k_all_is_well) heard.all_is_well = true;
  }
  return heard;
}

// Waits not longer than a pause: new processes may have come from them meanwhile.
void wait_for_ends(const ProcessTable& killed) {
  const auto deadline = std::chrono::steady_clock::now() + k_pause;
  for (const ProcessEntry& process : killed) {
    // Without a pidfd (before Linux 5.3) this is only the pause.
    if (!wait_until_ready(open_pidfd(process.pid).get(), deadline)) return;
  }
}

// Kills the workers first, before others are looked for: others may start in their place.
void kill_what_is_left(const std::vector<int>& leaders, const std::string& agent_id, Milliseconds limit) {
  kill_groups(leaders);
  if (!sees_own_processes()) return wait_until([&] { return kill_groups(leaders); }, limit);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  ProcessTable killed;
  while (!kill_families(leaders, agent_id, killed) && std::chrono::steady_clock::now() < deadline) {
    wait_for_ends(killed);
  }
}

// Kills what is left in a process of its own: a look at one that is stuck in the kernel may wait for it
// without end, and the connections that we hold must not wait too.
void have_killed_what_is_left(const std::vector<int>& leaders, const std::string& agent_id,
                              Milliseconds limit) {
  const pid_t killer = ::fork();
  if (killer < 0) return kill_what_is_left(leaders, agent_id, limit);
  if (killer == 0) {
    close_all();
    kill_what_is_left(leaders, agent_id, limit);
    ::_exit(0);
  }
  const Fd ended = open_pidfd(killer);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!reap(killer)) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return void(::kill(killer, SIGKILL));
    wait_until_ready(ended.get(), ended ? deadline : std::min(deadline, now + k_pause));
  }
}

void heed_only_the_end_of_parent() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ::sigaction(k_parent_ended, &action, nullptr);
  ::prctl(PR_SET_PDEATHSIG, k_parent_ended, 0, 0, 0);
}

struct Parent {
  pid_t pid;
  std::set<std::uint64_t> foreign;  // connections that it has from others, which may go on with them
};

// Closes our descriptors. No other process has those that were shared with a ddprun that has gone; with one
// that continues we leave what is connected as it is.
void let_go_of_descriptors(const Heard& heard, const Parent& parent, const std::string& agent_id,
                           const ReaperDuties& duties) {
  const auto is_alone = [&] { return ::getppid() != parent.pid; };
  if (!unshare_descriptors() && !is_alone()) return;
  if (!heard.all_is_well && duties.holding > Milliseconds{0}) {
    kill_groups(heard.leaders);
    close_all_but_connections(parent.foreign);
    have_killed_what_is_left(heard.leaders, agent_id, duties.holding);
  }
  if (heard.all_is_well || !is_alone()) return close_all();
  close_all_but_connections(parent.foreign);
  end_connections();
}

[[noreturn]] void keep(int reader, const Parent& parent, const std::string& agent_id,
                       const ReaperDuties& duties) noexcept {
  heed_only_the_end_of_parent();
  ::prctl(PR_SET_NAME, k_reaper_name, 0, 0, 0);
  ::setsid();
  if (::chdir("/") != 0) ::_exit(k_exit_own_failure);

  HeldParent held(parent.pid, duties.host, duties.links_end_first);
  const Heard heard = listen(reader, parent.pid, held);
  ::close(reader);
  raise_open_files_limit();  // same limit as ddprun's: descriptors open there count here
  let_go_of_descriptors(heard, parent, agent_id, duties);
  if (!heard.all_is_well) {
    if (duties.mercy > Milliseconds{0}) ask_to_end(heard.leaders, duties.mercy);
    kill_what_is_left(heard.leaders, agent_id, k_killing);
  }
  remove_folders(duties.folders);
  remove_if_unchanged(heard.file);
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

Reaper::Reaper(const std::string& agent_id, const ReaperDuties& duties) {
  Pipe pipe = make_pipe();
  // Should it ever be stopped, we are not; and it does not wait in read().
  for (const Fd* end : {&pipe.writer, &pipe.reader}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  const Parent parent{::getpid(), capture_connections()};
  // A fork, but for the shared descriptors.
  pid_ = static_cast<int>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));
  const bool is_shared = pid_ >= 0;
  if (!is_shared) pid_ = ::fork();  // qemu-user knows only that: connections end with ddprun then
  if (pid_ < 0) throw system_failure("cannot start the reaper process", errno);
  if (pid_ == 0)
    keep(is_shared ? pipe.reader.get() : close_all_but(pipe.reader.get()), parent, agent_id, duties);
  if (is_shared) pipe.reader.release();  // the reaper's from now on
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

void Reaper::note_link(int socket) { tell(k_link, socket); }

void Reaper::forget_link(int socket) { tell(k_unlink, socket); }

void Reaper::note_output(int socket) { tell(k_output, socket); }

void Reaper::forget_output(int socket) { tell(k_no_output, socket); }

void Reaper::remove_at_end(const std::string& path, const std::string& text) {
  const std::string file = path + '\0' + text;
  Message message{};
  message.what = k_file;
  message.leader = static_cast<int>(file.size());
  std::string bytes(sizeof message, '\0');
  std::memcpy(bytes.data(), &message, sizeof message);
  bytes += file;
  if (bytes.size() > PIPE_BUF) return;  // longer ones might be written in two pieces
  [[maybe_unused]] const ssize_t written = ::write(writer_.get(), bytes.data(), bytes.size());
}

void Reaper::dismiss() {
  tell(k_all_is_well, 0);
  writer_.close();
  ending_ = EndingChild(pid_);
}

namespace {

constexpr int k_tell_limit = 5000;  // milliseconds
constexpr short k_closed = POLLRDHUP | POLLHUP | POLLERR;

std::size_t count_closed(const std::vector<int>& links) {
  std::vector<pollfd> watched;
  for (const int link : links) watched.push_back({link, POLLRDHUP, 0});
  ::poll(watched.data(), watched.size(), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(watched, [](const pollfd& each) { return (each.revents & k_closed) != 0; }));
}

bool most_closed(const std::vector<int>& links) {
  return !links.empty() && 2 * count_closed(links) > links.size();
}

// Returns what is lost with its reader.
std::string describe_unread(const std::vector<int>& outputs) {
  std::int64_t unread = 0;
  for (const int output : outputs) {
    int bytes = 0;
    if (::ioctl(output, FIONREAD, &bytes) == 0) unread += bytes;
  }
  return unread > 0 ? fmt::format(", and loses {} of output that it has not read", count_of(unread, "byte"))
                    : std::string();
}

}  // namespace

bool HeldParent::look(const PeerLinks& links) {
  const TimePoint now = os::now();
  if (killed_ || (!watch_.is_due(now) && !watch_.is_held())) return false;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;  // reaps the children that tell() started
  const auto parent = capture_process(pid_);
  watch_.note(parent ? parent->state : '?', parent ? parent->cpu_ticks : 0, now);
  at_terminal_ = parent && parent->terminal != 0 && parent->foreground != parent->group;
  if (!at_terminal_ && watch_.takes_telling()) {
    const facts::StuckProcess process = capture_stuck_process(pid_);
    tell(describe_stopped(process, host_, watch_.stopped_for()), hint_for_stopped(process, host_));
  }
  if (!watch_.is_held() || !is_forsaken(links, now)) return false;
  tell(
      fmt::format("killing ddprun on {} (pid {}), which does not run: the job continues or ends without it{}",
                  host_, pid_, describe_unread(links.outputs)),
      {});
  ::kill(pid_, SIGKILL);
  return killed_ = true;
}

// A person who has stopped it at a terminal may want its exit code later.
bool HeldParent::is_forsaken(const PeerLinks& links, TimePoint now) {
  const bool closed = most_closed(links.lifelines) || most_closed(links.outputs);
  if (!closed || (links_end_first_ && at_terminal_)) {
    links_closed_.reset();
    return false;
  }
  if (!links_closed_) links_closed_ = now;
  return now - *links_closed_ >= links_end_first_.value_or(Milliseconds{0});
}

void HeldParent::wait(int reader, const PeerLinks& links, const sigset_t& mask) const {
  std::vector<pollfd> watched{{reader, POLLIN, 0}};
  // Once links are closed they stay so: the next look follows by time.
  if (watch_.is_held() && !killed_ && count_closed(links.lifelines) == 0) {
    for (const int link : links.lifelines) watched.push_back({link, POLLRDHUP, 0});
  }
  const auto left =
      std::max(std::chrono::nanoseconds(watch_.next_look() - os::now()), std::chrono::nanoseconds{0});
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec limit{static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
  ::ppoll(watched.data(), watched.size(), &limit, &mask);
}

// In a process of its own, which holds nothing else of ddprun's: who reads it may be slow.
void HeldParent::tell(const std::string& what, const std::string& hint) const {
  const std::string lines = "ddprun: " + what + "\n" + (hint.empty() ? "" : "hint: " + hint + "\n");
  const pid_t teller = ::fork();
  if (teller != 0) return;
  const int error = close_all_but(STDERR_FILENO);
  pollfd writable{error, POLLOUT, 0};
  const bool may_write = ::poll(&writable, 1, k_tell_limit) > 0;
  [[maybe_unused]] const ssize_t written = may_write ? ::write(error, lines.data(), lines.size()) : 0;
  ::_exit(0);
}

}  // namespace ddprun::os
