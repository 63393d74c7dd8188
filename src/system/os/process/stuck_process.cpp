#include "os/process/stuck_process.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

// Reads the wait channel; empty if the kernel shows none ("0"), or not to us.
std::string read_wait_channel(const std::string& folder) {
  const std::string channel(trim(try_read_file(folder + "/wchan").value_or("")));
  return channel == "0" ? std::string() : channel;
}

void look_at_threads(facts::StuckProcess& process) {
  const std::string tasks = fmt::format("/proc/{}/task", process.pid);
  for (const std::string& thread : list_folder(tasks)) {
    const std::string folder = tasks + "/" + thread;
    const auto entry = parse_process_stat(try_read_file(folder + "/stat").value_or(""));
    if (!entry || entry->state != 'D') continue;
    process.state = 'D';
    process.wait_channel = read_wait_channel(folder);
    return;
  }
}

}  // namespace

facts::StuckProcess capture_stuck_process(int pid) {
  facts::StuckProcess process;
  process.pid = pid;
  const auto entry = capture_process(pid);
  if (!entry) return process;
  const std::string folder = fmt::format("/proc/{}", pid);
  process.name = entry->name;
  process.state = entry->state;
  process.wait_channel = read_wait_channel(folder);
  look_at_threads(process);
  process.tracer = facts::parse_tracer_pid(try_read_file(folder + "/status").value_or("")).value_or(0);
  const auto tracer = process.tracer != 0 ? capture_process(process.tracer) : std::nullopt;
  if (tracer) process.tracer_name = tracer->name;
  return process;
}

}  // namespace ddprun::os
