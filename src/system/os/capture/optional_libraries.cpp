// The libraries that ddprun uses where they are installed: which of them are here.
#include "os/capture/optional_libraries.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <hwloc.h>
#include <link.h>

#include "os/capture/capture_hardware.hpp"
#include "os/libraries/key_value_space.hpp"
#include "os/libraries/munge.hpp"
#include "os/libraries/slurm_api.hpp"
#include "os/libraries/zstd.hpp"

namespace ddprun::os {

namespace {

std::string file_of(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return "";
  const link_map* map = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0;
  std::string file = known ? map->l_name : library;
  ::dlclose(handle);
  return file;
}

std::string slurm_file() {
  const auto slurm = SlurmApi::open();
  return slurm ? file_of(fmt::format("libslurm.so.{}", slurm->soname())) : "";
}

}  // namespace

std::vector<OptionalLibrary> find_optional_libraries() {
  return {{"libslurm", slurm_file()},
          {"munge", file_of(k_munge_library)},
          {"NVML", file_of(HardwareWish{}.nvml)},
          {"PMIx", file_of(KeyValueRequest{}.library)},
          {"zstd", file_of(k_zstd_library)}};
}

std::string hwloc_version() { return HWLOC_VERSION; }

}  // namespace ddprun::os
