// Resources that the workers of this node use at this moment, for --status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inspection/worker_inspection.hpp"
#include "os/process/helper_child.hpp"
#include "status/job_status.hpp"
#include "status/moment.hpp"

namespace ddprun::inspection {

// Depth of a measurement: `signs` of life, for the search for hangs; `usage` for --status; where the ranks
// are too: `dump` for --stacks-every, `stacks` for --stacks.
enum class Depth { signs, usage, dump, stacks };

// Adds CPU time, memory, the newest collective and, where NVML is there, the use of GPUs: `gpus` are the PCI
// addresses of each worker's, as NVML writes them. `root` stands in front of /dev and /proc where a driver
// shows itself (for tests). Reads all of /proc and asks a driver that may hang: call it in a child.
// `records`: by worker, the file to which what --stacks collects of it is added; empty: none. `dump`: the
// beginning of the paths of dumps; a dump is written if there is a moment, to which it adds the ranks.
struct WorkerPlaces {
  std::vector<std::vector<std::string>> gpus;
  InspectionDoors doors;
  std::vector<std::string> records{};
  std::string dump{};
  std::optional<status::Moment> moment{};
  int attempt = 0;
};
status::NodeStatus measure_node(status::NodeStatus status, const WorkerPlaces& places,
                                Depth depth = Depth::usage, const std::string& nvml = "libnvidia-ml.so.1",
                                const std::string& root = "");

// Reports whether such a measurement writes to files.
inline bool writes_files(const WorkerPlaces& places, Depth depth) {
  return places.moment.has_value() || (depth == Depth::stacks && !places.records.empty());
}

// Measures in a child of its own, whose answer is the text of render_status(). With Depth::stacks it then
// writes the records, and before them a dump, however long the disk takes, and the reason of a failure to the
// descriptor `problem`:
// "/logs/0/stacks.txt: no space left on device". Throws Error if there can be no child.
os::AnsweringChild measure_node_in_child(status::NodeStatus status, WorkerPlaces places, Depth depth,
                                         int problem);

}  // namespace ddprun::inspection
