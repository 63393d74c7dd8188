// Jobs of several programs with the real ProgramsJob, on nodes in virtual time: up to 64 programs and 1,000
// nodes.
#pragma once

namespace ddprun::simulation {

struct ProgramsSummary {
  int programs = 0;  // and replicas
  int nodes = 0;
  int starts_again = 0;
  int lost = 0;
  bool succeeded = false;
};

// Plays one schedule. Throws Violation where something does not hold:
//   - a program starts once those of its --after have been ready or have ended with 0, and on none of its
//   nodes
//     while an earlier attempt of it runs on any;
//   - a program is stopped once, and only when no running one needs it;
//   - the job ends, nothing runs then, and its code is 0 only where no program failed that counts.
ProgramsSummary play_programs(unsigned seed, bool trace);

}  // namespace ddprun::simulation
