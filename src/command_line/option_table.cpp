#include "command_line/option_table.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "command_line/option_setters.hpp"

namespace ddprun::command_line {

namespace {

using enum OptionValue;
using enum OptionSource;
using enum OptionGroup;
using enum Completes;

constexpr char k_no_letter = '\0';

OptionEntry flag(const char* name, char letter, OptionSource source, OptionGroup group, const char* help,
                 void (*apply)(Draft&, const Given&)) {
  return {name, letter, none, "", source, group, nothing, "", help, apply};
}

OptionEntry value(const char* name, const char* metavar, OptionSource source, OptionGroup group,
                  const char* help, void (*apply)(Draft&, const Given&)) {
  return {name, k_no_letter, required, metavar, source, group, nothing, "", help, apply};
}

OptionEntry file_value(const char* name, const char* metavar, OptionSource source, OptionGroup group,
                       const char* help, void (*apply)(Draft&, const Given&)) {
  return {name, k_no_letter, required, metavar, source, group, file, "", help, apply};
}

OptionEntry word_value(const char* name, const char* metavar, const char* choices, OptionSource source,
                       OptionGroup group, const char* help, void (*apply)(Draft&, const Given&)) {
  return {name, k_no_letter, required, metavar, source, group, words, choices, help, apply};
}

OptionEntry with_letter(OptionEntry option, char letter) {
  option.letter = letter;
  return option;
}

void add_program_and_workers(std::vector<OptionEntry>& table) {
  table.insert(
      table.end(),
      {flag("module", 'm', torchrun, program, "run SCRIPT as a module, as python -m does", setters::module),
       flag("no-python", k_no_letter, torchrun, program, "run the program itself, without python",
            setters::no_python),
       flag("run-path", k_no_letter, torchrun, program, "run the file with python even if it is executable",
            setters::run_path),
       value("container", "COMMAND", own, program,
             "command that starts each worker in a container and gets its variables, as in 'apptainer exec "
             "IMAGE'",
             setters::container),
       file_value("stage", "PATH", own, program,
                  "copy a virtual or conda environment, image, tar, file or folder to every node and use the "
                  "copy; may be repeated",
                  setters::stage),
       file_value("stage-to", "FOLDER", own, program,
                  "folder of each node for these copies (default: TMPDIR, else /dev/shm)", setters::stage_to),
       flag("stage-keep", k_no_letter, own, program, "keep these copies for the next job",
            setters::stage_keep),
       flag("no-use-env", k_no_letter, own, program,
            "pass --local-rank=N to SCRIPT before its arguments, as torch.distributed.launch does",
            setters::no_use_env),
       word_value("nproc-per-node", "N", "auto gpu cpu xpu", torchrun, workers,
                  "workers per node: a number, auto, gpu, cpu or xpu (default: one per visible GPU, else 1)",
                  setters::workers_per_node),
       value("nnodes", "N", torchrun, workers,
             "number of nodes, or MIN:MAX to continue with MIN nodes or more (default: those of the "
             "allocation, "
             "else 1)",
             setters::nodes),
       value("node-rank", "R", torchrun, workers,
             "rank of this node, from 0 (default: its position in the allocation)", setters::node_rank),
       value("master-addr", "HOST", torchrun, workers,
             "address of the coordinator (default: the first node of the allocation)",
             setters::master_address),
       value("master-port", "PORT", torchrun, workers,
             "port of the coordinator (default: from the job; outside a job 29500, or 29400 with "
             "--rdzv-endpoint)",
             setters::master_port),
       value("local-addr", "HOST", torchrun, workers,
             "address other nodes use for this node (default: detected)", setters::local_address),
       flag("standalone", k_no_letter, torchrun, workers,
            "run on this machine only, whatever the scheduler's variables say", setters::standalone),
       value("hosts", "LIST", own, workers, "hosts to run on, started through ssh: n1,n2 or n[1-4]",
             setters::hosts),
       file_value("hostfile", "FILE", own, workers, "the same from a file, one host per line",
                  setters::hostfile),
       word_value("launcher", "NAME", "srun mpiexec pbsdsh pbs_tmrsh ssh flux blaunch qrsh oarsh pjrsh none",
                  own, workers,
                  "remote launcher: srun, mpiexec, pbsdsh, ssh, ... or none (default: the scheduler's)",
                  setters::launcher),
       word_value("scheduler", "NAME", "flux slurm pbs lsf sge oar pjm mpi none", own, workers,
                  "scheduler that defines the job layout: flux, slurm, pbs, lsf, sge, oar, pjm, mpi or none "
                  "(default: detected)",
                  setters::scheduler),
       value("role", "NAME", torchrun, workers, "value of ROLE_NAME in the workers (default: default)",
             setters::role),
       flag("virtual-local-rank", k_no_letter, torchrun, workers,
            "every worker gets LOCAL_RANK 0 and sees one GPU", setters::virtual_local_rank)});
}

void add_discovery(std::vector<OptionEntry>& table) {
  table.insert(
      table.end(),
      {value("rdzv-endpoint", "HOST[:PORT]", torchrun, discovery, "--master-addr and --master-port in one",
             setters::rendezvous_endpoint),
       value("rdzv-id", "ID", torchrun, discovery, "name of the job (default: the scheduler's job and step)",
             setters::rendezvous_id),
       word_value("rdzv-backend", "NAME", "static c10d", torchrun, discovery,
                  "static or c10d; both use ddprun's own rendezvous", setters::rendezvous_backend),
       value("rdzv-conf", "KEY=VALUE,...", torchrun, discovery,
             "join_timeout sets --join-timeout, last_call_timeout the wait for more nodes; others have no "
             "effect",
             setters::rendezvous_conf),
       value("join-timeout", "TIME", own, discovery, "how long to wait for all nodes (default: 10m)",
             setters::join_timeout),
       word_value(
           "rdzv", "HOW", "auto pmi file", own, discovery,
           "how nodes find the coordinator when host names are unknown: auto, pmi or file (default: auto)",
           setters::rendezvous),
       file_value("rdzv-dir", "FOLDER", own, discovery,
                  "shared folder for the rendezvous file (default: ~/.ddprun)",
                  setters::rendezvous_directory),
       file_value(
           "key-file", "FILE", own, discovery,
           "key that authenticates the nodes (default: ~/.ddprun/key, where munge and the job provide none)",
           setters::key_file),
       word_value(
           "store", "WHO", "agent worker flat tree", own, discovery,
           "process that serves the workers' store: agent (ddprun), which adds a relay on each host in large "
           "jobs (tree) or in none (flat), or worker (rank 0) (default: agent)",
           setters::store),
       word_value("store-access", "WHO", "user host", own, discovery,
                  "processes that may use the store: user (the job user's) or host (all on its hosts) "
                  "(default: user)",
                  setters::store_access),
       value("store-memory", "SIZE", own, discovery,
             "memory limit of the store, as in 2G (default: a quarter of the host's memory or of the "
             "cgroup's limit)",
             setters::store_memory),
       file_value("site", "FILE|NAME|none", own, discovery,
                  "site profile: networks and variables (default: the one that matches this machine)",
                  setters::site)});
}

void add_binding(std::vector<OptionEntry>& table) {
  table.insert(
      table.end(),
      {word_value("bind", "HOW", "auto near none node socket exclusive core-complex core: cpu: mask:", own,
                  binding,
                  "cores of each worker: auto, near, none, node, socket, exclusive, core-complex, core:LIST, "
                  "mask:HEX (default: auto, those near its GPU, then idle ones of the same package)",
                  setters::bind),
       word_value("numa-binding", "MODE", "node socket exclusive core-complex", torchrun_plain, binding,
                  "torchrun's name for --bind", setters::numa_binding),
       word_value("membind", "HOW", "auto preferred bind none", own, binding,
                  "memory policy of each worker, for the NUMA nodes of its cores: auto, preferred, bind or "
                  "none (default: auto)",
                  setters::memory_bind),
       value("gpus-per-worker", "K", own, binding,
             "GPUs that each worker sees, its own only (default: every worker sees all)",
             setters::gpus_per_worker),
       word_value("nic", "HOW", "auto none", own, binding,
                  "auto selects the network card nearest to each worker's GPU (default: none)", setters::nic),
       flag("omp-places", k_no_letter, own, binding, "set OMP_PLACES and OMP_PROC_BIND to the worker's cores",
            setters::omp_places),
       flag("show-binding", k_no_letter, own, binding,
            "print the CPUs and memory of each worker, read back from the kernel", setters::show_binding),
       file_value("topology", "FILE|TEXT", own, binding,
                  "node description to use instead of this machine's: hwloc XML, JSON or synthetic text; - "
                  "reads standard input",
                  setters::topology),
       value("gpus", "N", own, binding, "number of GPUs of the node that --topology describes",
             setters::gpus)});
}

void add_failures(std::vector<OptionEntry>& table) {
  table.insert(
      table.end(),
      {value("max-restarts", "N", torchrun, failures, "restarts of all workers after a failure (default: 0)",
             setters::max_restarts),
       word_value("restart-policy", "RULE", "progress always never", own, failures,
                  "failures that lead to a restart: progress (not the same one twice in a row without "
                  "progress), always or never (default: progress)",
                  setters::restart_policy),
       value("min-progress", "TIME", own, failures,
             "a worker that ran longer than this made progress, as did one that created the file "
             "$DDPRUN_PROGRESS_FILE (default: 5m)",
             setters::min_progress),
       value("no-restart-on", "CODES", own, failures,
             "exit codes that end the job without a restart, as in 3,64; 128+n for signal n (default: none)",
             setters::no_restart_on),
       value("restart-backoff", "TIME", own, failures,
             "wait before the restart after an attempt of up to 10s; doubles with each in a row, up to 1m "
             "(default: 0)",
             setters::restart_backoff),
       OptionEntry{
           "standby", k_no_letter, optional, "on|off|N", own, failures, words, "on off",
           "keep a Python beside each worker, or N on each node, that has imported what it has, and takes "
           "its place at a restart (default: off)",
           setters::standby},
       value("standby-memory", "SIZE", own, failures,
             "host memory that each --standby Python may use, as in 4G (default: 2G)",
             setters::standby_memory),
       value("shutdown-timeout", "TIME", torchrun, failures,
             "time between the stop signal and SIGKILL (default: 30s; 25s under Slurm; 5s under PBS)",
             setters::shutdown_timeout),
       value("host-timeout", "TIME", own, failures,
             "how long a node may be unreachable before it is lost (default: 20s; 10s with --spares or "
             "MIN:MAX)",
             setters::host_timeout),
       value("spares", "K", own, failures,
             "nodes that wait, each to take the place of one that is lost (default: 0)", setters::spares),
       word_value("grow", "WHEN", "now at-restart never", own, failures,
                  "with --nnodes MIN:MAX or --spares, when a node that arrives late joins: now, at-restart "
                  "or never (default: now)",
                  setters::grow),
       value("signals-to-handle", "LIST", torchrun, failures,
             "signals that are forwarded to the workers and stop the job", setters::signals_to_handle)});
}

void add_hangs_and_limits(std::vector<OptionEntry>& table) {
  table.insert(
      table.end(),
      {OptionEntry{
           "hang-timeout", k_no_letter, required, "TIME|auto", own, failures, words, "auto",
           "report ranks that hang once no rank has made progress for this long; auto learns the time "
           "from the run (default: off)",
           setters::hang_timeout},
       word_value("on-hang", "ACTION", "restart stop report", own, failures,
                  "what follows a hang: restart, stop or report (default: restart where restarts are left, "
                  "else stop)",
                  setters::on_hang),
       value("exit-barrier-timeout", "TIME", own, failures,
             "how long the other ranks may run on after one has exited with 0; then as for a hang (default: "
             "off)",
             setters::exit_barrier_timeout),
       flag("no-inspect", k_no_letter, own, failures,
            "do not load ddprun's inspection module into the workers", setters::no_inspect),
       value("signal-before-end", "SIGNAL@TIME", own, failures,
             "signal the workers get this long before the job's time limit, as in USR1@120 (default: none)",
             setters::signal_before_end),
       OptionEntry{"requeue", k_no_letter, optional, "N", own, failures, nothing, "",
                   "ask the scheduler to run the job again, at most N times, when workers end after "
                   "--signal-before-end's signal or with a code of --requeue-on (default: off)",
                   setters::requeue},
       value("requeue-on", "CODES", own, failures,
             "exit codes that requeue the job, as in 85 (default: none)", setters::requeue_on),
       value("min-attempt-time", "TIME", own, failures,
             "start no attempt when less than this is left of the job's time limit (default: 0)",
             setters::min_attempt_time)});
}

void add_looking_and_about(std::vector<OptionEntry>& table) {
  table.insert(
      table.end(),
      {OptionEntry{"dry-run", k_no_letter, optional, "text|json|env|svg", own, looking, words,
                   "text json env svg", "print the plan and where every value came from; start nothing",
                   setters::dry_run},
       OptionEntry{
           "check", k_no_letter, optional, "table|json|deep|auto", own, looking, words,
           "table json deep auto",
           "check all nodes and the connections between them; run nothing, but with auto, which checks "
           "before the first attempt",
           setters::check},
       flag("strict", k_no_letter, own, looking, "with --check: exit with 1 for warnings too",
            setters::strict),
       file_value("exclude-file", "FILE", own, looking,
                  "with --check: write the names of nodes with errors to FILE, one per line",
                  setters::exclude_file),
       file_value("capture", "FILE", own, looking,
                  "write all that ddprun reads on this host to FILE, without secrets, and exit",
                  setters::capture),
       file_value("snapshot", "FILE", own, looking,
                  "plan from a captured FILE instead of this machine; implies --dry-run", setters::snapshot),
       file_value("report", "FILE", own, looking, "write how the job ended, and why, to FILE as JSON",
                  setters::report),
       file_value("events", "FILE", own, looking,
                  "append the events of the job to FILE, one JSON object per line", setters::events),
       file_value("metrics", "FILE", own, looking, "keep metrics in FILE for Prometheus' textfile collector",
                  setters::metrics),
       word_value("event-log-handler", "NAME", "null console dynamic_rendezvous", torchrun, looking,
                  "console is --events /dev/stderr; the others write nothing", setters::event_log_handler),
       file_value("timeline", "FILE", own, looking,
                  "draw the events in FILE as text, or as HTML with -o, and exit", setters::timeline),
       with_letter(file_value("output", "FILE", own, looking,
                              "HTML file that --timeline writes, or - for text (default: -)",
                              setters::timeline_output),
                   'o'),
       OptionEntry{"status", k_no_letter, optional, "table|json", own, looking, words, "table json",
                   "show the hosts, ranks and resource use of your jobs on this host, or of one JOB or PID",
                   setters::status},
       flag("stacks", k_no_letter, own, looking,
            "show where every rank of your jobs on this host is, or of one JOB or PID: collective and Python "
            "stack",
            setters::stacks),
       OptionEntry{"watch", k_no_letter, optional, "TIME", own, looking, nothing, "",
                   "with --status: repeat every TIME (default: 2s) until the job ends", setters::watch},
       flag("print-config", k_no_letter, own, looking,
            "print every option that is set, its value and its origin", setters::print_config),
       flag("verbose", 'v', own, looking, "print what ddprun does and why", setters::verbose),
       flag("quiet", 'q', own, looking, "print errors only", setters::quiet),
       flag("help", 'h', torchrun_plain, about, "print the common options", setters::help),
       flag("help-all", k_no_letter, own, about, "print all options", setters::help_all),
       flag("version", k_no_letter, own, about,
            "print the version, the build and the optional libraries that are found", setters::version),
       word_value("print-completion", "SHELL", "bash zsh fish tcsh", torchrun_plain, about,
                  "print the completion script for bash, zsh, fish or tcsh", setters::print_completion)});
}

void add_output(std::vector<OptionEntry>& table) {
  table.insert(
      table.end(),
      {with_letter(value("redirects", "CHOICE", torchrun, output,
                         "streams written to files only: 0 (none), 1 (stdout), 2 (stderr), 3 (both), or by "
                         "local rank as in 0:3,1:2",
                         setters::redirects),
                   'r'),
       with_letter(value("tee", "CHOICE", torchrun, output,
                         "streams written to files and, with the local rank before each line, to the console",
                         setters::tee),
                   't'),
       file_value("log-dir", "FOLDER", torchrun, output,
                  "folder for these files (default: a new one in TMPDIR)", setters::log_dir),
       value("local-ranks-filter", "RANKS", torchrun, output, "local ranks shown on the console, as in 0,1",
             setters::local_ranks_filter),
       value("duplicate-stdout-filters", "LIST", torchrun, output,
             "texts; stdout lines of --tee that contain one also go to filtered_stdout.log",
             setters::duplicate_output_filters),
       value("duplicate-stderr-filters", "LIST", torchrun, output,
             "texts; stderr lines of --tee that contain one also go to filtered_stderr.log",
             setters::duplicate_error_filters),
       value("log-line-prefix-template", "TEXT", torchrun, output,
             "prefix of each --tee line, with $rank, $local_rank, $role_name", setters::log_line_prefix),
       file_value("logs", "FOLDER", own, output,
                  "write both streams of every rank to FOLDER/JOB/attempt-N/rank-00005.{out,err}",
                  setters::logs),
       OptionEntry{
           "label", k_no_letter, optional, "TEXT", own, output, nothing, "",
           "put the rank before each line on the console; TEXT may hold {rank}, {local_rank}, {host}, "
           "{attempt}, {time} (default: [{rank}])",
           setters::label},
       value("ranks", "RANKS", own, output,
             "ranks whose output is shown on the console: 0,8-15, all or none (default: all)",
             setters::ranks),
       OptionEntry{"fold", k_no_letter, optional, "on|off", own, output, words, "on off",
                   "show lines that three or more ranks write at the same time once, as in [0-15] ... "
                   "(default: on stderr only, where the repeats are counted)",
                   setters::fold},
       flag("gather", k_no_letter, own, output,
            "print the output of all hosts on the coordinator, in whole lines", setters::gather),
       value("output-rate", "SIZE", own, output,
             "console limit of each stream in bytes per second, as in 1M; lines above it are counted",
             setters::output_rate),
       value("log-rotate", "SIZE[:N]", own, output,
             "start a new log file at SIZE bytes, as in 100M:5, and keep N older ones (default: 5)",
             setters::log_rotate),
       word_value("log-compress", "HOW", "zstd none", own, output,
                  "compress finished log files: zstd or none (default: none)", setters::log_compress),
       flag("timestamps", k_no_letter, own, output, "put the time (UTC) before each line of the log files",
            setters::timestamps)});
}

void add_compatibility(std::vector<OptionEntry>& table) {
  table.insert(table.end(),
               {value("monitor-interval", "SECONDS", torchrun, without_effect, "nothing is polled",
                      setters::monitor_interval),
                flag("use-env", k_no_letter, torchrun_plain, without_effect,
                     "LOCAL_RANK is always set (torch.distributed.launch)", setters::use_env),
                word_value("start-method", "NAME", "spawn fork forkserver", torchrun, without_effect,
                           "every worker is a separate program", setters::start_method),
                value("logs-specs", "NAME", torchrun_plain, unsupported, "a Python plug-in for logs",
                      setters::logs_specs)});
}

}  // namespace

const std::vector<OptionEntry>& option_table() {
  static const std::vector<OptionEntry> k_table = [] {
    std::vector<OptionEntry> table;
    add_program_and_workers(table);
    add_discovery(table);
    add_binding(table);
    add_failures(table);
    add_hangs_and_limits(table);
    add_output(table);
    add_looking_and_about(table);
    add_compatibility(table);
    return table;
  }();
  return k_table;
}

std::string variable_of(const OptionEntry& option) {
  if (option.source != torchrun) return "";
  std::string name = "PET_" + to_upper(option.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace ddprun::command_line
