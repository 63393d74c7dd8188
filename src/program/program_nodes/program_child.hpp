// The ddprun of one program on one node: started, stopped, and looked at whether the program is ready.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "facts/snapshot.hpp"
#include "os/process/child.hpp"
#include "placement/devices.hpp"
#include "programs/program.hpp"

namespace ddprun::program_nodes {

// Place of a program on this node, which its ddprun is told.
struct ProgramPlace {
  std::vector<std::string> hosts;  // hosts of this program
  int rank = 0;                    // rank of this node among them
  std::string address;             // address of the first of them
  std::string own_address;         // address of this node
  std::string job;                 // "slurm/29"; empty: no scheduler's
  programs::Share share;
  std::string visible_gpus;  // for CUDA_VISIBLE_DEVICES; used where not all are its own
  std::string visible_variable;
  bool first = false;  // has standard input, where its rank 0 is
  std::string folder;  // for its files

  void note_gpus(const placement::VisibleDevices& devices);  // notes those of its share
};

// Returns the cores that this process may use, each with the threads it may use.
std::vector<facts::Core> cores_of(const facts::HostFacts& host);

// The environment and the command line of that ddprun; `environment` is that of the launch's worker.
facts::Environment make_environment(const programs::Program& program, const ProgramPlace& place,
                                    const facts::Environment& environment);
std::vector<std::string> make_arguments(const programs::Program& program, const ProgramPlace& place);

// Returns the name of the program that this ddprun starts, as programs::name_of(); empty: it is none of
// several.
std::string own_program(const facts::Environment& environment);

class ProgramChild {
 public:
  ProgramChild(programs::Program program, ProgramPlace place)
      : program_(std::move(program)), place_(std::move(place)) {}

  // Starts it for an attempt of the whole program; an end with code 127 where that cannot be done.
  void start(int attempt, const facts::Environment& environment);
  bool runs() const { return child_.has_value(); }
  int attempt() const { return attempt_; }
  // Returns the exit code, once, when it has ended.
  std::optional<int> take_end();
  std::string read_report() const;  // report of one that has ended; empty: none is here
  void signal(int number);
  // Returns whether the program shows to be ready on this node, where that has changed.
  std::optional<bool> take_ready(TimePoint now);

 private:
  bool shows_ready() const;
  std::string ready_file() const { return place_.folder + "/ready"; }

  programs::Program program_;
  ProgramPlace place_;
  std::optional<os::Child> child_;
  std::optional<int> failed_;  // exit code of one that could not be started
  int attempt_ = -1;
  bool ready_ = false;
  int looks_in_vain_ = 0;  // in a row, of one that was ready
  TimePoint look_due_;
};

}  // namespace ddprun::program_nodes
