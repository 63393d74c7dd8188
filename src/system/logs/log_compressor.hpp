// Compression of the log writer's complete files, one after the other, by a child at idle priority.
// A file is there under one of its two names at any moment.
#pragma once

#include <sys/types.h>

#include <deque>
#include <string>

#include "os/fd.hpp"

namespace ddprun::logs {

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
