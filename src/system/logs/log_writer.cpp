#include "logs/log_writer.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "os/atomic_file.hpp"
#include "os/descriptors.hpp"
#include "os/files/slow_files.hpp"
#include "os/libraries/zstd.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/reaper.hpp"
#include "os/process/serving_child.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"
#include "output/log_layout.hpp"

namespace ddprun::logs {

namespace {

constexpr const char* k_name = "ddprun-logs";
constexpr std::size_t k_read_size = std::size_t{256} * 1024;
constexpr std::size_t k_message_limit = 8192;  // a path is at most PATH_MAX
constexpr std::size_t k_passed = 2;            // the pipe and the file
constexpr int k_complete = -1;                 // instead of an id

struct Request {
  int id = 0;
  LogStyle style;
};

class Server {
 public:
  explicit Server(int socket) : socket_(socket), buffer_(k_read_size) {}

  int run() {
    while (open_ || !files_.empty() || !compressor_.idle()) {
      std::vector<pollfd> ready;
      if (open_) ready.push_back({socket_, POLLIN, 0});
      if (!compressor_.idle()) ready.push_back({compressor_.descriptor(), POLLIN, 0});
      for (const auto& [reader, entry] : files_) ready.push_back({reader, POLLIN, 0});
      if (::poll(ready.data(), ready.size(), -1) < 0) continue;
      for (const pollfd& each : ready) {
        if (each.revents == 0) continue;
        if (each.fd == socket_) {
          receive();
        } else if (each.fd == compressor_.descriptor()) {
          tell_compressed(compressor_.take_end());
        } else {
          read(each.fd);
        }
      }
    }
    return 0;
  }

 private:
  struct Entry {
    int id;
    os::Fd reader;
    LogFile file;
    std::string path;
    bool compress;
    bool complete = false;  // at its pipe's end
    bool told = false;
  };

  void receive() {
    os::ReceivedMessage message = os::receive_message(socket_, k_message_limit);
    if (message.text.size() < sizeof(Request)) {
      open_ = false;
      return complete();
    }
    Request request;
    std::memcpy(&request, message.text.data(), sizeof request);
    if (request.id == k_complete) return complete();
    const std::string path = message.text.substr(sizeof request);
    if (message.descriptors.size() != k_passed) return;
    os::Fd reader = std::move(message.descriptors[0]), file = std::move(message.descriptors[1]);
    const int key = reader.get();
    const auto rotated = [this, id = request.id, path, style = request.style] {
      if (style.compress) compressor_.note_rotated(id, path, style.rotation.kept);
    };
    files_.emplace(key, Entry{request.id,
                              std::move(reader),
                              {std::move(file), path, request.style, rotated},
                              path,
                              request.style.compress});
  }

  void complete() {
    for (auto& [reader, entry] : files_) entry.complete = true;
    for (const auto& [id, path] : std::exchange(closed_, {})) compressor_.add(id, path);
  }

  void read(int reader) {
    const auto found = files_.find(reader);
    if (found == files_.end()) return;
    Entry& entry = found->second;
    const ssize_t length = ::read(reader, buffer_.data(), buffer_.size());
    if (length > 0) {
      entry.file.write({buffer_.data(), static_cast<std::size_t>(length)});
      if (entry.file.error() != 0 && !std::exchange(entry.told, true)) tell(entry, false);
      return;
    }
    if (length < 0 && errno == EINTR) return;
    entry.file.close();
    tell(entry, true);
    if (entry.compress && (entry.complete || !open_)) {
      compressor_.add(entry.id, entry.path);
    } else if (entry.compress) {
      closed_.emplace_back(entry.id, entry.path);
    }
    files_.erase(found);
  }

  void tell(const Entry& entry, bool ended) const {
    const LogWriter::News news{entry.id, entry.file.error(), entry.file.lost(), ended};
    ::send(socket_, &news, sizeof news, MSG_NOSIGNAL);
  }

  void tell_compressed(const LogCompressor::Done& done) const {
    if (done.error == 0) return;
    LogWriter::News news;
    news.id = done.id;
    news.uncompressed = done.error;
    ::send(socket_, &news, sizeof news, MSG_NOSIGNAL);
  }

  int socket_;
  std::vector<char> buffer_;
  std::map<int, Entry> files_;
  std::vector<std::pair<int, std::string>> closed_;  // not complete() yet
  LogCompressor compressor_;
  bool open_ = true;  // more may be added
};

int write_logs(int socket) {
  ::prctl(PR_SET_PDEATHSIG, 0);  // the pipes are still to be read to their end
  ::prctl(PR_SET_NAME, k_name, 0, 0, 0);
  ::setsid();
  socket = os::close_all_but(socket);
  return Server(socket).run();
}

}  // namespace

os::Fd open_log_file(const std::string& path) {
  return os::open_slow_file("cannot write the log file " + printable(path), path);
}

LogWriter::LogWriter() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw os::system_failure("cannot start the process that writes log files", errno);
  socket_ = os::Fd(ends[0]);
  const os::Fd other(ends[1]);
  const pid_t child = os::fork_helper([&] { return write_logs(other.get()); });
  if (child < 0) throw os::system_failure("cannot start the process that writes log files", errno);
}

