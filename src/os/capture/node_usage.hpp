// What the workers of this node use at this moment, for --status.
#pragma once

#include <string>
#include <vector>

#include "os/process/answering_child.hpp"
#include "status/job_status.hpp"

namespace ddprun::os {

// Adds CPU time, memory and, where NVML is there, the use of GPUs: `gpus` are the PCI addresses of each
// worker's, as NVML writes them. `root` stands in front of /dev and /proc where a driver shows itself (for
// tests). Reads all of /proc and asks a driver that may hang: call it in a child.
status::NodeStatus measure_node(status::NodeStatus status, const std::vector<std::vector<std::string>>& gpus,
                                const std::string& nvml = "libnvidia-ml.so.1", const std::string& root = "");

// The same in a child of its own, whose answer is the text of render_status(). Throws Error where there can
// be no child.
AnsweringChild measure_node_in_child(status::NodeStatus status, std::vector<std::vector<std::string>> gpus);

}  // namespace ddprun::os
