#include "os/process/oom_watch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "os/fd.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

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
