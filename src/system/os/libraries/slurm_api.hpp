// libslurm, loaded where it is installed.
//
// Its version changes with every release and nothing is promised between them, but these calls have kept
// their shape since 17.11. What needs slurm.conf or a daemon waits, and may end the process it is called in:
// such calls are for a child with a time limit (probes/launch_facts.hpp). Host lists need neither; they are
// here to hold ddprun's own parser against Slurm's in the tests. What ddprun refuses libslurm refuses too,
// but for names that no host can have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::os {

class SlurmApi {
 public:
  // Loads libslurm. Returns nullopt if no libslurm.so.32 ... 46 is installed or it lacks a symbol.
  static std::optional<SlurmApi> open();
  // Opens the library in a child, which writes nothing on stderr from then on: Slurm's plug-ins complain
  // there, and refer to the library's symbols.
  static std::optional<SlurmApi> open_in_child();
  SlurmApi(SlurmApi&& other) noexcept;
  SlurmApi& operator=(SlurmApi&&) = delete;
  ~SlurmApi();

  int soname() const { return soname_; }
  // Returns the names of a host list by Slurm's own parser; nullopt if it refuses the list (it then also
  // writes a line to stderr).
  std::optional<std::vector<std::string>> expand_hostlist(const std::string& text) const;

  // Returns, in a child, how long the job may still run; nullopt if slurmctld does not say.
  std::optional<std::int64_t> remaining_seconds(std::uint32_t job);
  // Returns, in a child, the job that slurmd of this host started `process` for, or adopted it into.
  std::optional<std::int64_t> job_of(int process);

 private:
  SlurmApi() = default;
  static std::optional<SlurmApi> open(int mode);
  void read_configuration();

  void* library_ = nullptr;
  int soname_ = 0;
  void* (*create_)(const char*) = nullptr;
  char* (*shift_)(void*) = nullptr;
  void (*destroy_)(void*) = nullptr;
};

}  // namespace ddprun::os
