// The whole life of one ddprun process.
#pragma once

namespace ddprun::app {

// Parses, captures, plans, and either prints or runs. Returns the exit code; never throws.
int run_program(int argc, char** argv) noexcept;

}  // namespace ddprun::app
