// Watch for processes of ours that the kernel killed because memory was used up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "facts/memory_text.hpp"

namespace ddprun::os {

class OomWatch {
 public:
  // Remembers how many were killed so far. `root` is in front of every path.
  explicit OomWatch(std::string root = {});

  // Returns why a process was killed by SIGKILL for memory: "the limit of 4.0 GiB of its cgroup was reached";
  // empty: it was not, as far as this process may see.
  std::string explain_kill(int pid);

 private:
  std::optional<std::int64_t> count() const;
  bool kernel_log_tells(int pid) const;

  std::string root_;
  std::optional<facts::MemoryGroup> group_;
  std::int64_t known_ = 0;  // kills that are explained, or were there before
};

}  // namespace ddprun::os
