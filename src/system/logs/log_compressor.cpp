#include "logs/log_compressor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "os/descriptors.hpp"
#include "os/libraries/zstd.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/reaper.hpp"

namespace ddprun::logs {

namespace {

constexpr std::size_t k_portion = std::size_t{1} << 16;

int copy(int from, int to) {
  std::array<char, k_portion> bytes;
  for (;;) {
    const ssize_t length = ::read(from, bytes.data(), bytes.size());
    if (length == 0) return 0;
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 || !os::write_whole(to, {bytes.data(), static_cast<std::size_t>(length)})) return errno;
  }
}

void use_idle_time_only() {
  ::setpriority(PRIO_PROCESS, 0, 19);
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
}

}  // namespace

std::string log_file_name_of_age(const std::string& path, int age) {
  return age == 0 ? path : fmt::format("{}.{}", path, age);
}

void LogCompressor::add(int id, const std::string& path) {
  jobs_.push_back({id, path, 0});
  if (child_ < 0) start_next();
}

void LogCompressor::note_rotated(int id, const std::string& path, int kept) {
  for (std::size_t i = 0; i < jobs_.size();) {
    Job& job = jobs_[i];
    const bool gone = job.path == path && ++job.age > kept;
    const bool at_work = i == 0 && child_ > 0;
    if (gone && at_work) job.dropped = true;
    if (gone && !at_work)
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  if (kept > 0) jobs_.push_back({id, path, 1});
  if (child_ < 0) start_next();
}

// Compresses behind the file that an earlier run has left under the compressed name: frames may follow each
// other.
int LogCompressor::compress(const Files& files, pid_t parent) const {
  use_idle_time_only();
  ::prctl(PR_SET_PDEATHSIG, 0);
  if (!files.plain || !files.part) return EIO;
  int error = files.earlier ? copy(files.earlier.get(), files.part.get()) : 0;
  if (error == 0) error = os::compress_by_zstd(files.plain.get(), files.part.get());
  // The plain file counts if no process is left to give the compressed one its name.
  if (::getppid() != parent) ::unlink(part_.c_str());
  return error;
}

void LogCompressor::start_next() {
  if (jobs_.empty()) return;
  part_ = fmt::format("{}.{}.part", jobs_.front().path, os::make_random_id().substr(0, 12));
  const std::string name = jobs_.front().name();
  // Opened before the fork: until the child comes to it, the names may become those of other files.
  const Files files{os::Fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC)),
                    os::Fd(::open((name + k_compressed_suffix).c_str(), O_RDONLY | O_CLOEXEC)),
                    os::Fd(::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666))};
  os::Pipe pipe = os::make_pipe();
  const pid_t parent = ::getpid();
  child_ = os::fork_helper([&] {
    pipe.reader.close();
    return compress(files, parent);
  });
  watch_ = std::move(pipe.reader);  // ends at once if there is no child
}

LogCompressor::Done LogCompressor::take_end() {
  int status = 0;
  int error = EAGAIN;
  if (child_ > 0) {
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    os::forget_helper(child_);
    error = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
  }
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  child_ = -1;
  watch_.close();
  const std::string name = job.name();
  if (error == 0 && !job.dropped && ::rename(part_.c_str(), (name + k_compressed_suffix).c_str()) != 0)
    error = errno;
  error == 0 && !job.dropped ? ::unlink(name.c_str()) : ::unlink(part_.c_str());
  start_next();
  return {job.id, job.dropped ? 0 : error};
}

}  // namespace ddprun::logs
