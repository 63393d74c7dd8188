// GPUs that a process may use, from the visibility variables and what the machine shows.
//
// The vendor of HostFacts::gpus decides which variables count: without a vendor in gres.conf Slurm sets
// CUDA_, ROCR_ and ZE_ alike. Where no GPU was seen, the first variable that is set does. Source of the
// rules: CUDA programming guide (environment variables) and MIG user guide, torch.cuda's
// _parse_visible_devices, ROCm "GPU isolation" and ROCclr's device list, Level Zero's affinity mask, Slurm's
// gres plugins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::placement {

struct VisibleDevices {
  std::vector<std::string> entries;      // entries as written in the variable, else "0", "1", ...
  std::vector<std::optional<int>> gpus;  // for each entry the index into HostFacts::gpus, where it is known
  std::string variable;                  // the visibility variable that is set; empty: none is
  std::string narrowing;                 // the variable that leaves a worker one of them
  std::string origin;                    // for the user: "CUDA_VISIBLE_DEVICES", "2 GPUs of this host"
  bool of_step = false;                  // SLURM_STEP_GPUS tells them
  bool one_a_process = false;            // MIG instances: CUDA shows a process the first of its list only
  std::string missing{};  // "CUDA_VISIBLE_DEVICES names 4 GPUs, 3 are visible"; empty: all that was promised
};

// Returns the entries CUDA would accept of such a list: all of the first one's form (numbers, GPU-, MIG-),
// cut at the first that is none; none at all for "", "-1", "NoDevFiles" and a list that repeats one.
std::vector<std::string> parse_device_list(const std::string& text);

// Returns the one of `gpus` that an entry names if no other variable renumbers them; nullopt for none, or
// more than one.
std::optional<int> find_gpu(const std::vector<facts::Gpu>& gpus, const std::string& entry);

VisibleDevices find_visible_devices(const facts::Snapshot& snapshot);

// Returns a notice if the order is unsure: CUDA numbers unlike GPUs from fastest to slowest, unless
// CUDA_DEVICE_ORDER is PCI_BUS_ID, and only CUDA knows which is the fastest; they are taken in the order of
// their addresses.
std::optional<allocation::Notice> find_unsure_order(const facts::Snapshot& snapshot,
                                                    const VisibleDevices& devices, const std::string& host);

}  // namespace ddprun::placement
