// A child process that writes one file which the user named (--events, --metrics, --report).
// A named pipe without a reader, a reader that stands still and a file system that hangs hold up the child
// alone.
//
// It opens the file at the first text, and again as long as that fails. What it was sent it writes also when
// ddprun is killed, and then leaves; what takes longer than k_last_write then is given up.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "os/descriptors.hpp"

namespace ddprun::os {

class FileWriter {
 public:
  enum class How {
    append,   // each text at once to the end of the file
    replace,  // each text is the whole file
  };
  // Merger that returns the new contents from the old ones and a text. Called in the child.
  using Merge = std::function<std::string(const std::string& before, std::string_view text)>;

  static constexpr Milliseconds k_last_write{5000};

  struct News {
    bool done = false;    // with the oldest text that was not; else it waits, as `problem` says
    std::string problem;  // reason why the text is not in the file; empty: it is
  };

  // Throws Error where there can be no child.
  FileWriter(const std::string& path, How how, Merge merge = {});
  ~FileWriter();  // ends the child, whatever it waits for
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Does not block. Readable when there is news(), and when the child has left; writable when it takes more.
  int socket() const { return socket_.get(); }
  // One text on its way to the child.
  static std::string frame(std::string_view text);
  std::optional<News> news();  // without waiting
  bool has_left() const { return left_; }

 private:
  Fd socket_;
  Fd process_;
  pid_t child_ = -1;
  std::string received_;
  bool left_ = false;
};

}  // namespace ddprun::os
