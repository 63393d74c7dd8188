#include "os/libraries/slurm_api.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "os/libraries/library_function.hpp"

namespace ddprun::os {

namespace {

// Slurm 17.11 and the development branch after 26.05.
constexpr int k_oldest_soname = 32;
constexpr int k_newest_soname = 46;

}  // namespace

std::optional<SlurmApi> SlurmApi::open() { return open(RTLD_NOW | RTLD_LOCAL); }

std::optional<SlurmApi> SlurmApi::open_in_child() {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDERR_FILENO);
  return open(RTLD_NOW | RTLD_GLOBAL);
}

std::optional<SlurmApi> SlurmApi::open(int mode) {
  for (int soname = k_newest_soname; soname >= k_oldest_soname; --soname) {
    SlurmApi api;
    api.library_ = ::dlopen(fmt::format("libslurm.so.{}", soname).c_str(), mode);
    api.soname_ = soname;
    if (api.library_ != nullptr && find_function(api.library_, "slurm_hostlist_create", api.create_) &&
        find_function(api.library_, "slurm_hostlist_shift", api.shift_) &&
        find_function(api.library_, "slurm_hostlist_destroy", api.destroy_))
      return api;
  }
  return std::nullopt;
}

SlurmApi::SlurmApi(SlurmApi&& other) noexcept
    : library_(std::exchange(other.library_, nullptr)),
      soname_(other.soname_),
      create_(other.create_),
      shift_(other.shift_),
      destroy_(other.destroy_) {}

SlurmApi::~SlurmApi() {
  if (library_ != nullptr) ::dlclose(library_);
}

// Reads Slurm's configuration, needed from 21.08 on; before, each call reads it.
void SlurmApi::read_configuration() {
  void (*init)(const char*) = nullptr;
  if (find_function(library_, "slurm_init", init)) init(nullptr);
}

std::optional<std::int64_t> SlurmApi::remaining_seconds(std::uint32_t job) {
  long (*get)(std::uint32_t) = nullptr;
  if (!find_function(library_, "slurm_get_rem_time", get)) return std::nullopt;
  read_configuration();
  const long seconds = get(job);
  return seconds < 0 ? std::nullopt : std::optional<std::int64_t>(seconds);
}

std::optional<std::int64_t> SlurmApi::job_of(int process) {
  int (*find)(pid_t, std::uint32_t*) = nullptr;
  if (!find_function(library_, "slurm_pid2jobid", find)) return std::nullopt;
  read_configuration();
  std::uint32_t job = 0;
  return find(process, &job) == 0 && job > 0 ? std::optional<std::int64_t>(job) : std::nullopt;
}

std::optional<std::vector<std::string>> SlurmApi::expand_hostlist(const std::string& text) const {
  void* list = create_(text.c_str());
  if (list == nullptr) return std::nullopt;
  std::vector<std::string> hosts;
  while (char* host = shift_(list)) {
    hosts.emplace_back(host);
    std::free(host);
  }
  destroy_(list);
  return hosts;
}

}  // namespace ddprun::os
