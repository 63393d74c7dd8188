// Options of the user, from the command line and PET_ variables, as a value.
// The grammar of single options is here and pure; command_line turns argv into it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/manual.hpp"
#include "base/duration.hpp"
#include "base/sourced.hpp"
#include "facts/snapshot.hpp"
#include "options/bind_choice.hpp"
#include "options/container.hpp"
#include "options/fault_options.hpp"
#include "options/program_options.hpp"
#include "output/output_options.hpp"

namespace ddprun::options {

// Options for the store: who may use it (--store-access) and the relays before it.

// --store: whether the workers of each host reach the store through a relay on it.
struct StoreTree {
  enum class Form : std::uint8_t { automatic, flat, tree };
  Form form = Form::automatic;
  int fan_out = 32;  // relays that one serves, and the store itself; 2 .. k_max_fan_out
};

inline constexpr int k_max_fan_out = 1024;
// Number of workers from which relays are the default: with fewer one store is as fast (scripts/bench/scale).
inline constexpr int k_workers_for_tree = 512;

// Reports whether relays are used in a job that is expected to have so many workers.
inline bool wants_tree(const StoreTree& tree, int workers) {
  if (tree.form != StoreTree::Form::automatic) return tree.form == StoreTree::Form::tree;
  return workers >= k_workers_for_tree;
}

// --store-access: processes of the job's user, or all on its hosts.
enum class StoreAccess { user, host };

// Options for files on the nodes: paths that are copied before the start (--stage), checkpoints in memory.

// Options for checkpoints that are kept in the nodes' memory (--checkpoint-memory).

inline constexpr Milliseconds k_shortest_flush_pause{1'000};
inline constexpr const char* k_checkpoint_folder = "/dev/shm";

struct CheckpointOptions {
  std::optional<Sourced<std::uint64_t>> memory;  // bytes on a node; nullopt: no checkpoints are kept
  std::string folder = k_checkpoint_folder;      // --checkpoint-folder: on each node
  std::uint64_t rate = 0;                        // --checkpoint-rate: bytes a second of copying; 0: no limit
  std::string flush;                        // --checkpoint-flush: a folder that all nodes share; empty: none
  std::optional<Milliseconds> flush_every;  // nullopt: at the end of the job only
  bool keep = false;                        // --checkpoint-keep: memory stays for a requeued job
};

struct StageOptions {
  std::vector<std::string> paths;  // paths as given, in their order
  std::string to;                  // --stage-to: a folder of each host; empty: TMPDIR, else /dev/shm
  bool keep = false;               // --stage-keep: for the next job
};

enum class WorkersKind { unset, number, auto_count, gpu, cpu, xpu };  // --nproc-per-node

inline constexpr int k_max_workers = 4096;  // limit for one ddprun; as many as it may announce to the others

struct WorkersPerNode {
  WorkersKind kind = WorkersKind::unset;
  int number = 0;      // for WorkersKind::number, 1 .. k_max_workers
  std::string origin;  // "--nproc-per-node", "PET_NPROC_PER_NODE"
};

// Values given for options, from any source.
using GivenOptions = std::map<std::string, Sourced<std::string>>;

enum class StatusForm { table, json };
enum class DryRun { off, text, json, env, svg };
enum class Discovery { automatic, pmi, file };  // --rdzv: how members learn where the coordinator is
enum class StoreHost { agent, worker };         // --store: who listens on MASTER_PORT

// Time at which a node that comes while the job runs is taken in, if --nnodes has room for it.
enum class Grow { now, at_restart, never };

inline constexpr std::string_view k_scheduler_order = "scheduler";
inline constexpr std::string_view k_network_order = "network";

struct Options {
  GivenOptions given;  // values as text, for --print-config
  allocation::PlaceOptions place;
  WorkersPerNode workers;

  // The command.
  bool module = false;               // -m: python -m NAME
  bool no_python = false;            // --no-python: run the program as it is
  bool run_path = false;             // --run-path: always through python
  bool local_rank_argument = false;  // --no-use-env: --local-rank=N before the script's own arguments
  Container container;               // --container: what starts the program inside a container
  std::vector<std::string> command;  // the program or script and its arguments

  Sourced<std::string> role = by_default(std::string("default"));
  Sourced<int> max_restarts = by_default(0);  // 0 with --restart-policy never
  RestartOptions restarts;
  HangOptions hang;
  TimeLimitOptions time_limit;
  // MIN of --nnodes MIN:MAX, place.nodes is MAX; nullopt: the number of nodes is fixed.
  std::optional<Sourced<int>> least_nodes;
  Sourced<int> spares = by_default(0);  // number of nodes that wait to replace a lost one
  Sourced<Grow> grow = by_default(Grow::now);
  // Order of the hosts' ranks: k_scheduler_order, k_network_order or a file.
  Sourced<std::string> order = by_default(std::string(k_scheduler_order));
  // Nodes that a job with spares or MIN:MAX takes of an NVLink domain, else of a leaf switch, or their
  // multiple; 0: any number.
  Sourced<int> domain_size = by_default(0);
  Sourced<Milliseconds> last_call = by_default(Milliseconds{30000});  // for the others, once MIN have come
  Sourced<Milliseconds> shutdown_timeout = by_default(Milliseconds{30000});  // grace between TERM and KILL
  Sourced<Milliseconds> join_timeout = by_default(Milliseconds{600000});     // until all agents are there
  Sourced<Milliseconds> host_timeout = by_default(Milliseconds{20000});      // a host may be out of reach
  Sourced<std::vector<int>> stop_signals =
      by_default(std::vector<int>{});                 // --signals-to-handle; empty: TERM INT HUP QUIT
  std::optional<Sourced<std::string>> local_address;  // --local-addr: what this node publishes
  bool virtual_local_rank = false;
  StoreHost store = StoreHost::agent;
  StoreTree store_tree;
  StoreAccess store_access = StoreAccess::user;
  std::optional<Sourced<std::uint64_t>> store_memory;  // --store-memory: bytes
  std::string
      key_file;  // --key-file: secret shared by the agents; empty: the default place in the home directory

  Discovery discovery = Discovery::automatic;
  std::string rendezvous_directory;      // --rdzv-dir: shared by all hosts; empty: ~/.ddprun
  Sourced<std::string> remote_launcher;  // --launcher: who starts ddprun on the other hosts; empty: automatic
  std::string hostfile;                  // --hostfile: read into PlaceOptions::hosts before planning
  std::string site;                      // --site: a profile's name, a file, "none"; empty: automatic

  BindChoice bind;                                                      // --bind, --numa-binding
  Sourced<MemoryBind> memory_bind = by_default(MemoryBind::automatic);  // --membind
  bool show_binding = false;
  bool omp_places = false;                // --omp-places: OMP_PLACES and OMP_PROC_BIND follow the binding
  Sourced<bool> nic = by_default(false);  // --nic auto: each worker is told its nearest network card
  Sourced<int> gpus_per_worker = by_default(1);
  int workers_per_gpu = 1;           // --workers-per-gpu: gpus_per_worker is 1, and has its origin
  std::string topology;              // --topology: a file, or hwloc's synthetic description
  std::optional<Sourced<int>> gpus;  // --gpus: of the node that --topology describes

  output::OutputOptions output;
  CheckOptions check;
  StageOptions stage;
  CheckpointOptions checkpoint;

  ProgramOptions program;
  std::string job_file;           // --job: read before anything else
  bool several_programs = false;  // the workers are one ddprun a node, which starts the programs of the job

  DryRun dry_run = DryRun::off;
  std::string picture_file;   // --dry-run=svg FILE.svg; empty: standard output
  std::string capture_file;   // --capture FILE: write the snapshot and stop
  std::string snapshot_file;  // --snapshot FILE: plan from it instead of this machine; implies --dry-run
  std::string report_file;    // --report FILE: the end of the job as JSON
  std::string events_file;    // --events FILE: everything that happens, a JSON object a line
  std::string timeline_file;  // --timeline FILE: draw these events and stop
  std::string output_file;    // -o FILE: where to; for --timeline empty or "-": as text to standard output
  std::optional<StatusForm> status;     // --status: show what runs here and stop
  bool stacks = false;                  // --stacks: show where every rank is and stop
  std::optional<Milliseconds> profile;  // --profile TIME: sample the stacks of all ranks and stop
  bool restart = false;                 // --restart: ask a job to start all workers again and stop
  std::string drain;                    // --drain NODE: the same without that node
  std::optional<Milliseconds> watch;    // --watch: again and again
  std::string metrics_file;             // --metrics FILE: for Prometheus' textfile collector
  bool verbose = false;
  bool print_config = false;
  bool quiet = false;

  std::vector<allocation::Notice> notices;  // options without effect, with the reason; shown by --verbose
};

struct NodeRange {
  int least = 1;
  int most = 1;
};

// Every parser below throws UsageError for anything outside its grammar, with a sentence that begins with
// `origin` (the option or the variable the text came from) and a hint that shows the right form.

// Parses "4" or "2:4", 1 <= MIN <= MAX.
NodeRange parse_node_range(const std::string& text, const std::string& origin);
// Parses a number from 1 to k_max_workers, or "auto", "gpu", "cpu", "xpu".
WorkersPerNode parse_workers_per_node(const std::string& text, const std::string& origin);

struct Endpoint {
  std::string host;         // without brackets
  std::optional<int> port;  // 0 .. 65535; 0 is torchrun's "any free port"
};
// Parses "host", "host:port", "[v6]", "[v6]:port", "v6".
Endpoint parse_endpoint(const std::string& text, const std::string& origin);
// Parses the same without a port: the value of --master-addr.
std::string parse_host(const std::string& text, const std::string& origin);

// Parses "k=v,k=v", the whole or any part in quotes (torchrun's own tests quote the whole inside one
// argument); unknown keys are kept; an empty value is a UsageError. Of equal keys the last one counts.
std::map<std::string, std::string> parse_rendezvous_conf(const std::string& text, const std::string& origin);

// Parses "SIGTERM,INT,15" to numbers in that order, each once; unknown names are a UsageError that suggests
// the right one, and so are signals that cannot mean "stop" (KILL, STOP, CHLD).
std::vector<int> parse_signals(const std::string& text, const std::string& origin);
std::optional<int> parse_signal(std::string_view text);  // "USR1", "SIGUSR1", "10"
std::string signal_name(int number);                     // "SIGSEGV", "SIGRTMIN+1", "signal 99"

inline bool orders_by_network(const Options& options) { return options.order.value != k_scheduler_order; }
// Returns the file of --order; empty: it is none.
inline std::string order_file(const Options& options) {
  const std::string& order = options.order.value;
  return order == k_scheduler_order || order == k_network_order ? std::string() : order;
}

// Reports whether the job continues without a node that is lost.
inline bool outlives_nodes(const Options& options) {
  return options.least_nodes.has_value() || options.spares.value > 0;
}

}  // namespace ddprun::options
