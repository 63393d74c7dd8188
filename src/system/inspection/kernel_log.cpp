#include "inspection/kernel_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/text.hpp"
#include "check/xid.hpp"
#include "os/fd.hpp"

namespace ddprun::inspection {

namespace {

// The kernel's own is 256 KiB to 1 MiB by default; each read gives one record.
constexpr int k_most_records = 100000;

os::Fd open_log(const std::string& root) {
  return os::Fd(::open((root + "/dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

void read_on(const os::Fd& file, check::KernelLog& log) {
  if (!file) return;
  std::array<char, 8192> bytes{};
  for (int i = 0; i < k_most_records; ++i) {
    const ssize_t length = ::read(file.get(), bytes.data(), bytes.size());
    if (length == 0 || (length < 0 && errno != EPIPE)) break;  // EPIPE: records were overwritten
    if (length < 0) continue;
    for (const std::string& line : split({bytes.data(), static_cast<std::size_t>(length)}, '\n'))
      check::note_kernel_record(line, log);
  }
}

}  // namespace

check::KernelLog capture_kernel_log(const std::string& root) {
  check::KernelLog log;
  read_on(open_log(root), log);
  return log;
}

KernelLogWatch::KernelLogWatch(const std::string& root) : file_(open_log(root)) {
  if (file_) ::lseek(file_.get(), 0, SEEK_END);
}

const check::KernelLog& KernelLogWatch::read() {
  read_on(file_, log_);
  return log_;
}

}  // namespace ddprun::inspection