LogWriter::~LogWriter() { finish(); }

void LogWriter::add(int id, os::Fd reader, os::Fd file, const std::string& path, const LogStyle& style) {
  const Request request{id, style};
  const std::string head(static_cast<const char*>(static_cast<const void*>(&request)), sizeof request);
  if (!os::send_whole(socket_.get(), head + path, {reader.get(), file.get()}, TimePoint::max()))
    throw os::system_failure("the process that writes log files has ended", errno);
}

void LogWriter::complete() {
  const Request request{k_complete, {}};
  ::send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL);
}

void LogWriter::finish() {
  if (socket_) ::shutdown(socket_.get(), SHUT_WR);
}

std::optional<LogWriter::News> LogWriter::news() {
  News news;
  const ssize_t length = ::recv(socket_.get(), &news, sizeof news, MSG_DONTWAIT);
  if (length == static_cast<ssize_t>(sizeof news)) return news;
  if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR)) left_ = true;
  return std::nullopt;
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_limit = std::size_t{64} << 20;
constexpr int k_rounds = 10;

std::vector<std::string> read_parts(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> parts;
  for (const std::string& name : names) parts.push_back(os::try_read_file(name, k_limit).value_or(""));
  return parts;
}

}  // namespace

void write_index(const std::string& run_folder, int first_rank, const std::string& launch_id,
                 const std::string& part) {
  const std::string folder = run_folder + "/.index";
  const std::string index = run_folder + "/index.json";
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  os::write_file(fmt::format("{}/rank-{:05}.json", folder, first_rank), part);
  if (first_rank != 0 && !output::is_index_of(launch_id, os::try_read_file(index, k_limit).value_or("")))
    return;
  std::vector<std::string> seen;
  for (int round = 0; round < k_rounds; ++round) {
    std::vector<std::string> parts = read_parts(folder);
    if (round > 0 && parts == seen) return;
    os::write_file(index, output::merge_index_parts(launch_id, parts));
    seen = std::move(parts);
  }
}

namespace {

// Returns the time in UTC, as in ddprun's own details.
std::string now_text() {
  const auto now = std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::system_clock::to_time_t(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z ", fmt::gmtime(seconds),
                     now.time_since_epoch().count() % 1000);
}

}  // namespace

LogFile::LogFile(os::Fd file, std::string path, const LogStyle& style, std::function<void()> rotated)
    : file_(std::move(file)), path_(std::move(path)), style_(style), rotated_(std::move(rotated)) {
  const off_t end = ::lseek(file_.get(), 0, SEEK_END);
  if (end > 0) size_ = static_cast<std::uint64_t>(end);
}

void LogFile::write(std::string_view text) {
  if (!style_.timestamps) return store_rotating(text);
  std::string timed;
  times_.append(timed, text, now_text());
  store_rotating(timed);
}

// Stores the text, rotating between lines only; a line that is longer than a whole file stays in one.
void LogFile::store_rotating(std::string_view text) {
  const std::uint64_t limit = style_.rotation.bytes;
  while (limit > 0 && size_ + text.size() > limit) {
    const std::size_t room = limit > size_ ? static_cast<std::size_t>(limit - size_) : 0;
    std::size_t length = text.substr(0, room).rfind('\n') + 1;  // npos + 1 is 0
    if (length == 0 && (mid_line_ || size_ == 0)) {
      length = text.find('\n') + 1;
      if (length == 0) break;
    }
    store(text.substr(0, length));
    text.remove_prefix(length);
    rotate();
  }
  store(text);
}

// Rotates the file. PATH.1 is the youngest of those that are kept; some may be compressed, and one may be
// there as both.
void LogFile::rotate() {
  const int kept = style_.rotation.kept;
  for (const char* suffix : {"", k_compressed_suffix}) {
    const auto name = [&](int age) { return log_file_name_of_age(path_, age) + suffix; };
    ::unlink(name(kept).c_str());
    for (int age = kept; age > 0; --age) ::rename(name(age - 1).c_str(), name(age).c_str());
  }
  os::Fd next = os::open_to_append(path_).file;
  if (next) file_ = std::move(next);  // failed: the old one continues
  size_ = 0;
  rotated_();
}

void LogFile::store(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (error_ == 0) error_ = errno;
      lost_ += bytes.size();
      return;
    }
    mid_line_ = bytes[static_cast<std::size_t>(written) - 1] != '\n';
    size_ += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

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
