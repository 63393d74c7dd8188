#include "rendezvous/lifeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "rendezvous/codec.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr std::string_view k_task_mark = "ddprun task 1";
constexpr std::size_t k_most_addresses = 16;
constexpr std::size_t k_most_id = 64;

// First letters of a payload.
constexpr char k_hello = 'h', k_wanting_hello = 'w', k_task = 't', k_signal = 's', k_ended = 'e',
               k_not_started = 'n', k_coordinated = 'c', k_output = 'o', k_error = 'r';

// Flags of a signal, sent before its number.
constexpr char k_hurry = '!', k_no_hurry = '.', k_whole_tree = '*', k_alone = '1', k_explained = '=',
               k_unexplained = '-';

// A host's own value counts where it has one: devices, and PBS' CPUs of the chunk, which ssh does not bring
// along and without which OMP_NUM_THREADS could not be told from a user's (plan/worker_count.cpp).
constexpr auto k_own_first_variables = std::to_array<std::string_view>(
    {"NCPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
     "GPU_DEVICE_ORDINAL", "CUDA_DEVICE_ORDER"});

constexpr auto k_host_variables = std::to_array<std::string_view>({"HOSTNAME",
                                                                   "HOST",
                                                                   "TMPDIR",
                                                                   "XDG_RUNTIME_DIR",
                                                                   "XDG_SESSION_ID",
                                                                   "PBS_NODENUM",
                                                                   "PBS_TASKNUM",
                                                                   "PBS_MOMPORT",
                                                                   "PBS_VNODENUM",
                                                                   "SLURMD_NODENAME",
                                                                   "SLURM_NODEID",
                                                                   "SLURM_PROCID",
                                                                   "SLURM_LOCALID",
                                                                   "SLURM_GTIDS",
                                                                   "SLURM_TASK_PID",
                                                                   "SLURM_CPUS_ON_NODE",
                                                                   "SLURM_GPUS_ON_NODE",
                                                                   "SLURM_STEP_GPUS",
                                                                   "SLURM_JOB_GPUS",
                                                                   "SLURM_TOPOLOGY_ADDR",
                                                                   "LSF_PM_TASKID"});

// Prefixes of variables that belong to a login on that host, or to an MPI launcher's process there.
constexpr auto k_host_prefixes = std::to_array<std::string_view>(
    {"SSH_", "PMI_", "PMIX_", "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "HYDI_",
     "MPI_LOCAL", "PALS_", "JSM_", "FLUX_TASK_"});

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

bool is_own_first(std::string_view name) {
  return std::find(k_own_first_variables.begin(), k_own_first_variables.end(), name) !=
         k_own_first_variables.end();
}

