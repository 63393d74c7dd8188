// Checkpoints in the memory of processes, as src/program/checkpoint keeps them, and what is true of them:
// which were saved by which attempt, and which of these is the one that the job has gone on from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "checkpoint/manifest.hpp"

namespace ddprun::simulation {

// A part, or a copy of one. `origin`: the number of the attempt that has saved it, which no agent knows.
struct Copy {
  int world = 0, origin = 0;
  bool operator==(const Copy&) const = default;
};
using Copies = std::map<std::pair<std::int64_t, int>, Copy>;  // by step and rank

// Of one process; gone with it.
class CheckpointStore {
 public:
  void begin(int origin, Attempt attempt, const std::optional<checkpoint::Restore>& restore);
  void take(const checkpoint::Order& latest);
  void see(std::int64_t published, int world);
  void note_flushed(std::int64_t step, int rank);
  checkpoint::Held held() const;
  bool held_part(std::int64_t step, int rank, int world) const;

  Copies own, replicas;
  checkpoint::Order order;
  int origin = -1;   // the attempt that was begun last
  Copies told{};     // with the latest Join or Stopped, and not ordered gone since
  int told_to = -1;  // the process that coordinates

 private:
  checkpoint::Held held_;  // without the parts
};

// The attempts of a schedule: each goes on from a step of another one.
class Histories {
 public:
  int begin(int coordinator, Attempt attempt);  // its number
  int find(int coordinator, Attempt attempt) const;
  void goes_on_from(int origin, int other, std::int64_t step);
  bool has(int origin, std::int64_t step,
           const Copy& copy) const;  // the copy is what that attempt knows as this step

 private:
  struct From {
    int other = -1;
    std::int64_t step = -1;
  };
  std::map<std::pair<int, int>, int> numbers_;
  std::vector<From> all_;
};

// The shared folder.
struct FlushFolder {
  std::map<std::pair<std::int64_t, int>, std::map<int, Copy>> partial;  // by step, and attempt of the flush
  std::map<std::int64_t, Copy> published;  // by step; an agent that looks late knows an older one
};

}  // namespace ddprun::simulation
