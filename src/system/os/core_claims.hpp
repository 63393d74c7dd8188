// Cores that this process holds against other ddprun of this host, of any user.
//
// A claim is an abstract socket address that is bound: the kernel lets one process have it, and takes it back
// at the end of that process however it ends. Nothing is left behind, and nobody has to look at others.
#pragma once

#include <vector>

#include "os/descriptors.hpp"

namespace ddprun::os {

class CoreClaims {
 public:
  // Claims `count` of these cores, the first ones that are free, and gives their CPUs, ascending; none at
  // all, and nothing claimed, where fewer are free. A core is known by its first CPU.
  std::vector<int> claim(const std::vector<std::vector<int>>& cores, int count);

 private:
  std::vector<Fd> claims_;
};

}  // namespace ddprun::os
