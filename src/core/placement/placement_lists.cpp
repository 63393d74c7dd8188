#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/placement_parts.hpp"

namespace ddprun::placement {

namespace {

std::string allowed_hint(const PlacementRequest& request) {
  return fmt::format("the CPUs that may be used here: {}", facts::render_cpu_list(request.allowed_cpus));
}

// The listed CPUs cut to the allowed ones; with whole cores, a listed CPU stands for all of its core.
class ListReader {
 public:
  explicit ListReader(const PlacementRequest& request) : request_(request), allowed_(request.allowed_cpus) {}

  std::vector<int> read(const std::vector<int>& listed) {
    std::set<int> cpus;
    for (const int cpu : listed) {
      bool there = false;
      for (const int each : meant_by(cpu)) {
        if (!allowed_.contains(each)) continue;
        cpus.insert(each);
        there = true;
      }
      if (!there) left_out_.insert(cpu);
    }
    return {cpus.begin(), cpus.end()};
  }

  std::vector<int> left_out() const { return {left_out_.begin(), left_out_.end()}; }

 private:
  std::vector<int> meant_by(int cpu) const {
    if (request_.bind.whole_cores) {
      for (const facts::Core& core : request_.topology.cores) {
        if (std::ranges::binary_search(core.cpus, cpu)) return core.cpus;
      }
    }
    return {cpu};
  }

  const PlacementRequest& request_;
  CpuSet allowed_;
  std::set<int> left_out_;
};

}  // namespace

ReadLists read_lists(const PlacementRequest& request) {
  const std::size_t workers = request.near_gpus.size();
  const auto& lists = request.bind.lists;
  if (lists.size() != 1 && lists.size() != workers) {
    throw UsageError(fmt::format("{} has {} for {}", request.bind.origin,
                                 count_of(static_cast<std::int64_t>(lists.size()), "list"),
                                 count_of(static_cast<std::int64_t>(workers), "worker")),
                     "give a list for each worker, or a single one that all share");
  }
  ListReader reader(request);
  ReadLists read;
  for (const std::vector<int>& listed : lists) {
    read.lists.push_back(reader.read(listed));
    if (!read.lists.back().empty()) continue;
    const std::string whom = lists.size() == workers ? fmt::format("worker {}", read.lists.size() - 1)
                                                     : std::string("the workers");
    throw UsageError(fmt::format("{} leaves {} no CPU: none of {} may be used here", request.bind.origin,
                                 whom, facts::render_cpu_list(listed)),
                     allowed_hint(request));
  }
  const std::vector<int> left_out = reader.left_out();
  if (!left_out.empty()) {
    read.notices.push_back({fmt::format("{} names CPUs that may not be used here and are left out: {}",
                                        request.bind.origin, facts::render_cpu_list(left_out)),
                            allowed_hint(request)});
  }
  return read;
}

}  // namespace ddprun::placement