bool belongs_to_host(std::string_view name) {
  return std::find(k_host_variables.begin(), k_host_variables.end(), name) != k_host_variables.end() ||
         std::any_of(k_host_prefixes.begin(), k_host_prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string payload_of(const lifeline::Hello& hello) {
  return fmt::format("{}{} {}", hello.wants_task ? k_wanting_hello : k_hello, hello.place,
                     hello.host.substr(0, k_max_text));
}
std::string payload_of(const lifeline::Task& task) { return k_task + task.bytes; }
std::string payload_of(const lifeline::Signal& signal) {
  return fmt::format("{}{}{}{}{}", k_signal, signal.hurry ? k_hurry : k_no_hurry,
                     signal.whole_tree ? k_whole_tree : k_alone,
                     signal.explained ? k_explained : k_unexplained, signal.number);
}
std::string payload_of(const lifeline::Ended& ended) {
  const char kind = !ended.started ? k_not_started : ended.coordinated ? k_coordinated : k_ended;
  return fmt::format("{}{}", kind, ended.code);
}

std::string payload_of(const lifeline::Output& output) {
  return fmt::format("{}{}", output.stream == lifeline::Stream::error ? k_error : k_output,
                     output.host.substr(0, k_max_text));
}

std::optional<int> number_between(std::string_view text, int least, int most) {
  const auto number = parse_integer(text);
  if (!number || *number < least || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<lifeline::Message> decode_hello(std::string_view text, bool wants_task) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos || text.size() - blank - 1 > k_max_text) return std::nullopt;
  const auto place = number_between(text.substr(0, blank), -1, 1 << 24);
  if (!place) return std::nullopt;
  return lifeline::Hello{*place, std::string(text.substr(blank + 1)), wants_task};
}

std::optional<lifeline::Message> decode_output(std::string_view host, lifeline::Stream stream) {
  if (host.size() > k_max_text) return std::nullopt;
  return lifeline::Output{stream, std::string(host)};
}

std::optional<lifeline::Message> decode_signal(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  const auto is_one_of = [](char c, char yes, char no) { return c == yes || c == no; };
  const bool known = is_one_of(text[0], k_hurry, k_no_hurry) && is_one_of(text[1], k_whole_tree, k_alone) &&
                     is_one_of(text[2], k_explained, k_unexplained);
  const auto number = number_between(text.substr(3), 1, 64);
  if (!known || !number) return std::nullopt;
  return lifeline::Signal{*number, text[0] == k_hurry, text[1] == k_whole_tree, text[2] == k_explained};
}

}  // namespace

std::string to_string(const FrontEndAddress& address) {
  return fmt::format("{}:{}/{}", join(address.addresses, ","), address.port, address.id);
}

std::optional<FrontEndAddress> parse_front_end_address(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view place = text.substr(0, slash);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = number_between(place.substr(colon + 1), 1, 65535);
  FrontEndAddress address{split(place.substr(0, colon), ','), port.value_or(0),
                          std::string(text.substr(slash + 1))};
  const bool good = port && address.addresses.size() <= k_most_addresses &&
                    !address.addresses.front().empty() && !address.id.empty() &&
                    address.id.size() <= k_most_id;
  return good ? std::optional(std::move(address)) : std::nullopt;
}

std::string lifeline_key(const std::string& id) { return "front-end/" + id; }

// Strings that end with NUL, which neither arguments nor variables can hold: the mark, the directory, the
// umask, the number of arguments, the arguments, the variables.
std::string encode(const AgentTask& task) {
  std::string bytes;
  const auto add = [&bytes](std::string_view text) { bytes.append(text).push_back('\0'); };
  add(k_task_mark);
  add(task.directory);
  add(std::to_string(task.arguments.size()));
  for (const std::string& argument : task.arguments) add(argument);
  for (const std::string& variable : task.environment) add(variable);
  add("end");
  return bytes;
}

std::optional<AgentTask> decode_task(std::string_view bytes) {
  if (bytes.size() > k_max_task || bytes.empty() || bytes.back() != '\0') return std::nullopt;
  const std::vector<std::string> parts = split(bytes.substr(0, bytes.size() - 1), '\0');
  if (parts.size() < 4 || parts[0] != k_task_mark || parts.back() != "end") return std::nullopt;
  const auto count = number_between(parts[2], 0, static_cast<int>(parts.size()) - 4);
  if (!count) return std::nullopt;
  const auto first = parts.begin() + 3;
  return AgentTask{{first, first + *count}, parts[1], {first + *count, parts.end() - 1}};
}

std::string lifeline::encode(const Message& message) {
  return make_frame(std::visit([](const auto& each) { return payload_of(each); }, message));
}

std::optional<lifeline::Message> lifeline::decode(std::string_view payload) {
  if (payload.empty()) return std::nullopt;
  const std::string_view rest = payload.substr(1);
  switch (payload.front()) {
    case k_hello:
      return decode_hello(rest, false);
    case k_wanting_hello:
      return decode_hello(rest, true);
    case k_task:
      return Task{std::string(rest)};
    case k_signal:
      return decode_signal(rest);
    case k_ended:
      if (const auto code = number_between(rest, 0, 255)) return Ended{*code};
      return std::nullopt;
    case k_coordinated:
      if (const auto code = number_between(rest, 0, 255)) return Ended{*code, true, true};
      return std::nullopt;
    case k_not_started:
      if (const auto code = number_between(rest, 1, 255)) return Ended{*code, false};
      return std::nullopt;
    case k_output:
      return decode_output(rest, Stream::output);
    case k_error:
      return decode_output(rest, Stream::error);
    default:
      return std::nullopt;
  }
}

std::vector<std::string> merge_environments(const std::vector<std::string>& front_end,
                                            const std::vector<std::string>& own) {
  const auto own_has = [&](std::string_view name) {
    return std::any_of(own.begin(), own.end(), [&](const auto& entry) { return name_of(entry) == name; });
  };
  std::vector<std::string> merged;
  for (const std::string& entry : front_end) {
    const std::string_view name = name_of(entry);
    if (belongs_to_host(name) || (is_own_first(name) && own_has(name))) continue;
    merged.push_back(entry);
  }
  for (const std::string& entry : own) {
    const std::string_view name = name_of(entry);
    if (belongs_to_host(name) || is_own_first(name)) merged.push_back(entry);
  }
  return merged;
}

}  // namespace ddprun::rendezvous
