#include "render/svg_words.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::render {

std::string holder_title(const CpuHolder& holder) {
  switch (holder.kind) {
    case CpuHolder::Kind::worker:
      return fmt::format("local rank {}", holder.local_rank);
    case CpuHolder::Kind::several:
      return "several workers";
    case CpuHolder::Kind::spare:
      return "no worker";
    case CpuHolder::Kind::elsewhere:
      return "not given to one of these workers";
    case CpuHolder::Kind::forbidden:
      return "not allowed";
  }
  return {};
}

std::string cpus_text(const std::vector<int>& cpus) {
  const std::string list = facts::render_cpu_list(cpus);
  return "CPUs " + (list.size() > 80 ? list.substr(0, 77) + "..." : list);
}

std::string worker_text(const plan::PlannedWorker& worker) {
  std::vector<std::string> parts;
  parts.push_back(worker.binding.cpus.empty() ? "not bound" : cpus_text(worker.binding.cpus));
  const std::string memory = describe_memory(worker.binding);
  if (!memory.empty()) parts.push_back("memory of " + memory);
  for (const int gpu : worker.gpus) parts.push_back(fmt::format("GPU {}", gpu));
  if (!worker.network_card.empty()) parts.push_back(worker.network_card);
  return fmt::format("rank {}: {}", worker.rank.value, join(parts, "; "));
}

std::string box_title(const NodeLayout& layout, const NodeBox& box) {
  std::string title = box_name(box);
  if (!box.groups.empty()) {
    const std::string list = core_list(layout, box);
    const std::string shown = list.size() > 40 ? list.substr(0, 37) + "..." : list;
    title += fmt::format(", {} {}", layout.sibling_distance > 1 ? "cores" : "CPUs", shown);
  }
  if (box.bytes > 0) title += ", " + describe_bytes(box.bytes) + (box.numbers.size() > 1 ? " each" : "");
  return box.groups.empty() ? title + ", memory only" : title;
}

std::string device_words(const DeviceMark& device, bool numbers) {
  const std::string text = device_text(device, numbers);
  return device.model.empty() ? text : text + ", " + device.model;
}

}  // namespace ddprun::render
