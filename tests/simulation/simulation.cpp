// Plays random schedules of losses with the real state machines of a launch, in virtual time, and says which
// of the seeds breaks what must hold.
//
//   simulation [--schedules N] [--first SEED]    prints a summary; ends with 1 at the first violation
//   simulation --seed SEED                       that one, with all that happens
//   simulation --programs N [--first SEED]       jobs of several programs instead; one of them: --program
//   SEED
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "programs.hpp"
#include "world.hpp"

using namespace ddprun::simulation;

namespace {

// False where something does not hold.
bool play(unsigned seed, bool trace, Summary& summary) {
  try {
    summary = World(seed, trace).run();
    return true;
  } catch (const Violation& violation) {
    fmt::print("seed {}: {}\n", seed, violation.what);
    return false;
  }
}

bool play(unsigned seed, bool trace, ProgramsSummary& summary) {
  try {
    summary = play_programs(seed, trace);
    return true;
  } catch (const Violation& violation) {
    fmt::print("seed {}: {}\n", seed, violation.what);
    return false;
  }
}

int play_all_programs(unsigned long first, unsigned long count, bool trace) {
  unsigned long programs = 0, nodes = 0, again = 0, lost = 0, succeeded = 0;
  for (unsigned long seed = first; seed < first + count; ++seed) {
    ProgramsSummary summary;
    if (!play(static_cast<unsigned>(seed), trace, summary)) {
      if (!trace) play(static_cast<unsigned>(seed), true, summary);
      return 1;
    }
    programs += static_cast<unsigned long>(summary.programs);
    nodes += static_cast<unsigned long>(summary.nodes);
    again += static_cast<unsigned long>(summary.starts_again);
    lost += static_cast<unsigned long>(summary.lost);
    succeeded += summary.succeeded;
  }
  fmt::print(
      "{} jobs of several programs: {} programs on {} nodes, {} started again, {} nodes lost; {} jobs "
      "succeeded\n",
      count, programs, nodes, again, lost, succeeded);
  return 0;
}

int usage() {
  fmt::print(
      stderr,
      "usage: simulation [--schedules N | --programs N] [--first SEED] | --seed SEED | --program SEED\n");
  return 2;
}

}  // namespace

int main(int count, char** words) {
  unsigned long schedules = 1000, first = 1;
  bool trace = false, programs = false;
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = words[i];
    if (i + 1 == count) return usage();
    const unsigned long value = std::strtoul(words[i + 1], nullptr, 10);
    if (name == "--schedules") {
      schedules = value;
    } else if (name == "--first") {
      first = value;
    } else if (name == "--programs") {
      schedules = value;
      programs = true;
    } else if (name == "--seed" || name == "--program") {
      programs = name == "--program";
      first = value;
      schedules = 1;
      trace = true;
    } else {
      return usage();
    }
  }
  if (programs) return play_all_programs(first, schedules, trace);
  unsigned long succeeded = 0, had_to = 0, worlds = 0, takeovers = 0, restarts = 0, faults = 0, restored = 0,
                published = 0;
  for (unsigned long seed = first; seed < first + schedules; ++seed) {
    Summary summary;
    if (!play(static_cast<unsigned>(seed), trace, summary)) {
      if (!trace) play(static_cast<unsigned>(seed), true, summary);
      return 1;
    }
    succeeded += summary.succeeded;
    had_to += summary.had_to_succeed;
    worlds += static_cast<unsigned long>(summary.worlds);
    takeovers += static_cast<unsigned long>(summary.takeovers);
    restarts += static_cast<unsigned long>(summary.restarts);
    faults += static_cast<unsigned long>(summary.faults);
    restored += static_cast<unsigned long>(summary.restored);
    published += static_cast<unsigned long>(summary.published);
  }
  fmt::print(
      "{} schedules: {} faults, {} worlds begun, {} of them from a checkpoint, {} checkpoints published, "
      "{} coordinators that took over, {} restarts; "
      "{} jobs succeeded, {} of them had to\n",
      schedules, faults, worlds, restored, published, takeovers, restarts, succeeded, had_to);
  return 0;
}
