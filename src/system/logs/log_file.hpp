// One file of the log writer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "logs/log_writer.hpp"
#include "os/fd.hpp"
#include "output/line_label.hpp"

namespace ddprun::logs {

class LogFile {
 public:
  // Takes the file over. `rotated` is called when older ones have got their names.
  LogFile(os::Fd file, std::string path, const LogStyle& style, std::function<void()> rotated);

  // Writes the text. Bytes that cannot be written are lost and counted; the next write tries again.
  void write(std::string_view text);
  void close() { file_.close(); }
  int error() const { return error_; }
  std::uint64_t lost() const { return lost_; }

 private:
  void store_rotating(std::string_view text);
  void rotate();
  void store(std::string_view bytes);

  os::Fd file_;
  std::string path_;
  LogStyle style_;
  std::function<void()> rotated_;
  output::Labeller times_;
  bool mid_line_ = false;
  std::uint64_t size_ = 0;
  int error_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace ddprun::logs
