// Functions of libraries that are loaded while ddprun runs, so that one binary works with and without them.
#pragma once

#include <dlfcn.h>

#include <cstring>

namespace ddprun::os {

constexpr int k_success = 0;  // same in NVML, PMIx and munge

// Fills a pointer to a function of the library behind `handle`; false when it has none of that name.
template <class Function>
bool find_function(void* handle, const char* name, Function& function) {
  void* const symbol = ::dlsym(handle, name);
  static_assert(sizeof function == sizeof symbol);
  std::memcpy(&function, &symbol, sizeof symbol);
  return symbol != nullptr;
}

}  // namespace ddprun::os
