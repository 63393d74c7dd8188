// A child process that writes log files: a slow or full disk delays neither ddprun's loop nor the console.
// It reads its pipes to the end, whatever becomes of the file, so no writer waits for more than the file's
// own write.
//
// There is one for all files of an agent, started by the first. It continues to the end of all its pipes,
// also when ddprun is killed, and then exits.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>

#include "os/fd.hpp"
#include "output/output_options.hpp"

namespace ddprun::logs {

// Files that several hosts write together without a lock.

// Writes this agent's part, and the index of all parts that are there: the agent of rank 0 always, the others
// where that has done so. Whoever writes it looks again for what came meanwhile, so that the one who is last
// has seen everything. Throws Error.
void write_index(const std::string& run_folder, int first_rank, const std::string& launch_id,
                 const std::string& part);

struct LogStyle {
  output::LogRotation rotation;
  bool timestamps = false;
  bool compress = false;  // files that are complete
};

// Makes or continues the file; with O_APPEND, so that a program that takes turns with others loses nothing.
// Throws Error naming the path.
os::Fd open_log_file(const std::string& path);

class LogWriter {
 public:
  struct News {
    int id = 0;
    int error = 0;           // errno of the file's first failed write
    std::uint64_t lost = 0;  // bytes that the file does not have
    bool ended = false;      // end of its pipe; at most one other news of its writing comes before
    int uncompressed = 0;    // errno of a failed compression; then no other field is set
  };

  LogWriter();  // throws Error
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Appends what comes through `reader` to the file at `path`, which is open as `file`.
  void add(int id, os::Fd reader, os::Fd file, const std::string& path, const LogStyle& style);
  // Completes the files added so far: each is complete once its pipe has ended, and is compressed if wanted.
  // Without this call they are complete when nothing is added any more, so that the last lines can be read
  // meanwhile.
  void complete();
  void finish();  // ends additions: the child exits when all is written
  // Returns a descriptor that is readable when there is news(), and when the child has left.
  int socket() const { return socket_.get(); }
  std::optional<News> news();  // without waiting
  bool has_left() const { return left_; }

 private:
  os::Fd socket_;
  bool left_ = false;
};

}  // namespace ddprun::logs
