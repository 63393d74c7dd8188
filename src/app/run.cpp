#include "ddprun/app/run.hpp"

namespace ddprun {

int run_program(int, char**) noexcept { return 0; }

}  // namespace ddprun
