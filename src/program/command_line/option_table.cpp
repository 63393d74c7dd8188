#include "command_line/option_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "allocation/detection/detect.hpp"
#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "command_line/option_rows.hpp"
#include "options/program_options.hpp"
#include "options/shell_words.hpp"
#include "output/log_layout.hpp"
#include "selflaunch/remote_launcher.hpp"

namespace ddprun::command_line {

namespace rows {
namespace {

constexpr OptionEntry k_program_and_workers[] = {
    with_letter('m', flag("module", torchrun, program, "run SCRIPT as a module, as python -m does",
                          [](Draft& draft, const Given&) { draft.module = true; })),
    flag("no-python", torchrun, program, "run the program itself, without python",
         [](Draft& draft, const Given&) { draft.no_python = true; }),
    flag("run-path", torchrun, program, "run the file with python even if it is executable",
         [](Draft& draft, const Given&) { draft.run_path = true; }),
    value(
        "container", "COMMAND", own, program,
        "command that starts each worker in a container and gets its variables, as in 'apptainer exec IMAGE'",
        [](Draft& draft, const Given& given) {
          draft.container = options::parse_container(given.value, given.origin);
        }),
    file_value("stage", "PATH", own, program,
               "copy a virtual or conda environment, image, tar, file or folder to every node and use the "
               "copy; may be repeated",
               [](Draft& draft, const Given& given) { draft.stage.paths.push_back(file_from(given)); }),
    file_value("stage-to", "FOLDER", own, program,
               "folder of each node for these copies (default: TMPDIR, else /dev/shm)",
               [](Draft& draft, const Given& given) { draft.stage.to = absolute_from(given, k_own_folder); }),
    flag("stage-keep", own, program, "keep these copies for the next job",
         [](Draft& draft, const Given&) { draft.stage.keep = true; }),
    flag("no-use-env", own, program,
         "pass --local-rank=N to SCRIPT before its arguments, as torch.distributed.launch does",
         [](Draft& draft, const Given&) { draft.local_rank_argument = true; }),
    word_value("nproc-per-node", "N", "auto gpu cpu xpu", torchrun, workers,
               "workers per node: a number, auto, gpu, cpu or xpu (default: one per visible GPU, else 1)",
               [](Draft& draft, const Given& given) {
                 if (given.value.empty()) throw no_value(given);
                 draft.workers = options::parse_workers_per_node(given.value, given.origin);
                 if (draft.workers.kind == options::WorkersKind::number) {
                   draft.place.workers_per_node = sourced(draft.workers.number, given.origin);
                 }
               }),
    value("nnodes", "N", torchrun, workers,
          "number of nodes, or MIN:MAX to continue with MIN nodes or more (default: those of the allocation, "
          "else 1)",
          [](Draft& draft, const Given& given) {
            if (given.value.empty()) throw no_value(given);
            const options::NodeRange range = options::parse_node_range(given.value, given.origin);
            draft.place.nodes = sourced(range.most, given.origin);
            draft.least_nodes.reset();
            if (range.least < range.most) draft.least_nodes = sourced(range.least, given.origin);
          }),
    value("node-rank", "R", torchrun, workers,
          "rank of this node, from 0 (default: its position in the allocation)",
          [](Draft& draft, const Given& given) {
            draft.place.node_rank = number_from(given, k_most, "a node rank", "node ranks start at 0");
          }),
    value("master-addr", "HOST", torchrun, workers,
          "address of the coordinator (default: the first node of the allocation)",
          [](Draft& draft, const Given& given) { draft.place.address = parsed(given, options::parse_host); }),
    value(
        "master-port", "PORT", torchrun, workers,
        "port of the coordinator (default: from the job; outside a job 29500, or 29400 with --rdzv-endpoint)",
        [](Draft& draft, const Given& given) {
          draft.place.port =
              number_from(given, 65535, "a port", "give a number up to 65535; 0 means a free port");
        }),
    value("local-addr", "HOST", torchrun, workers,
          "address other nodes use for this node (default: detected)",
          [](Draft& draft, const Given& given) { draft.local_address = parsed(given, options::parse_host); }),
    flag("standalone", torchrun, workers, "run on this machine only, whatever the scheduler's variables say",
         [](Draft& draft, const Given&) { draft.place.standalone = true; }),
    value(
        "hosts", "LIST", own, workers, "hosts to run on, started through ssh: n1,n2 or n[1-4]",
        [](Draft& draft, const Given& given) { draft.place.hosts = parsed(given, allocation::parse_hosts); }),
    file_value("hostfile", "FILE", own, workers, "file with the hosts to run on, one per line",
               [](Draft& draft, const Given& given) { draft.hostfile = file_from(given); }),
    file_value("order", "scheduler|network|FILE", own, workers,
               "order of the hosts' ranks: the scheduler's, that of switches and NVLink domains, or a file's "
               "(default: scheduler)",
               [](Draft& draft, const Given& given) {
                 draft.order = sourced(given.value, given.origin);
                 if (options::order_file(draft) == given.value) draft.order.value = file_from(given);
               }),
    word_value("launcher", "NAME", "srun mpiexec pbsdsh pbs_tmrsh ssh flux blaunch qrsh oarsh pjrsh none",
               own, workers,
               "remote launcher: srun, mpiexec, pbsdsh, ssh, ... or none (default: the scheduler's)",
               [](Draft& draft, const Given& given) {
                 choice_from(given, selflaunch::remote_launcher_names());
                 draft.remote_launcher = given;
               }),
    value("launcher-args", "WORDS", own, workers,
          "further options of the remote launcher, as one word that is split as a shell does",
          [](Draft&, const Given& given) {
            options::split_shell_words(given.value, given.origin, selflaunch::k_launcher_args_hint);
          }),
    word_value("scheduler", "NAME", "flux slurm pbs lsf sge oar pjm mpi none", own, workers,
               "scheduler that defines the job layout: flux, slurm, pbs, lsf, sge, oar, pjm, mpi or none "
               "(default: detected)",
               [](Draft& draft, const Given& given) {
                 choice_from(given, allocation::scheduler_names());
                 draft.place.scheduler = given;
               }),
    value("role", "NAME", torchrun, workers, "value of ROLE_NAME in the workers (default: default)",
          [](Draft& draft, const Given& given) { draft.role = given; }),
    flag("virtual-local-rank", torchrun, workers, "every worker gets LOCAL_RANK 0 and sees one GPU",
         [](Draft& draft, const Given&) { draft.virtual_local_rank = true; })};

constexpr OptionEntry k_discovery[] = {
    value("rdzv-endpoint", "HOST[:PORT]", torchrun, discovery, "--master-addr and --master-port in one",
          [](Draft& draft, const Given& given) {
            if (given.value.empty()) return;
            draft.endpoint = parsed(given, options::parse_endpoint);
          }),
    value("rdzv-id", "ID", torchrun, discovery, "name of the job (default: the scheduler's job and step)",
          [](Draft& draft, const Given& given) { draft.place.run_id = given; }),
    word_value("rdzv-backend", "NAME", "static c10d", torchrun, discovery,
               "static or c10d; both use ddprun's own rendezvous",
               [](Draft& draft, const Given& given) {
                 if (given.value == "etcd" || given.value == "etcd-v2") {
                   throw Unsupported(given.origin,
                                     fmt::format("{} {} is not supported", given.origin, given.value),
                                     "leave it out: ddprun has its own rendezvous and needs no etcd server");
                 }
                 if (given.value != "static" && given.value != "c10d") {
                   throw not_a(given, "known",
                               "leave it out, or give static or c10d; both mean ddprun's own rendezvous");
                 }
                 note(draft, given, "static and c10d both mean ddprun's own rendezvous");
               }),
    value(
        "rdzv-conf", "KEY=VALUE,...", torchrun, discovery,
        "join_timeout sets --join-timeout, last_call_timeout the wait for more nodes; others have no effect",
        [](Draft& draft, const Given& given) { draft.conf = parsed(given, options::parse_rendezvous_conf); }),
    value("join-timeout", "TIME", own, discovery, "how long to wait for all nodes (default: 10m)",
          [](Draft& draft, const Given& given) {
            draft.join_timeout = time_from(given);
            require(draft.join_timeout.value != Milliseconds{0}, given, "leaves no time to join",
                    "give a time above 0, as in 10m");
          }),
    word_value(
        "rdzv", "HOW", "auto pmi file", own, discovery,
        "how nodes find the coordinator when host names are unknown: auto, pmi or file (default: auto)",
        [](Draft& draft, const Given& given) {
          draft.discovery = enum_from<options::Discovery>(given).value;
        }),
    file_value("rdzv-dir", "FOLDER", own, discovery,
               "shared folder for the rendezvous file (default: ~/.ddprun)",
               [](Draft& draft, const Given& given) { draft.rendezvous_directory = folder_from(given); }),
    file_value(
        "key-file", "FILE", own, discovery,
        "key that authenticates the nodes (default: ~/.ddprun/key, where munge and the job provide none)",
        [](Draft& draft, const Given& given) { draft.key_file = file_from(given); }),
    word_value("store", "WHO", "agent worker flat tree", own, discovery,
               "process that serves the workers' store: agent (ddprun, with a relay on each host in large "
               "jobs), tree (always with relays), flat (without) or worker (rank 0) (default: agent)",
               [](Draft& draft, const Given& given) {
                 using Form = options::StoreTree::Form;
                 options::StoreTree tree;
                 Given form = given;
                 if (const std::size_t colon = given.value.find(':'); given.value.starts_with("tree:")) {
                   const auto fan_out = parse_integer(given.value.substr(colon + 1));
                   if (!fan_out || *fan_out < 2 || *fan_out > options::k_max_fan_out)
                     throw UsageError(
                         fmt::format("{} is not a store: '{}'", given.origin, given.value),
                         fmt::format("give tree or tree:N with N from 2 to {}", options::k_max_fan_out));
                   tree.fan_out = static_cast<int>(*fan_out);
                   form.value = "tree";
                 }
                 const auto choice = choice_from(form);
                 draft.store = choice == 1 ? options::StoreHost::worker : options::StoreHost::agent;
                 if (choice >= 2) tree.form = choice == 2 ? Form::flat : Form::tree;
                 draft.store_tree = tree;
               }),
    word_value(
        "store-access", "WHO", "user host", own, discovery,
        "processes that may use the store: user (the job user's) or host (all on its hosts) (default: user)",
        [](Draft& draft, const Given& given) {
          draft.store_access = enum_from<options::StoreAccess>(given).value;
        }),
    value("store-memory", "SIZE", own, discovery,
          "memory limit of the store, as in 2G (default: a quarter of the host's memory or of the cgroup's "
          "limit)",
          [](Draft& draft, const Given& given) { draft.store_memory = parsed(given, output::parse_memory); }),
    file_value("site", "FILE|NAME|none", own, discovery,
               "site profile: networks and variables (default: the one that matches this machine)",
               [](Draft& draft, const Given& given) {
                 draft.site = text_from(given, "names no site",
                                        "give a profile's name, the path of its file, or none");
               })};

constexpr OptionEntry k_binding[] = {
    word_value("bind", "HOW", "auto near none node socket exclusive core-complex core: cpu: mask:", own,
               binding,
               "cores of each worker: auto, near, none, node, socket, exclusive, core-complex, core:LIST, "
               "mask:HEX (default: auto, those near its GPU, then idle ones of the same package)",
               [](Draft& draft, const Given& given) {
                 draft.bind = options::parse_bind(given.value, given.origin);
               }),
    word_value("numa-binding", "MODE", "node socket exclusive core-complex", torchrun_plain, binding,
               "torchrun's name for --bind",
               [](Draft& draft, const Given& given) {
                 choice_from(given);
                 draft.bind = options::parse_bind(given.value, given.origin);
               }),
    word_value(
        "membind", "HOW", "auto preferred bind none", own, binding,
        "memory policy of each worker, for the NUMA nodes of its cores: auto, preferred, bind or none "
        "(default: auto)",
        [](Draft& draft, const Given& given) { draft.memory_bind = enum_from<options::MemoryBind>(given); }),
    value("gpus-per-worker", "K", own, binding,
          "number of GPUs that each worker sees (default: every worker sees all)",
          [](Draft& draft, const Given& given) {
            draft.gpus_per_worker =
                number_from(given, options::k_max_workers, "a number of GPUs", "give 1 or more");
            if (draft.gpus_per_worker.value < 1) throw not_a(given, "a number of GPUs", "give 1 or more");
          }),
    value("workers-per-gpu", "N", own, binding,
          "start N workers for each GPU; each sees that GPU only, as LOCAL_RANK 0 (default: one, which sees "
          "all)",
          [](Draft& draft, const Given& given) {
            const Sourced<int> number =
                number_from(given, options::k_max_workers, "a number of workers", "give 1 or more");
            if (number.value < 1) throw not_a(given, "a number of workers", "give 1 or more");
            draft.workers_per_gpu = number.value;
            draft.gpus_per_worker = sourced(1, given.origin);
          }),
    word_value(
        "nic", "HOW", "auto none", own, binding,
        "auto selects the network card nearest to each worker's GPU (default: none)",
        [](Draft& draft, const Given& given) { draft.nic = sourced(choice_from(given) == 0, given.origin); }),
    flag("omp-places", own, binding, "set OMP_PLACES and OMP_PROC_BIND to the worker's cores",
         [](Draft& draft, const Given&) { draft.omp_places = true; }),
    flag("show-binding", own, binding, "print the CPUs and memory of each worker, read back from the kernel",
         [](Draft& draft, const Given&) { draft.show_binding = true; }),
    file_value("topology", "FILE|TEXT", own, binding,
               "node description to use instead of this machine's: hwloc XML, JSON or synthetic text; - "
               "reads standard input",
               [](Draft& draft, const Given& given) {
                 draft.topology =
                     text_from(given, "describes no node",
                               "give a file, or hwloc's synthetic text such as 'pack:2 numa:1 core:16 pu:2'");
               }),
    value("gpus", "N", own, binding, "number of GPUs of the node that --topology describes",
          [](Draft& draft, const Given& given) {
            draft.gpus = number_from(given, options::k_max_workers, "a number of GPUs", "give 0 or more");
          })};

}  // namespace
}  // namespace rows

const std::vector<OptionEntry>& option_table() {
  static const std::vector<OptionEntry> k_table = [] {
    std::vector<OptionEntry> table;
    for (const std::span<const OptionEntry> part : std::initializer_list<std::span<const OptionEntry>>{
             std::span(rows::k_program_and_workers), rows::of_programs(), std::span(rows::k_discovery),
             std::span(rows::k_binding), rows::of_failures(), rows::of_output(), rows::of_looking()})
      table.insert(table.end(), part.begin(), part.end());
    return table;
  }();
  return k_table;
}

std::string variable_of(const OptionEntry& option) {
  if (option.source != OptionSource::torchrun) return "";
  std::string name = "PET_" + to_upper(option.name);
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace ddprun::command_line

namespace ddprun::command_line::rows {

// The rows of jobs of several programs.

namespace {

std::vector<std::string> names_from(const Given& given) {
  std::vector<std::string> names;
  for (const std::string& name : split(given.value, ','))
    names.push_back(options::parse_program_name(name, given.origin));
  return names;
}

std::string ready_from(const Given& given) {
  const auto port = parse_integer(given.value);
  require(port ? *port > 0 && *port < 65536 : given.value.starts_with('/'), given,
          "is neither a port nor an absolute path",
          "give the port that answers, or the file that appears, once it is ready");
  return given.value;
}

constexpr OptionEntry k_programs[] = {
    file_value("job", "FILE", own, programs, "read options and programs from a JSON file",
               [](Draft& draft, const Given& given) { draft.job_file = file_from(given); }),
    value("name", "NAME", own, programs, "name of this program (default: its script's)",
          [](Draft& draft, const Given& given) {
            draft.program.name = options::parse_program_name(given.value, given.origin);
          }),
    value("nodes", "LIST", own, programs,
          "nodes of this program: numbers in the job's order, as in 0-2, or hosts, as in n[1-3] (default: "
          "the next "
          "free ones)",
          [](Draft& draft, const Given& given) {
            draft.program.nodes =
                text_from(given, "names no node", "give numbers from 0, as in 0-2, or hosts");
          }),
    value("with", "NAME", own, programs, "run on the nodes of that program, and share their cores and GPUs",
          [](Draft& draft, const Given& given) {
            draft.program.with = options::parse_program_name(given.value, given.origin);
          }),
    value("after", "NAME,...", own, programs, "start this program once those are ready",
          [](Draft& draft, const Given& given) { draft.program.after = names_from(given); }),
    value("ready", "PORT|FILE", own, programs,
          "this program is ready once the port answers or the file is there (default: a worker has touched "
          "$DDPRUN_READY_FILE)",
          [](Draft& draft, const Given& given) { draft.program.ready = ready_from(given); }),
    value("ready-timeout", "TIME", own, programs,
          "how long this program waits for those of --after to be ready (default: 10m)",
          [](Draft& draft, const Given& given) {
            draft.program.ready_timeout = time_from(given).value;
            require(draft.program.ready_timeout > Milliseconds{0}, given, "of 0 waits for nothing",
                    "leave --after out, or give a time");
          }),
    word_value(
        "on-exit", "ACTION", "job fail restart ignore", own, programs,
        "what the end of this program means: job (the job ends with it), fail (its failure is the job's), "
        "restart (it starts again, alone) or ignore (default: job for the first program, else fail)",
        [](Draft& draft, const Given& given) {
          draft.program.on_exit = enum_from<options::OnExit>(given).value;
        }),
    flag("independent", own, programs,
         "start each worker of this program as a replica: one that ends is started again alone",
         [](Draft& draft, const Given&) { draft.program.independent = true; }),
    value("env", "NAME=VALUE", own, programs,
          "set a variable for the workers of this program; may be repeated",
          [](Draft& draft, const Given& given) {
            draft.program.environment.push_back(options::parse_variable(given.value, given.origin));
          })};

}  // namespace

std::span<const OptionEntry> of_programs() { return k_programs; }

}  // namespace ddprun::command_line::rows
namespace ddprun::command_line {

namespace {

struct Requirement {
  const char* name;
  std::array<const char*, 2> needed;  // one of them
  const char* hint;
};

constexpr const char* k_add_memory = "add --checkpoint-memory SIZE, as in 40G";

constexpr Requirement k_refused[] = {
    {"watch", {"status"}, "add --status"},
    {"strict", {"check"}, "add --check"},
    {"exclude-file", {"check"}, "add --check"},
    {"stacks-every", {"logs"}, "add --logs FOLDER"},
    {"profile-every", {"logs"}, "add --logs FOLDER"},
    {"output", {"timeline", "profile"}, "add --timeline FILE or --profile TIME"},
    {"checkpoint-folder", {"checkpoint-memory"}, k_add_memory},
    {"checkpoint-rate", {"checkpoint-memory"}, k_add_memory},
    {"checkpoint-flush", {"checkpoint-memory"}, k_add_memory},
    {"checkpoint-flush-every", {"checkpoint-flush"}, "add --checkpoint-flush FOLDER"},
    {"checkpoint-keep", {"checkpoint-memory"}, k_add_memory},
};

constexpr Requirement k_without_effect[] = {
    {"on-hang", {"hang-timeout", "exit-barrier-timeout"}, "add --hang-timeout auto"},
    {"on-slow", {"slow-notice"}, "add --slow-notice 10%"},
    {"standby-memory", {"standby"}, "add --standby"},
    {"stage-to", {"stage"}, "add --stage PATH"},
    {"stage-keep", {"stage"}, "add --stage PATH"},
    {"check-timeout", {"check-command"}, "add --check-command"},
    {"gpu-release-timeout", {"check"}, "add --check=auto"},
    {"requeue-on", {"requeue"}, "add --requeue"},
    {"no-requeue-on", {"requeue"}, "add --requeue"},
};

bool is_alone(const Draft& draft, const Requirement& requirement) {
  return is_typed(draft, requirement.name) &&
         std::ranges::none_of(requirement.needed, [&](const char* other) {
           return other != nullptr && draft.origins.contains(other);
         });
}

std::string describe(const Requirement& requirement) {
  std::vector<std::string> names;
  for (const char* other : requirement.needed) {
    if (other != nullptr) names.push_back(fmt::format("--{}", other));
  }
  return join(names, " or ");
}

// node_exporter's textfile collector reads *.prom and nothing else.
void warn_of_metrics_name(Draft& draft) {
  const std::string& file = draft.metrics_file;
  if (file.empty() || file.ends_with(".prom") || file.starts_with("/dev/")) return;
  const auto given = draft.origins.find("metrics");
  draft.warnings.push_back(
      {fmt::format("{} writes {}, which Prometheus' textfile collector ignores",
                   given == draft.origins.end() ? "--metrics" : given->second, printable(file)),
       "it reads files named *.prom: give the file such a name"});
}

}  // namespace

bool is_typed(const Draft& draft, const std::string& name) {
  const auto given = draft.origins.find(name);
  return given != draft.origins.end() && given->second.starts_with("--");
}

void check_requirements(const Draft& draft) {
  for (const Requirement& each : k_refused) {
    if (is_alone(draft, each))
      throw UsageError(fmt::format("--{} requires {}", each.name, describe(each)), each.hint);
  }
}

void warn_of_no_effect(Draft& draft) {
  for (const Requirement& each : k_without_effect) {
    if (is_alone(draft, each))
      draft.warnings.push_back(
          {fmt::format("--{} has no effect without {}", each.name, describe(each)), each.hint});
  }
  warn_of_metrics_name(draft);
}

}  // namespace ddprun::command_line
