#include "logs/log_writer.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "logs/log_compressor.hpp"
#include "logs/log_file.hpp"
#include "os/atomic_file.hpp"
#include "os/descriptors.hpp"
#include "os/files/slow_files.hpp"
#include "os/process/helper_child.hpp"
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

}  // namespace ddprun::logs
