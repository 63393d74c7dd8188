#include "ddprun/os/slurm_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "ddprun/os/library_function.hpp"

namespace ddprun {

namespace {

// Slurm 17.11 and the development branch after 26.05.
constexpr int k_oldest_soname = 32;
constexpr int k_newest_soname = 46;

}  // namespace

std::optional<SlurmApi> SlurmApi::open() {
  for (int soname = k_newest_soname; soname >= k_oldest_soname; --soname) {
    SlurmApi api;
    api.library_ = ::dlopen(fmt::format("libslurm.so.{}", soname).c_str(), RTLD_NOW | RTLD_LOCAL);
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

}  // namespace ddprun
