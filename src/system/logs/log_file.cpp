#include "logs/log_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

#include "base/duration.hpp"
#include "logs/log_compressor.hpp"
#include "os/atomic_file.hpp"

namespace ddprun::logs {

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

}  // namespace ddprun::logs
