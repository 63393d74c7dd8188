#include "os/process/held_parent.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/process_table.hpp"

namespace ddprun::os {

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
