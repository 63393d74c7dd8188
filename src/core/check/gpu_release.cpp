#include "check/gpu_release.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::check {

namespace {

constexpr std::size_t k_most_named = 3;

std::uint64_t memory_of(const GpuMemory& gpu) {
  std::uint64_t sum = 0;
  for (const GpuHolder& each : gpu.holders) {
    if (each.memory < 0) return gpu.used;
    sum += static_cast<std::uint64_t>(each.memory);
  }
  return std::min(sum, gpu.used);
}

std::string describe(const GpuHolder& holder) {
  if (holder.name.empty()) return fmt::format("process {}, which is not visible here", holder.pid);
  return fmt::format("process {} ({}, user {})", holder.pid, printable(holder.name, 32),
                     printable(holder.user, 32));
}

std::string describe_holders(const std::vector<GpuHolder>& holders) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(holders.size(), k_most_named); ++i)
    names.push_back(describe(holders[i]));
  if (holders.size() > k_most_named) names.push_back(fmt::format("{} more", holders.size() - k_most_named));
  return names.empty() ? "a process that is not visible here" : join(names, ", ");
}

}  // namespace

std::vector<GpuMemory> find_held(const std::vector<GpuMemory>& now, const std::vector<std::string>& gpus,
                                 const std::vector<int>& own, const HostRecord& before) {
  std::vector<GpuMemory> held;
  for (GpuMemory gpu : now) {
    if (std::ranges::find(gpus, gpu.address) == gpus.end()) continue;
    const auto known = std::ranges::find(before.gpus, gpu.address, &GpuHealth::address);
    // Without a size the driver is an old one, whose use includes its own.
    const bool counts_all =
        gpu.holders.empty() && own.empty() && known != before.gpus.end() && known->memory > 0;
    std::erase_if(gpu.holders, [&](const GpuHolder& each) {
      return std::ranges::find(own, each.pid) != own.end() || (!own.empty() && each.name.empty());
    });
    const std::uint64_t free = k_free_gpu_memory + (known == before.gpus.end() ? 0 : known->used);
    if ((counts_all ? gpu.used : memory_of(gpu)) > free) held.push_back(std::move(gpu));
  }
  return held;
}

Finding describe_held(const std::vector<GpuMemory>& held, const std::string& host, Milliseconds waited) {
  const GpuMemory& first = held.front();
  std::string what = fmt::format(
      "GPU {}: {} of its memory {} by {}", first.address,
      facts::describe_bytes(first.holders.empty() ? first.used : memory_of(first)),
      waited == Milliseconds{0} ? "held" : fmt::format("still held after {},", describe_duration(waited)),
      describe_holders(first.holders));
  if (held.size() > 1) what += fmt::format("; {} more like it", count_of(std::ssize(held) - 1, "GPU"));
  return {Mark::error,
          "GPU",
          {host},
          std::move(what),
          first.holders.empty() ? "see what uses it (nvidia-smi), or have the site reset it"
                                : "end it there (kill -9); one that stays needs the site to reset the node"};
}

}  // namespace ddprun::check
