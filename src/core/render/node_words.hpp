// The words and symbols of a node's picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "render/node_layout.hpp"

namespace ddprun::render {

// Look of a kind of holder; a worker is shown by its number.
struct HolderLook {
  char symbol;
  const char* css;      // its class in the SVG
  const char* meaning;  // in the legend
  const char* title;    // title of one core
};
const HolderLook& look_of(CpuHolder::Kind kind);

// Returns '0' to '9', 'a' to 'z' by local rank; '#' several, '.' spare, '+' elsewhere, '-' forbidden.
char symbol_of(const CpuHolder& holder);
// Returns the same, with the number of local ranks past 'z'; with `numbers`, that of all of them.
std::string mark_of(const CpuHolder& holder, bool numbers);
// Reports whether some local rank has no symbol of its own: then all are shown by their numbers.
bool needs_numbers(const plan::LaunchPlan& plan);

struct SymbolMeaning {
  CpuHolder holder;
  std::string text;
};
// Returns the kinds of holders that occur, without single workers.
std::vector<SymbolMeaning> meanings_of(const NodeLayout& layout, const plan::LaunchPlan& plan);

// Returns "2 packages, 8 NUMA nodes, 128 cores of 2 threads (CPU n and n+128); from hwloc 2.9.0".
std::string describe_node(const NodeLayout& layout, const facts::HostFacts& host);
// Returns the CPUs of a box: each core by its first one if siblings are far apart.
std::string core_list(const NodeLayout& layout, const NodeBox& box);

// Returns "node 3"; for nodes that are alike "nodes 4-9".
std::string box_name(const NodeBox& box);
std::string device_text(const DeviceMark& device, bool numbers);  // "[01] mlx5_2", "[10,11] mlx5_2"
std::string empty_nodes_text(const NodeLayout& layout);           // "28 NUMA nodes without CPUs or memory"

bool any_bound(const plan::LaunchPlan& plan);
std::string describe_memory(
    const facts::Binding& binding);              // "node 3, preferred"; empty where it is untouched
std::string describe_bytes(std::int64_t bytes);  // "95 GiB"
// Returns the PCI address of one of HostFacts::gpus; without one "GPU 2".
std::string gpu_name(const facts::HostFacts& host, int gpu);

}  // namespace ddprun::render
