// Records as JSON text and back, by one description for both directions: a member's name is its key.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "check/finding.hpp"
#include "check/gpu_release.hpp"
#include "check/host_record.hpp"

namespace ddprun::check {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Folder, purpose, path, size, free, write_rate, problem)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GpuHealth, address, model, memory, used, processes,
                                                uncorrected, rows_pending, rows_failed, slowed, link_width,
                                                full_link_width, nvlinks, nvlinks_down)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GpuHolder, pid, memory, name, user)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GpuMemory, address, used, holders)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Xid, number, gpu, sequence, time, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(KernelLog, newest, xids)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Connection, to_rank, to, address, port, latency, rate,
                                                path_mtu, problem, stalled, name_addresses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HostRecord, rank, host, addresses, interfaces, address,
                                                interface, mtu, versions, python_problem, workers, cpus,
                                                online_cpus, cpu_quota, memory, free_memory, cards, switches,
                                                nvlink_domain, infiniband, limits, folders, name_addresses,
                                                name_time, reverse_time, search_domains, gpus, lost_gpus,
                                                gpu_problem, kernel_log, visible_gpus, variables,
                                                clock_offset, clock_uncertainty, connections)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DeepResult, rank, host, device, backend, matmul, sizes, rates,
                                                error)

template <class Record>
std::string render_json_text(const Record& record) {
  return write_json_text(nlohmann::json(record));
}

// Throws Error.
template <class Record>
Record parse_json_text(const std::string& json) {
  try {
    return read_json_text(json).get<Record>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("a result of the check cannot be read: ") + error.what());
  }
}

}  // namespace ddprun::check
