// libslurm, loaded where it is installed and used only where that is safe: opaque host lists.
//
// Its version changes with every release and nothing is promised between them, but these three calls have
// kept their shape since 17.11 and touch neither slurm.conf nor the network. Calls that do can end the
// process they are made in, so none of them is here.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class SlurmApi {
 public:
  // Nothing when no libslurm.so.32 ... 46 is installed or it lacks a symbol.
  static std::optional<SlurmApi> open();
  SlurmApi(SlurmApi&& other) noexcept;
  SlurmApi& operator=(SlurmApi&&) = delete;
  ~SlurmApi();

  int soname() const { return soname_; }
  // The names of a host list by Slurm's own parser; nothing where it refuses the list (it then also writes a
  // line to stderr).
  std::optional<std::vector<std::string>> expand_hostlist(const std::string& text) const;

 private:
  SlurmApi() = default;

  void* library_ = nullptr;
  int soname_ = 0;
  void* (*create_)(const char*) = nullptr;
  char* (*shift_)(void*) = nullptr;
  void (*destroy_)(void*) = nullptr;
};

}  // namespace ddprun
