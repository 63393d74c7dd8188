#include "os/descriptors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.hpp"
#include "os/clock.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr rlim_t k_open_files = 65536;  // a hard limit may be a milliard, and old kernels close one by one

constexpr unsigned k_close_range_unshare = 1U << 1U;           // CLOSE_RANGE_UNSHARE of linux/close_range.h
constexpr std::size_t k_most_unread = std::size_t{16} << 20U;  // a peer may send without end

// Returns the open descriptors. One of them may be closed by now: it served to read the list. Without /proc:
// none.
std::vector<int> open_descriptors() {
  std::vector<int> open;
  for (const std::string& name : list_folder("/proc/self/fd"))
    open.push_back(static_cast<int>(parse_integer(name).value_or(-1)));
  return open;
}

void close_from(int first) {
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
  const std::vector<int> open = open_descriptors();  // before Linux 5.9
  for (const int descriptor : open) {
    if (descriptor >= first) ::close(descriptor);
  }
  const long limit = open.empty() ? std::max(::sysconf(_SC_OPEN_MAX), static_cast<long>(k_open_files)) : 0;
  for (int descriptor = first; descriptor < limit; ++descriptor) ::close(descriptor);
}

bool is_connection(int descriptor) {
  int type = 0;
  socklen_t size = sizeof type;
  sockaddr_storage peer{};
  socklen_t peer_size = sizeof peer;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
         ::getpeername(descriptor, static_cast<sockaddr*>(static_cast<void*>(&peer)), &peer_size) == 0 &&
         (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

std::uint64_t file_number(int descriptor) {
  struct stat file {};
  return ::fstat(descriptor, &file) == 0 ? file.st_ino : 0;
}

}  // namespace

Fd open_null() { return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw system_failure("cannot create a pipe", errno);
  return {Fd(ends[0]), Fd(ends[1])};
}

std::size_t pipe_capacity(int descriptor) {
  const int capacity = ::fcntl(descriptor, F_GETPIPE_SZ);
  return capacity > 0 ? static_cast<std::size_t>(capacity) : std::size_t{64} * 1024;
}

std::string read_unread(int pipe_writer) {
  // Opening it by its name in /proc makes a read end (pipe(7), proc(5)).
  const std::string path = fmt::format("/proc/self/fd/{}", pipe_writer);
  const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string unread;
  std::array<char, 4096> part;
  ssize_t length = 0;
  while (reader && (length = ::read(reader.get(), part.data(), part.size())) > 0) {
    unread.append(part.data(), static_cast<std::size_t>(length));
  }
  return unread;
}

Fd duplicate(int descriptor) {
  Fd copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
  if (!copy) throw system_failure("cannot duplicate a descriptor", errno);
  return copy;
}

bool same_file(int one, int other) {
  struct stat first {};
  struct stat second {};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

void ensure_standard_descriptors() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    // open takes the lowest free number, and all below are open by now
    if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
}

bool unshare_descriptors() {
  // Some containers forbid unshare(); the other needs Linux 5.9.
  return ::unshare(CLONE_FILES) == 0 || ::syscall(SYS_close_range, ~0U, ~0U, k_close_range_unshare) == 0;
}

int close_all_but(int kept) { return close_all_but(std::vector<int>{kept}).front(); }

std::vector<int> close_all_but(const std::vector<int>& kept) {
  const int end = 3 + static_cast<int>(kept.size());
  std::vector<int> moved, placed;
  for (const int each : kept) {
    moved.push_back(::fcntl(each, F_DUPFD_CLOEXEC, end));
    if (moved.back() < 0) ::_exit(127);
  }
  for (int descriptor = 0; descriptor < 3; ++descriptor) ::close(descriptor);
  ensure_standard_descriptors();
  for (const int each : moved) {
    placed.push_back(3 + static_cast<int>(placed.size()));
    if (::dup3(each, placed.back(), O_CLOEXEC) < 0) ::_exit(127);
  }
  close_from(end);
  return placed;
}

void close_all() {
  close_from(0);
  ensure_standard_descriptors();
}

void close_own_descriptors(int kept) {
  for (const int descriptor : open_descriptors()) {
    const int flags = ::fcntl(descriptor, F_GETFD);
    if (descriptor != kept && flags >= 0 && (flags & FD_CLOEXEC) != 0) ::close(descriptor);
  }
}

void end_connections() {
  std::array<char, 16384> unread;
  for (const int descriptor : open_descriptors()) {
    if (!is_connection(descriptor) || ::shutdown(descriptor, SHUT_WR) != 0) continue;
    for (std::size_t part = 0; part < k_most_unread / unread.size(); ++part) {
      if (::recv(descriptor, unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
    }
  }
  close_all();
}

std::set<std::uint64_t> capture_connections() {
  std::set<std::uint64_t> connections;
  for (const int descriptor : open_descriptors()) {
    if (is_connection(descriptor)) connections.insert(file_number(descriptor));
  }
  return connections;
}

void close_all_but_connections(const std::set<std::uint64_t>& foreign) {
  for (const int descriptor : open_descriptors()) {
    if (!is_connection(descriptor) || foreign.contains(file_number(descriptor))) ::close(descriptor);
  }
  ensure_standard_descriptors();
}

std::optional<std::uint64_t> raise_open_files_limit() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  const std::uint64_t before = limit.rlim_cur;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, k_open_files);
  if (before >= wanted) return std::nullopt;
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return before;
}

std::vector<int> capture_inherited_descriptors() {
  std::vector<int> inherited;
  for (const int descriptor : open_descriptors()) {
    const int flags = ::fcntl(descriptor, F_GETFD);
    if (descriptor > 2 && flags >= 0 && (flags & FD_CLOEXEC) == 0) inherited.push_back(descriptor);
  }
  return inherited;
}

Fd watch_readiness(int descriptor, Readiness readiness) {
  Fd watch(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = readiness == Readiness::readable ? EPOLLIN : EPOLLOUT;
  if (!watch || ::epoll_ctl(watch.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) return {};
  return watch;
}

void lead_to_socket(int standard, int socket) {
  if (const int flags = ::fcntl(socket, F_GETFL); flags >= 0) ::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK);
  if (::dup2(socket, standard) < 0) throw system_failure("cannot redirect the output to a connection", errno);
}

void lead_back(int standard, int before) {
  if (before >= 0) ::dup2(before, standard);
}

bool end_writing(int socket) { return ::shutdown(socket, SHUT_WR) == 0; }

std::optional<char> receive_byte(int socket, Milliseconds limit) {
  char byte = 0;
  if (!wait_until_ready(socket, now() + limit) || ::recv(socket, &byte, 1, MSG_DONTWAIT) != 1)
    return std::nullopt;
  return byte;
}

bool wait_until_ready(int descriptor, TimePoint deadline, short events) {
  while (true) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - now());
    pollfd polled{descriptor, events, 0};
    const int ready =
        ::poll(&polled, 1, static_cast<int>(std::clamp<Milliseconds::rep>(left.count(), 0, 1 << 30)));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;  // the next read or write gives errno
    if (ready == 0 && now() >= deadline) return false;
  }
}

std::string read_by(TimePoint deadline, int descriptor, std::size_t most) {
  std::string text;
  std::array<char, 4096> chunk;
  while (text.size() < most && wait_until_ready(descriptor, deadline)) {
    const ssize_t length = ::read(descriptor, chunk.data(), chunk.size());
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (length <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(length));
  }
  return text;
}

bool write_whole(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool is_hung_up(int descriptor) {
  pollfd look{descriptor, 0, 0};
  return ::poll(&look, 1, 0) == 1 && (look.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace ddprun::os
