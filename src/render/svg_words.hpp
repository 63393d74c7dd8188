// The texts of a node's SVG.
#pragma once

#include <string>

#include "render/node_words.hpp"

namespace ddprun::render {

std::string holder_title(const CpuHolder& holder);    // under the pointer: "local rank 3"
std::string cpus_text(const std::vector<int>& cpus);  // "CPUs 0-15,64-79", not too long
std::string worker_text(
    const plan::PlannedWorker& worker);  // "rank 3: CPUs 0-15; memory of node 0, preferred; GPU 3"
// "node 3, cores 48-63, 126 GiB", "nodes 4-9, 95 GiB each, memory only".
std::string box_title(const NodeLayout& layout, const NodeBox& box);
// "[0] GPU 0 A100-SXM4-40GB 0000:07:00.0".
std::string device_words(const DeviceMark& device, bool numbers);

}  // namespace ddprun::render
