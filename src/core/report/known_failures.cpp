#include "report/known_failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <string_view>

#include "base/text.hpp"

namespace ddprun::report {

namespace {

bool has_text(const KnownFailure& known, const std::string& line) {
  return std::any_of(known.texts.begin(), known.texts.end(), [&](std::string_view text) {
    return !text.empty() && line.find(text) != std::string::npos;
  });
}

bool fits(const KnownFailure& known, const std::vector<std::string>& lines) {
  if (known.shown_by != nullptr && known.shown_by(lines)) return true;
  std::size_t seen = 0;
  for (auto line = lines.rbegin(); line != lines.rend() && seen < known.lines; ++line) {
    if (has_text(known, *line)) return true;
    if (!trim(*line).empty()) ++seen;
  }
  return false;
}

bool fits(const KnownFailure& known, const Failure& failure, int world_size) {
  if (world_size < known.least_world_size) return false;
  if (known.texts.front().empty()) {
    if (known.signal == 0) return !failure.out_of_memory.empty();
    return failure.status == ExitStatus{ExitStatus::Kind::signalled, known.signal, {}, false} &&
           failure.out_of_memory.empty() && !failure.after_stop;
  }
  return fits(known, without_crash(failure.last_lines)) || fits(known, split(failure.message, '\n'));
}

}  // namespace

std::vector<const KnownFailure*> find_known_failures(const Failure& failure, int world_size) {
  std::vector<const KnownFailure*> found;
  for (const KnownFailure& known : known_failures()) {
    if (fits(known, failure, world_size)) found.push_back(&known);
  }
  return found;
}

bool may_be_hardware(const Failure& failure) {
  if (failure.gpu_fault) return true;
  if (failure.status.kind == ExitStatus::Kind::signalled && failure.status.value == SIGBUS) return true;
  const auto is_system_error = [](const std::string& line) {
    return line.find("unhandled system error") != std::string::npos;
  };
  return std::ranges::any_of(find_known_failures(failure, 1),
                             [](const KnownFailure* known) { return known->name == "gpu-hardware"; }) ||
         std::ranges::any_of(failure.last_lines, is_system_error) ||
         std::ranges::any_of(split(failure.message, '\n'), is_system_error);
}

std::string find_failure_hint(const Failure& failure, int world_size) {
  const auto found = find_known_failures(failure, world_size);
  return found.empty() ? std::string() : fmt::format("{}: {}", found.front()->meaning, found.front()->remedy);
}

namespace {

// Removes the "[rank3]: " that torch puts before each line of an uncaught exception.
std::string_view without_rank(std::string_view line) {
  const std::size_t end = line.find("]: ");
  return line.starts_with("[rank") && end != std::string_view::npos ? line.substr(end + 3) : line;
}

bool is_indented(std::string_view line) { return line.starts_with(' ') && !trim(line).empty(); }

// Reports whether the indented lines up to here are of a traceback: "  File "train.py", line 3".
bool ends_frames(const std::vector<std::string>& lines, std::size_t last) {
  for (std::size_t i = last + 1; i-- > 0;) {
    const std::string_view line = without_rank(lines[i]);
    if (!is_indented(line)) return false;
    if (trim(line).starts_with("File \"")) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> without_crash(std::vector<std::string> lines) {
  const auto crash = std::ranges::find_if(
      lines, [](const std::string& line) { return without_rank(line).starts_with("Fatal Python error: "); });
  lines.erase(crash, lines.end());
  return lines;
}

std::vector<std::string> words_of(const Failure& failure) {
  std::vector<std::string> lines = split(failure.message, '\n');
  const std::vector<std::string> last = without_crash(failure.last_lines);
  lines.insert(lines.end(), last.begin(), last.end());
  return lines;
}

std::string last_words(const Failure& failure) {
  const std::vector<std::string> lines = words_of(failure);
  const auto last =
      std::find_if(lines.rbegin(), lines.rend(), [](const auto& line) { return !trim(line).empty(); });
  return last == lines.rend() ? std::string() : std::string(trim(*last));
}

std::string error_words(const Failure& failure) {
  const std::vector<std::string> lines = words_of(failure);
  for (std::size_t i = lines.size(); i-- > 1;) {
    const std::string_view line = without_rank(lines[i]);
    if (trim(line).empty() || is_indented(line)) continue;
    if (ends_frames(lines, i - 1)) return std::string(trim(line));
  }
  return last_words(failure);
}

std::string without_numbers(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  return text;
}

// The table of known failures. A row more needs its example under tests/data/failures.
//
// Sources: torch 2.13 (spawn.py, _utils/signal_handling.py, TCPStore.cpp, ProcessGroupNCCL.cpp), gloo
// transport/tcp, NCCL 2.27 (init.cc, socket.cc), CUDA's cudaGetErrorString, glibc's dl-version.c, CPython.
// "without an active exception": std::terminate() from a std::thread that gloo has not joined.

namespace {

bool is_installed(std::string_view path) {
  return path.find("/site-packages/") != std::string_view::npos ||
         path.find("/dist-packages/") != std::string_view::npos ||
         path.find("/lib/python") != std::string_view::npos ||
         path.find("/lib64/python") != std::string_view::npos;
}

// An installed module has imported one that is not: `ImportError: cannot import name 'Queue' from 'queue'
// (/home/me/queue.py)`.
bool hides_installed_module(const std::vector<std::string>& lines) {
  bool by_installed = false;
  for (const std::string& line : lines) {
    if (line.find("  File \"") != std::string::npos) by_installed = is_installed(line);
    const std::size_t words = line.find("ImportError: cannot import name '");
    const std::size_t path = line.rfind(" (/");
    if (words != std::string::npos && path != std::string::npos && by_installed &&
        !is_installed(std::string_view(line).substr(path)))
      return true;
  }
  return false;
}

constexpr KnownFailure k_known[] = {
    {"out-of-memory",
     {},
     "the kernel killed the worker because the memory of the job or host was used up",
     "request more memory (--mem under Slurm, mem= under PBS), or use fewer data loader workers, smaller "
     "batches or fewer ranks per node"},
    {"killed",
     {},
     "the SIGKILL came from outside ddprun",
     "usually memory was used up (check dmesg, and sacct -o MaxRSS under Slurm), else the scheduler or an "
     "administrator ended it",
     k_all_lines,
     1,
     SIGKILL},
    {"spawned-ranks",
     {"ProcessRaisedException", "ProcessExitedException"},
     "each of several workers starts ranks of its own (torch.multiprocessing.spawn)",
     "give --nproc-per-node 1, or leave out spawn() and read RANK, LOCAL_RANK and WORLD_SIZE from the "
     "environment",
     k_all_lines,
     2},
    {"abort-at-exit",
     {"terminate called without an active exception"},
     "Python exited without destroy_process_group() while a thread of gloo held the tensors of a collective",
     "make torch.distributed.destroy_process_group() the last line of the script; where it is that already, "
     "release the DDP model before it",
     1},
    {"hidden-module",
     {"(consider renaming '", "partially initialized module '"},
     "a file beside the script has the name of a module that is imported, or two files import each other",
     "rename the file that the error names, and remove its copy in __pycache__",
     k_all_lines,
     1,
     0,
     hides_installed_module},
    {"local-rank-wanted",
     {"arguments are required: --local_rank", "arguments are required: --local-rank"},
     "the script wants its local rank as an argument, as python -m torch.distributed.launch passed it",
     "write '--local_rank=${local_rank}' behind the script (--no-use-env before it passes --local-rank=N), "
     "or "
     "read os.environ[\"LOCAL_RANK\"] in the script"},
    {"local-rank-unknown",
     {"unrecognized arguments: --local-rank", "unrecognized arguments: --local_rank",
      "No such option: --local"},
     "the script does not have the argument --local-rank in this spelling",
     "leave out --no-use-env and read os.environ[\"LOCAL_RANK\"] in the script, or, for a script that has "
     "--local_rank, write '--local_rank=${local_rank}' behind it"},
    {"unknown-argument",
     {"error: unrecognized arguments: --", "No such option: --", "Unknown command line flag"},
     "the script does not have this argument",
     "write options of ddprun before the script, as in ddprun --nproc-per-node 2 train.py"},
    {"debugger",
     {"bdb.BdbQuit"},
     "of several workers only rank 0 reads what is typed, and breakpoint() ends in the others at once",
     "call torch.distributed.breakpoint(), at which the other ranks wait for rank 0, or start one worker "
     "(--nproc-per-node 1)",
     k_all_lines,
     2},
    {"no-module",
     {"ModuleNotFoundError: No module named"},
     "the Python that ran the worker does not find this module",
     "activate the environment that has it before ddprun, on every node, or name its Python with "
     "PYTHON_EXEC; --dry-run prints the command"},
    {"glibc",
     {"version `GLIBC_", "version `GLIBCXX_", "version `CXXABI_"},
     "a library was built for a newer system than this node's",
     "load a newer compiler module, use a container, or install a build made for this system; compare ldd "
     "--version on the nodes"},
    {"no-kernel-image",
     {"no kernel image is available for execution on the device"},
     "this torch was not built for the GPU of this node",
     "install a torch whose torch.cuda.get_arch_list() has the GPU's compute capability"},
    {"driver-too-old",
     {"NVIDIA driver on your system is too old", "CUDA driver version is insufficient"},
     "the NVIDIA driver of this node is older than the CUDA of torch",
     "install a torch built for an older CUDA, or ask the site for a newer driver; nvidia-smi prints the "
     "highest CUDA it supports"},
    {"no-gpu",
     {"Torch not compiled with CUDA enabled", "Found no NVIDIA driver on your system",
      "No CUDA GPUs are available", "no CUDA-capable device is detected",
      "'torch._C' has no attribute '_cuda_"},
     "torch sees no GPU in this worker",
     "check that the job requests GPUs, that torch is a build for them, and that CUDA_VISIBLE_DEVICES is "
     "right (--dry-run=env)"},
    {"more-workers-than-gpus",
     {"invalid device ordinal", "Duplicate GPU detected"},
     "the script chose a GPU that this worker does not have, or that another worker uses",
     "use LOCAL_RANK, not RANK or a fixed number, for the device, and start at most one worker for each "
     "visible GPU (leave out --nproc-per-node)"},
    {"cuda-out-of-memory",
     {"CUDA out of memory", "HIP out of memory", "XPU out of memory", "CUDNN_STATUS_ALLOC_FAILED",
      "CUBLAS_STATUS_ALLOC_FAILED"},
     "the memory of the GPU was used up",
     "use a smaller batch, activation checkpointing or sharding; nvidia-smi shows whether another process "
     "holds memory of that GPU"},
    {"gpu-hardware",
     {"uncorrectable ECC error", "fallen off the bus", "CUDA error: unspecified launch failure",
      "NVLink error"},
     "the GPU or its driver reported a hardware fault",
     "exclude this node (--exclude under Slurm), and report it to the site with the output of nvidia-smi -q "
     "and dmesg"},
    {"device-assert",
     {"device-side assert triggered"},
     "a check inside a GPU kernel failed, usually an index out of range (labels, embeddings)",
     "CUDA_LAUNCH_BLOCKING=1 makes the traceback show the line; the assertion is printed above it"},
    {"illegal-address",
     {"an illegal memory access was encountered"},
     "a GPU kernel accessed memory that it does not have",
     "CUDA_LAUNCH_BLOCKING=1 makes the traceback show the line, and compute-sanitizer the access; on one "
     "node "
     "only, the GPU may be faulty"},
    {"cpu-memory",
     {"DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory",
      "posix_memalign. Error code 12", "ArrayMemoryError: Unable to allocate"},
     "the host's memory, or a limit of it (ulimit -v, --mem), was used up",
     "request more memory, or use smaller batches, fewer data loader workers or fewer ranks per node; the "
     "traceback shows which tensor was too large"},
    {"shared-memory",
     {"out of shared memory", "unable to allocate shared memory", "unable to open shared memory object",
      "Error while creating shared memory segment", "unable to write to file </torch_"},
     "/dev/shm is full or too small",
     "remove files that dead jobs left in /dev/shm, use fewer data loader workers, or give the container "
     "more (--shm-size, --ipc=host)"},
    {"data-loader-killed",
     {"DataLoader worker (pid(s)", "is killed by signal: Killed"},
     "a data loader process died, usually because memory was used up",
     "use fewer data loader workers or request more memory; with num_workers=0 its own error shows"},
    {"file-limit",
     {"Too many open files", "received 0 items of ancdata"},
     "the limit of open files was reached",
     "raise it with ulimit -n before ddprun, or call "
     "torch.multiprocessing.set_sharing_strategy('file_system')"},
    {"process-limit",
     {"can't start new thread", "Thread creation failed: Resource temporarily unavailable",
      "pthread_create failed for thread", "fork: retry: Resource temporarily unavailable"},
     "the limit of processes and threads was reached",
     "raise ulimit -u or the job's pids limit, or set OMP_NUM_THREADS and the number of data loader workers "
     "lower"},
    {"disk-full",
     {"[Errno 28] No space left on device", "Disk quota exceeded", "enforce fail at inline_container.cc",
      "PytorchStreamWriter failed writing"},
     "a file system is full or a quota is used up",
     "look at df -h and the site's quota command for the folders the script writes to, TMPDIR and the caches "
     "in HOME included"},
    {"nccl-no-interface",
     {"no socket interface found", "Bootstrap : no socket"},
     "no network interface matches NCCL_SOCKET_IFNAME",
     "set NCCL_SOCKET_IFNAME to an interface that ip addr shows on every node, or unset it"},
    {"gloo-no-interface",
     {"Unable to find address for:", "Unable to resolve hostname to a (local) address"},
     "no network interface matches GLOO_SOCKET_IFNAME, or this host's name has no address",
     "set GLOO_SOCKET_IFNAME to an interface that ip addr shows on every node, or unset it"},
    {"no-nccl",
     {"doesn't have NCCL built in"},
     "this torch was built without NCCL: it is a build for CPUs, or for another kind of GPU",
     "install a torch built for the GPUs of the node, or pass the backend gloo to init_process_group()"},
    {"nccl-mismatch",
     {"ncclInvalidUsage", "Mismatched NCCL version detected"},
     "the ranks' NCCL calls do not match",
     "NCCL_DEBUG=WARN prints which rank; check that all nodes have the same torch and each rank its own GPU"},
    {"port-in-use",
     {"EADDRINUSE", "Address already in use", "address already in use"},
     "a port that the script listens on is used by another process of this node",
     "leave MASTER_PORT as ddprun sets it, or give another --master-port; ss -tlnp shows who listens"},
    {"ipv6-sockets",
     {"errno: 97 - Address family not supported by protocol"},
     "torch tried IPv6 on a host without it, which is only a warning",
     "look for the error above it; --local-addr with an IPv4 address ends the warnings"},
    {"store-timeout",
     {"DistStoreError", "clients joined"},
     "some ranks never connected to the store",
     "look for a rank that is still starting or failed earlier, and pass timeout= to init_process_group() "
     "where reading data takes longer"},
    {"collective-timeout",
     {"Watchdog caught collective operation timeout", "Timed out waiting",
      "Application timeout caused pair closure"},
     "a collective did not finish in time, since some rank never called it or died",
     "look at the other ranks' output for the one that is behind; TORCH_DISTRIBUTED_DEBUG=DETAIL names ranks "
     "that differ"},
    {"mpi-singleton",
     {"Distributed package doesn't have MPI built in", "not built with SLURM's PMI support",
      "PMI_Init failed", "PMI2_Init failed", "singleton init"},
     "an MPI library in the worker cannot join a world, since ddprun starts workers without MPI",
     "use the backend gloo or nccl, or start one ddprun for each rank with srun or mpiexec so that MPI finds "
     "its launcher"},
    {"peer-gone",
     {"Connection closed by peer", "Connection closed by remote peer", "remote process exited",
      "ncclRemoteError", "Connection reset by peer"},
     "a peer of this worker ended first",
     "look at the output of the other ranks and the logs of their hosts"},
};

}  // namespace

std::span<const KnownFailure> known_failures() { return k_known; }

}  // namespace ddprun::report
