#include "os/process/process_table.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

// Fields of /proc/PID/stat after the name, counted from the state (proc(5) calls it field 3).
constexpr std::size_t k_state = 0, k_parent = 1, k_group = 2, k_session = 3, k_terminal = 4, k_foreground = 5,
                      k_user_time = 11, k_system_time = 12, k_waited_user_time = 13,
                      k_waited_system_time = 14, k_threads = 17, k_start_time = 19, k_resident_pages = 21;

template <class Matches>
ProcessTable close_over_children(const ProcessTable& table, std::set<int> found, const Matches& may_join) {
  for (bool grew = true; grew;) {
    grew = false;
    for (const ProcessEntry& entry : table) {
      if (found.count(entry.parent) != 0 && may_join(entry)) grew |= found.insert(entry.pid).second;
    }
  }
  ProcessTable result;
  std::copy_if(table.begin(), table.end(), std::back_inserter(result),
               [&](const ProcessEntry& entry) { return found.count(entry.pid) != 0; });
  return result;
}

bool contains(const std::vector<int>& numbers, int number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

std::optional<ProcessEntry> read_process(int pid) {
  const Fd file(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 1024> text;  // the line has about 50 numbers
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  if (length <= 0) return std::nullopt;
  return parse_process_stat({text.data(), static_cast<std::size_t>(length)});
}

}  // namespace

bool has_ended(const ProcessEntry& process) { return process.state == 'Z' && process.threads <= 1; }

std::optional<ProcessEntry> parse_process_stat(std::string_view line) {
  const std::size_t open = line.find(" (");
  const std::size_t close = line.rfind(") ");  // the name itself may hold ") "
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  const std::vector<std::string> fields = split_words(line.substr(close + 2));
  if (fields.size() <= k_start_time || fields[k_state].size() != 1) return std::nullopt;
  const auto pid = parse_integer(line.substr(0, open));
  const auto parent = parse_integer(fields[k_parent]);
  const auto group = parse_integer(fields[k_group]);
  const auto session = parse_integer(fields[k_session]);
  const auto start_time = parse_integer(fields[k_start_time]);
  if (!pid || !parent || !group || !session || !start_time) return std::nullopt;
  const auto number = [&](std::size_t field) {
    const auto value = field < fields.size() ? parse_integer(fields[field]) : std::nullopt;
    return static_cast<std::uint64_t>(std::max<std::int64_t>(value.value_or(0), 0));
  };
  return ProcessEntry{static_cast<int>(*pid),
                      std::string(line.substr(open + 2, close - open - 2)),
                      fields[k_state][0],
                      static_cast<int>(*parent),
                      static_cast<int>(*group),
                      static_cast<int>(*session),
                      static_cast<int>(number(k_terminal)),
                      static_cast<int>(number(k_foreground)),
                      static_cast<std::uint64_t>(*start_time),
                      number(k_user_time) + number(k_system_time),
                      number(k_waited_user_time) + number(k_waited_system_time),
                      number(k_resident_pages),
                      number(k_threads)};
}

std::optional<ProcessEntry> capture_process(int pid) {
  return sees_own_processes() ? read_process(pid) : std::nullopt;
}

bool sees_own_processes() {
  std::array<char, 16> target;  // the link is our number in the PID namespace that /proc was mounted for
  const ssize_t length = ::readlink("/proc/self", target.data(), target.size());
  if (length <= 0) return false;
  return parse_integer({target.data(), static_cast<std::size_t>(length)}) == ::getpid();
}

ProcessTable capture_processes() {
  if (!sees_own_processes()) return {};
  ProcessTable table;
  for (const std::string& name : list_folder("/proc")) {
    const auto pid = parse_integer(name);
    auto process = pid ? read_process(static_cast<int>(*pid)) : std::nullopt;
    if (process) table.push_back(std::move(*process));
  }
  return table;
}

bool is_running(int pid, std::uint64_t start_time) {
  if (const auto process = capture_process(pid))
    return process->start_time == start_time && !has_ended(*process);
  return ::kill(pid, 0) == 0 || errno == EPERM;
}

std::string pid_namespace() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

std::vector<int> capture_children() {
  if (!sees_own_processes()) return {};
  std::vector<int> children;
  // proc(5), task/TID/children: exact as long as no child ends while it is read.
  if (const auto text = try_read_file("/proc/thread-self/children")) {
    for (const std::string& word : split_words(*text)) {
      if (const auto pid = parse_integer(word)) children.push_back(static_cast<int>(*pid));
    }
    return children;
  }
  for (const ProcessEntry& process : capture_processes()) {
    if (process.parent == ::getpid()) children.push_back(process.pid);
  }
  return children;
}

ProcessTable find_descendants(const ProcessTable& table, int root, const std::vector<int>& except) {
  ProcessTable result = close_over_children(
      table, {root}, [&](const ProcessEntry& entry) { return !contains(except, entry.pid); });
  std::erase_if(result, [&](const ProcessEntry& entry) { return entry.pid == root; });
  return result;
}

ProcessTable find_families(const ProcessTable& table, const std::vector<int>& leaders) {
  std::set<int> found;
  for (const ProcessEntry& entry : table) {
    if (contains(leaders, entry.pid) || contains(leaders, entry.group) || contains(leaders, entry.session)) {
      found.insert(entry.pid);
    }
  }
  return close_over_children(table, std::move(found), [](const ProcessEntry&) { return true; });
}

bool send_signal_to(const ProcessEntry& process, int signal) {
  if (!sees_own_processes()) return false;
  // The descriptor pins the process; only then is it certain that what is compared is what gets the signal.
  const Fd descriptor = open_pidfd(process.pid);
  const auto now = capture_process(process.pid);
  if (!now || now->start_time != process.start_time) return false;
  if (!descriptor) return ::kill(process.pid, signal) == 0;  // before Linux 5.3
  return ::syscall(SYS_pidfd_send_signal, descriptor.get(), signal, nullptr, 0) == 0;
}

bool has_mapped(int pid, std::string_view name) {
  constexpr std::size_t k_limit = std::size_t{8} << 20;
  return read_head(fmt::format("/proc/{}/maps", pid), k_limit).find(name) != std::string::npos;
}

namespace {

// Reads the wait channel; empty if the kernel shows none ("0"), or not to us.
std::string read_wait_channel(const std::string& folder) {
  const std::string channel(trim(try_read_file(folder + "/wchan").value_or("")));
  return channel == "0" ? std::string() : channel;
}

void look_at_threads(facts::StuckProcess& process) {
  const std::string tasks = fmt::format("/proc/{}/task", process.pid);
  for (const std::string& thread : list_folder(tasks)) {
    const std::string folder = tasks + "/" + thread;
    const auto entry = parse_process_stat(try_read_file(folder + "/stat").value_or(""));
    if (!entry || entry->state != 'D') continue;
    process.state = 'D';
    process.wait_channel = read_wait_channel(folder);
    return;
  }
}

}  // namespace

facts::StuckProcess capture_stuck_process(int pid) {
  facts::StuckProcess process;
  process.pid = pid;
  const auto entry = capture_process(pid);
  if (!entry) return process;
  const std::string folder = fmt::format("/proc/{}", pid);
  process.name = entry->name;
  process.state = entry->state;
  process.wait_channel = read_wait_channel(folder);
  look_at_threads(process);
  process.tracer = facts::parse_tracer_pid(try_read_file(folder + "/status").value_or("")).value_or(0);
  const auto tracer = process.tracer != 0 ? capture_process(process.tracer) : std::nullopt;
  if (tracer) process.tracer_name = tracer->name;
  return process;
}

namespace {

std::uint64_t read_io(int pid) {
  std::uint64_t bytes = 0;
  for (const std::string& line : split(try_read_file(fmt::format("/proc/{}/io", pid)).value_or(""), '\n')) {
    if (!line.starts_with("rchar: ") && !line.starts_with("wchar: ")) continue;
    bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(parse_integer(line.substr(7)).value_or(0), 0));
  }
  return bytes;
}

Milliseconds from_ticks(std::uint64_t ticks) {
  return Milliseconds{static_cast<std::int64_t>(ticks) * 1000 / ::sysconf(_SC_CLK_TCK)};
}

// Returns the CPU time by the process' own clock, which is exact, while /proc counts in hundredths of a
// second: of many ranks that share a CPU a busy one has not many more in a second.
Milliseconds own_cpu(const ProcessEntry& process) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(process.pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    return from_ticks(process.cpu_ticks);
  return std::chrono::duration_cast<Milliseconds>(std::chrono::seconds{time.tv_sec} +
                                                  std::chrono::nanoseconds{time.tv_nsec});
}

void add(ProcessUsage& usage, const ProcessEntry& process) {
  usage.cpu_time += own_cpu(process) + from_ticks(process.waited_ticks);
  usage.io += read_io(process.pid);
  usage.memory += process.resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Milliseconds read_cpu_wait(int pid) {
  const auto text = try_read_file(fmt::format("/proc/{}/schedstat", pid)).value_or("");
  const auto fields = split(text, ' ');
  const auto waited = fields.size() < 2 ? std::nullopt : parse_integer(fields[1]);
  return std::chrono::duration_cast<Milliseconds>(std::chrono::nanoseconds{waited.value_or(0)});
}

std::vector<std::optional<ProcessUsage>> measure_usage(const std::vector<int>& pids) {
  std::vector<std::optional<ProcessUsage>> usages;
  const ProcessTable table = capture_processes();
  for (const int pid : pids) {
    auto& usage = usages.emplace_back();
    const auto found = std::ranges::find(table, pid, &ProcessEntry::pid);
    if (found == table.end()) continue;
    add(usage.emplace(), *found);
    usage->own_cpu = usage->cpu_time;
    usage->cpu_wait = read_cpu_wait(pid);
    for (const ProcessEntry& below : find_descendants(table, pid)) add(*usage, below);
  }
  return usages;
}

namespace {

// The kernel's own is 256 KiB to 1 MiB by default; each read gives one record.
constexpr int k_kernel_log_records = 100000;

}  // namespace

OomWatch::OomWatch(std::string root) : root_(std::move(root)) {
  if (const auto text = try_read_file(root_ + "/proc/self/cgroup")) group_ = facts::parse_memory_group(*text);
  known_ = count().value_or(0);
}

std::optional<std::int64_t> OomWatch::count() const {
  if (!group_) return std::nullopt;
  const char* const name = group_->unified ? "/memory.events" : "/memory.oom_control";
  const auto text = try_read_file(root_ + group_->folder + name);
  return text ? facts::parse_oom_kills(*text) : std::nullopt;
}

// Reports whether the kernel's log has it, on sites where users may read the log (dmesg_restrict); never
// waits.
bool OomWatch::kernel_log_tells(int pid) const {
  const std::string path = root_ + "/dev/kmsg";
  const Fd log(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log) return false;
  std::array<char, 8192> record{};
  for (int i = 0; i < k_kernel_log_records; ++i) {
    const ssize_t length = ::read(log.get(), record.data(), record.size());
    if (length == 0 || (length < 0 && errno != EPIPE)) return false;  // EPIPE: records were overwritten
    if (length > 0 && facts::tells_oom_kill({record.data(), static_cast<std::size_t>(length)}, pid))
      return true;
  }
  return false;
}

std::string OomWatch::explain_kill(int pid) {
  const auto kills = count();
  if (kills && *kills > known_) {
    ++known_;
    const char* const name = group_->unified ? "/memory.max" : "/memory.limit_in_bytes";
    const auto limit =
        facts::describe_memory_limit(try_read_file(root_ + group_->folder + name).value_or(""));
    return limit.empty() ? "the memory of its cgroup was used up"
                         : fmt::format("the limit of {} of its cgroup was reached", limit);
  }
  return kernel_log_tells(pid) ? "the kernel's OOM killer killed it (kernel log)" : std::string();
}

}  // namespace ddprun::os
