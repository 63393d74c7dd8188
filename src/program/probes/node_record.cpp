#include "probes/node_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "check/finding.hpp"
#include "check/record_fields.hpp"
#include "facts/program.hpp"
#include "inspection/host_condition.hpp"
#include "inspection/nvml_health.hpp"
#include "net/name_lookup.hpp"
#include "os/clock.hpp"
#include "os/files/slow_files.hpp"
#include "os/libraries/nvml.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/machine/capture_step.hpp"
#include "os/process/child_call.hpp"
#include "plan/network_order.hpp"
#include "plan/worker_command.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "version_number.hpp"

namespace ddprun::probes {

namespace {

constexpr Milliseconds k_patience{5000};
constexpr Milliseconds k_soon{300};                // for all folders together
constexpr Milliseconds k_starved{12000};           // four times the patience of a look
constexpr std::uint64_t k_local_bytes = 8 << 20;   // written to try a disk of this node
constexpr std::uint64_t k_shared_bytes = 1 << 20;  // to one that all nodes try at once
constexpr const char* k_usual_tmpdir = "/tmp";
constexpr const char* k_nvml = "libnvidia-ml.so.1";

struct FolderToTry {
  std::string purpose;
  std::string path;
  std::uint64_t bytes;
};

std::vector<FolderToTry> folders_to_try(const CheckedNode& node, const facts::Environment& environment) {
  std::string temporary = facts::variable_or_empty(environment, "TMPDIR");
  if (temporary.empty()) temporary = k_usual_tmpdir;
  const std::string home = node.again ? "" : facts::variable_or_empty(environment, "HOME");
  std::vector<FolderToTry> folders{
      {"temporary files", temporary, k_local_bytes},
      {check::k_beside_tmpdir, temporary == k_usual_tmpdir ? "" : k_usual_tmpdir, 0},
      {"shared memory", "/dev/shm", 0},
      {"home", home, k_shared_bytes},
      {"log folder", node.log_folder, k_shared_bytes}};
  std::erase_if(folders, [](const FolderToTry& each) { return each.path.empty(); });
  if (node.quick) {
    for (FolderToTry& each : folders) each.bytes = 0;
  }
  return folders;
}

std::string try_folders(const std::vector<FolderToTry>& folders) {
  std::vector<check::Folder> tried;
  for (const auto& [purpose, path, bytes] : folders) {
    const inspection::FolderState state = inspection::try_folder(path, bytes);
    tried.push_back({purpose, path, state.size, state.free, state.write_rate, state.problem});
  }
  return check::render_json_text(tried);
}

struct FolderCall {
  explicit FolderCall(std::vector<FolderToTry> tried) : folders(std::move(tried)) {}
  std::vector<FolderToTry> folders;
  os::ChildCall call{[this] { return try_folders(folders); }};
};

// False where one of several folders is the reason of no answer.
bool add_folders(check::HostRecord& record, FolderCall& tried, Milliseconds patience) {
  const os::ChildAnswer answer = tried.call.wait(patience, k_starved);
  if (!answer.bytes && tried.folders.size() > 1) return false;
  std::vector<check::Folder> told;
  if (answer.bytes)
    told = check::parse_json_text<std::vector<check::Folder>>(*answer.bytes);
  else
    told.push_back({tried.folders.front().purpose, tried.folders.front().path, 0, 0, 0, answer.problem});
  std::ranges::move(told, std::back_inserter(record.folders));
  return true;
}

// Versions show only beside those of other nodes.
void add_software(check::HostRecord& record, const facts::Snapshot& snapshot, bool quick) {
  std::string python;
  try {
    python = plan::find_python(snapshot);
  } catch (const Error& error) {
    record.python_problem = error.what();
  }
  if (quick) return;
  record.versions = inspection::driver_versions();
  record.versions["ddprun"] = DDPRUN_VERSION;
  record.versions["kernel"] = inspection::kernel_release();
  if (const std::string model = inspection::processor_model(); !model.empty()) record.versions["CPU"] = model;
  if (python.empty()) return;
  const auto found = snapshot.programs.find(python);
  const std::string program = found == snapshot.programs.end() ? python : found->second.path;
  const facts::PythonFacts facts = os::capture_python(program, snapshot.environment);
  if (!facts.version.empty()) record.versions["Python"] = facts.version;
  if (!facts.torch.empty()) record.versions["torch"] = facts.torch;
  if (const std::string nccl = os::find_nccl_version(program, snapshot.environment); !nccl.empty())
    record.versions["NCCL"] = nccl;
}

void add_addresses(check::HostRecord& record, const CheckedNode& node, const facts::HostFacts& host) {
  for (const facts::InterfaceAddress& each : host.addresses) {
    if (!each.loopback) record.addresses.push_back(each.address);
    if (std::ranges::find(record.interfaces, each.interface) == record.interfaces.end())
      record.interfaces.push_back(each.interface);
  }
  record.address = node.address;
  if (node.address.empty()) return;
  record.interface = rendezvous::interface_of(host.addresses, node.address);
  record.mtu = inspection::interface_mtu(record.interface);
}

void add_share(check::HostRecord& record, const facts::HostFacts& host) {
  record.cpus = static_cast<int>(host.allowed_cpus.size());
  record.online_cpus = os::capture_online_cpus();
  record.cpu_quota = host.cpu_quota.value_or(0);
  record.memory = os::usable_memory().value_or(0);
  record.free_memory = os::free_memory().value_or(0);
  record.infiniband = inspection::has_rdma();
  record.cards = inspection::capture_cards();
  record.limits = inspection::soft_limits();
  record.search_domains = inspection::count_search_domains();
  record.visible_gpus = static_cast<int>(host.gpus.size());
}

struct GpuCalls {
  os::ChildCall list{[] { return os::ask_nvml(k_nvml); }};
  os::ChildCall health{[] { return inspection::ask_nvml_health(k_nvml); }};
  os::ChildCall log{[] { return check::render_json_text(inspection::capture_kernel_log()); }};
};

void add_gpus(check::HostRecord& record, GpuCalls& calls, Milliseconds patience) {
  const os::ChildAnswer listed = calls.list.wait(patience, k_starved);
  const os::NvmlAnswer told = os::parse_nvml_answer(listed.bytes.value_or(""));
  record.lost_gpus = told.lost;
  record.nvlink_domain = told.fabric;
  record.gpu_problem = listed.bytes ? told.problem : listed.problem;
  const os::ChildAnswer shown = calls.health.wait(patience, k_starved);
  if (shown.bytes && !shown.bytes->empty())
    record.gpus = check::parse_json_text<std::vector<check::GpuHealth>>(*shown.bytes);
  const os::ChildAnswer logged = calls.log.wait(patience, k_starved);
  if (logged.bytes) record.kernel_log = check::parse_json_text<check::KernelLog>(*logged.bytes);
}

double seconds_since(TimePoint start) { return std::chrono::duration<double>(os::now() - start).count(); }

void add_names(check::HostRecord& record) {
  if (record.address.empty()) return;
  TimePoint start = os::now();
  record.name_addresses = net::look_up_name(record.host, k_patience);
  record.name_time = seconds_since(start);
  start = os::now();
  net::has_name(record.address, k_patience);
  record.reverse_time = seconds_since(start);
}

}  // namespace

check::HostRecord make_node_record(const CheckedNode& node, const facts::Snapshot& snapshot) {
  const Milliseconds patience = node.quick ? node.patience : k_patience;
  const std::vector<FolderToTry> folders = folders_to_try(node, snapshot.environment);
  // A child is the copy of a whole agent. One for each folder tells which hangs.
  std::optional<FolderCall> together;
  std::deque<FolderCall> apart;
  const auto try_apart = [&] {
    for (const FolderToTry& each : folders) apart.emplace_back(std::vector{each});
  };
  node.quick ? void(together.emplace(folders)) : try_apart();
  std::optional<GpuCalls> gpu_calls;
  if (os::shows_nvidia()) gpu_calls.emplace();
  check::HostRecord record;
  record.rank = node.rank;
  record.workers = node.workers;
  record.host = snapshot.host.name;
  record.switches = plan::find_own_switches(snapshot, snapshot.host.name).value;
  add_addresses(record, node, snapshot.host);
  add_share(record, snapshot.host);
  add_software(record, snapshot, node.quick);
  for (const std::string& name : check::known_variables()) {
    if (const auto value = facts::find_variable(snapshot, name)) record.variables[name] = *value;
  }
  add_names(record);
  if (together && !add_folders(record, *together, k_soon)) try_apart();
  for (FolderCall& each : apart) add_folders(record, each, patience);
  if (gpu_calls) add_gpus(record, *gpu_calls, patience);
  return record;
}

std::optional<allocation::Notice> exclude_node(const plan::NodeProposal& node) {
  const std::string& file = node.options.check.exclude_file;
  const std::string problem = file.empty() ? "" : os::add_slow_line(file, node.host);
  if (problem.empty()) return std::nullopt;
  return allocation::Notice{fmt::format("cannot write {} on {}: {}", file, node.host, problem),
                            "name another file with --exclude-file"};
}

namespace {

constexpr Milliseconds k_deep_limit{180000};
constexpr std::string_view k_result_mark = "\nddprun-deep-check ";

std::string last_line(std::string_view text) {
  text = trim(text);
  return printable(text.substr(text.rfind('\n') + 1), 200);
}

}  // namespace

check::DeepResult run_deep_check(int rank, const facts::Snapshot& snapshot) {
  const std::string python = plan::find_python(snapshot);
  const std::string text = os::ask_program({python, "-c", std::string(k_deep_check_script)}, k_deep_limit);
  check::DeepResult result;
  const std::size_t mark = text.rfind(k_result_mark);
  if (mark != std::string::npos) {
    const std::size_t begin = mark + k_result_mark.size();
    result = check::parse_json_text<check::DeepResult>(text.substr(begin, text.find('\n', begin) - begin));
  } else if (text.empty()) {
    result.error = fmt::format("{} cannot be started, or prints no result", printable(python, 120));
  } else {
    result.error = last_line(text);
  }
  result.rank = rank;
  result.host = snapshot.host.name;
  return result;
}

}  // namespace ddprun::probes
