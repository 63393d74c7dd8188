#include "inspection/host_condition.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>

#include "base/text.hpp"
#include "check/xid.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::inspection {

namespace {

constexpr std::size_t k_cpu_text = 1 << 16;
constexpr std::size_t k_chunk = 1 << 20;
constexpr Milliseconds k_writing{300};

std::string first_line(const std::string& path) { return std::string(trim(os::read_head(path, 256))); }

// Opens a file that no other process sees; where the file system has none without a name (NFS), one that is
// removed at once.
os::Fd open_unnamed(const std::string& folder) {
  os::Fd file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file || errno == EACCES || errno == ENOENT || errno == EROFS) return file;
  std::string name = folder + "/.ddprun-check-XXXXXX";
  file = os::Fd(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

}  // namespace

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? names.release : "";
}

std::string processor_model(const std::string& root) {
  for (const std::string& line : split(os::read_head(root + "/proc/cpuinfo", k_cpu_text), '\n')) {
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  }
  return {};
}

std::map<std::string, std::string> driver_versions(const std::string& root) {
  std::map<std::string, std::string> versions;
  for (const auto& [name, module] :
       {std::pair("NVIDIA driver", "nvidia"), std::pair("AMD driver", "amdgpu")}) {
    if (const std::string version = first_line(root + "/sys/module/" + module + "/version"); !version.empty())
      versions[name] = version;
  }
  return versions;
}

std::map<std::string, std::uint64_t> soft_limits() {
  std::map<std::string, std::uint64_t> limits;
  for (const auto& [name, resource] :
       {std::pair("nofile", RLIMIT_NOFILE), std::pair("nproc", RLIMIT_NPROC),
        std::pair("memlock", RLIMIT_MEMLOCK), std::pair("core", RLIMIT_CORE)}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) continue;
    limits[name] =
        limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max() : limit.rlim_cur;
  }
  return limits;
}

int interface_mtu(const std::string& interface) {
  ifreq request{};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, interface.c_str(), interface.size());
  const os::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

bool has_rdma(const std::string& root) {
  return !os::list_folder(root + "/sys/class/infiniband").empty() ||
         !os::list_folder(root + "/sys/class/cxi").empty();
}

std::map<std::string, int> capture_cards(const std::string& root) {
  std::map<std::string, int> cards;
  const std::string folder = root + "/sys/class/net";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    const std::string carrier = first_line(path + "/carrier");  // unreadable where it is not up
    if (!std::filesystem::exists(path + "/device", error) || carrier.empty()) continue;
    const std::int64_t speed = parse_integer(first_line(path + "/speed")).value_or(0);
    cards[entry.path().filename().string()] =
        carrier == "0" ? -1 : static_cast<int>(std::clamp<std::int64_t>(speed, 0, 1 << 30));
  }
  return cards;
}

int count_search_domains(const std::string& root) {
  std::size_t domains = 0;
  for (const std::string& line : split(os::read_head(root + "/etc/resolv.conf", os::k_small_file), '\n')) {
    const std::vector<std::string> words = split_words(line);
    if (!words.empty() && words.front() == "search") domains = words.size() - 1;  // the last one counts
  }
  return static_cast<int>(domains);
}

bool is_on_full_disk(const std::string& path) {
  struct statvfs room {};
  return ::statvfs(path.c_str(), &room) == 0 && room.f_blocks > 0 && std::uint64_t{room.f_bavail} == 0;
}

FolderState try_folder(const std::string& path, std::uint64_t bytes) {
  FolderState state;
  struct statvfs room {};
  if (::statvfs(path.c_str(), &room) != 0) return state.problem = os::describe_errno(errno), state;
  state.size = std::uint64_t{room.f_blocks} * room.f_frsize;
  state.free = std::uint64_t{room.f_bavail} * room.f_frsize;
  const os::Fd file = open_unnamed(path);
  if (!file) return state.problem = os::describe_errno(errno), state;
  if (bytes == 0) return state;
  const std::string chunk(k_chunk, 'x');
  const TimePoint start = os::now();
  std::uint64_t written = 0;
  while (written < bytes && os::now() - start < k_writing) {
    const ssize_t count =
        ::write(file.get(), chunk.data(), std::min<std::uint64_t>(chunk.size(), bytes - written));
    if (count <= 0 || ::fdatasync(file.get()) != 0) {
      // Too little room is told by the numbers.
      if (errno != ENOSPC) state.problem = os::describe_errno(errno);
      return state;
    }
    written += static_cast<std::uint64_t>(count);
  }
  const double seconds = std::chrono::duration<double>(os::now() - start).count();
  if (written > 0 && seconds > 0) state.write_rate = static_cast<double>(written) / seconds;
  return state;
}

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
