// The descriptors one worker is started with.
#pragma once

#include <utility>
#include <vector>

#include "workers/worker_group.hpp"

namespace ddprun::workers {

struct WorkerGroup::Streams {
  int input = 0;
  int output = 1;
  int error = 2;
  int terminal = -1;
  std::vector<os::Fd> owned;  // closed once the worker has them

  int own(os::Fd descriptor) {
    owned.push_back(std::move(descriptor));
    return owned.back().get();
  }
};

}  // namespace ddprun::workers
