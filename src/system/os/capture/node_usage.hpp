// Resources that the workers of this node use at this moment, for --status.
#pragma once

#include <string>
#include <vector>

#include "os/capture/worker_inspection.hpp"
#include "os/process/answering_child.hpp"
#include "status/job_status.hpp"

namespace ddprun::os {

// Depth of a measurement: `signs` of life, for the search for hangs; `usage` for --status; `stacks` for
// --stacks too.
enum class Depth { signs, usage, stacks };

// Adds CPU time, memory, the newest collective and, where NVML is there, the use of GPUs: `gpus` are the PCI
// addresses of each worker's, as NVML writes them. `root` stands in front of /dev and /proc where a driver
// shows itself (for tests). Reads all of /proc and asks a driver that may hang: call it in a child.
// `records`: by worker, the file to which what --stacks collects of it is added; empty: none.
struct WorkerPlaces {
  std::vector<std::vector<std::string>> gpus;
  InspectionDoors doors;
  std::vector<std::string> records{};
  int attempt = 0;
};
status::NodeStatus measure_node(status::NodeStatus status, const WorkerPlaces& places,
                                Depth depth = Depth::usage, const std::string& nvml = "libnvidia-ml.so.1",
                                const std::string& root = "");

// Measures in a child of its own, whose answer is the text of render_status(). With Depth::stacks it then
// writes the records, however long the disk takes, and the reason of a failure to the descriptor `problem`:
// "/logs/0/stacks.txt: no space left on device". Throws Error if there can be no child.
AnsweringChild measure_node_in_child(status::NodeStatus status, WorkerPlaces places, Depth depth,
                                     int problem);

}  // namespace ddprun::os
