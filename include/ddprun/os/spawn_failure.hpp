// Why a process did not become the program it was started for.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "ddprun/base/exit_status.hpp"

namespace ddprun {

enum class SpawnStage {
  process,            // no process could be made
  parent_death,       // prctl
  group,              // setsid, setpgid
  terminal,           // tcsetpgrp
  cpus,               // sched_setaffinity
  working_directory,  // chdir
  descriptors,        // dup2, setrlimit
  exec,               // execve: no such file, not executable, unknown format, ...
  interpreter,        // the file is there, what its first line (or its loader) names is not
};

struct SpawnFailure {
  SpawnStage stage;
  int error;  // errno
};

// "exec", "working directory", ...: what ExitStatus::stage holds.
std::string_view stage_name(SpawnStage stage);
ExitStatus not_started(const SpawnFailure& failure);

// Where a child leaves its failure: memory it shares with us, and nobody else has.
class SharedFailure {
 public:
  static std::shared_ptr<SharedFailure> make();  // empty when there is no memory for it
  SharedFailure(const SharedFailure&) = delete;
  SharedFailure& operator=(const SharedFailure&) = delete;
  ~SharedFailure();

  void write(const SpawnFailure& failure) noexcept;  // async-signal-safe
  std::optional<SpawnFailure> read() const;

 private:
  struct Page;
  explicit SharedFailure(Page* page) : page_(page) {}
  Page* page_;
};

}  // namespace ddprun
