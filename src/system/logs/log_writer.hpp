// A child process that writes log files, and another that compresses those that are complete.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "os/descriptors.hpp"
#include "output/line_label.hpp"
#include "output/output_options.hpp"

namespace ddprun::logs {

// A child process that writes log files: a slow or full disk delays neither ddprun's loop nor the console.
// It reads its pipes to the end, whatever becomes of the file, so no writer waits for more than the file's
// own write.
//
// There is one for all files of an agent, started by the first. It continues to the end of all its pipes,
// also when ddprun is killed, and then exits.

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

// One file of the log writer.

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

// Compression of the log writer's complete files, one after the other, by a child at idle priority.
// A file is there under one of its two names at any moment.

// Returns "PATH", "PATH.1": the name of a log file that was rotated so many times since.
std::string log_file_name_of_age(const std::string& path, int age);
inline constexpr const char* k_compressed_suffix = ".zst";

class LogCompressor {
 public:
  struct Done {
    int id = 0;
    int error = 0;  // errno: the file stays as it is
  };

  void add(int id, const std::string& path);                     // a file that is complete
  void note_rotated(int id, const std::string& path, int kept);  // notes new names of older ones
  bool idle() const { return jobs_.empty(); }
  int descriptor() const { return watch_.get(); }  // readable at the end of the child; -1: there is none
  Done take_end();                                 // takes the child's result

 private:
  struct Job {
    int id;
    std::string path;
    int age;
    bool dropped = false;  // rotated away
    std::string name() const { return log_file_name_of_age(path, age); }
  };

  struct Files {
    os::Fd plain;
    os::Fd earlier;  // file that already has the compressed name
    os::Fd part;
  };

  void start_next();
  int compress(const Files& files, pid_t parent) const;

  std::deque<Job> jobs_;  // first: the one that the child works on
  std::string part_;      // file that the child writes
  pid_t child_ = -1;
  os::Fd watch_;
};

}  // namespace ddprun::logs
