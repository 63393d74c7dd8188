#include "os/fd.hpp"

#include <unistd.h>

namespace ddprun::os {

void Fd::close() noexcept {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

}  // namespace ddprun::os
