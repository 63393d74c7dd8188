// Record of one node for --check, as a value that travels between the nodes as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddprun::check {

inline constexpr const char* k_beside_tmpdir = "what is used where TMPDIR cannot be";

// A folder that a job writes to.
struct Folder {
  std::string purpose;  // "temporary files", k_beside_tmpdir, "shared memory", "home", "log folder"
  std::string path;
  std::uint64_t size = 0;  // bytes of its file system
  std::uint64_t free = 0;  // for this user
  double write_rate = 0;   // bytes per second, synced to disk; 0: not measured
  std::string problem;     // reason why it cannot be used: "permission denied"; empty: it can
};

// Health of one GPU as NVML shows it before the job starts.
struct GpuHealth {
  std::string address;  // PCI, "0000:c1:00.0"
  std::string model;
  std::uint64_t memory = 0;         // bytes
  std::uint64_t used = 0;           // without what the driver reserves
  int processes = 0;                // processes that compute on it now
  std::int64_t uncorrected = 0;     // ECC errors since the driver was loaded
  bool rows_pending = false;        // a remapped row waits for a reset of the GPU
  bool rows_failed = false;         // no spare row is left
  std::vector<std::string> slowed;  // reasons for lowered clocks: "hardware thermal slowdown"
  int link_width = 0;               // PCIe lanes now; 0: not known
  int full_link_width = 0;          // lanes that GPU and slot have
  int nvlinks = 0;                  // NVLinks that are up
  int nvlinks_down = 0;
};

// A GPU's error in the kernel's log.
struct Xid {
  int number = 0;
  std::string gpu;            // PCI address
  std::int64_t sequence = 0;  // number of its record
  double time = 0;            // seconds since the node has started
  std::string text;           // "pid=1234, name=python, GPU has fallen off the bus."
};

// Errors of GPUs in the kernel's log. Its records are numbered from the node's start: what is newer than
// another look at the log follows from these numbers, not from the kernel's clock, with which no other
// agrees.
struct KernelLog {
  std::int64_t newest = -1;  // number of the newest record; -1: the log cannot be read
  std::vector<Xid> xids;     // errors whose cause is hardware, the newest of each GPU and kind, oldest first
};

// A connection from this node to another one of the job.
struct Connection {
  int to_rank = 0;
  std::string to;       // node
  std::string address;  // address used for it
  int port = 0;
  double latency = 0;    // seconds for a short message and its answer, the least of some
  double rate = 0;       // bytes per second; 0: not measured
  int path_mtu = 0;      // bytes; 0: not known
  std::string problem;   // reason why there is none: "connection refused"
  bool stalled = false;  // short messages arrive, long ones do not
  // Addresses that this node's name service has for that node; not asked for if there is one node only.
  std::vector<std::string> name_addresses;
};

struct HostRecord {
  int rank = 0;  // rank of the first worker of this node
  std::string host;
  std::vector<std::string> addresses;           // addresses of interfaces that are up, without loopback
  std::vector<std::string> interfaces;          // interfaces that are up, with loopback
  std::string address;                          // address for the others; empty: there is no other node
  std::string interface;                        // interface of that address
  int mtu = 0;                                  // MTU of that interface
  std::map<std::string, std::string> versions;  // "ddprun", "kernel", "Python", "torch", "NVIDIA driver", ...

  std::string python_problem;  // reason why the job's Python is none

  int workers = 0;
  int cpus = 0;              // CPUs that ddprun may use here
  int online_cpus = 0;       // CPUs of the node
  double cpu_quota = 0;      // limit of the cgroup, in CPUs; 0: none
  std::uint64_t memory = 0;  // memory that this job may use
  std::uint64_t free_memory = 0;
  std::map<std::string, int>
      cards;                  // Mbit/s of each network card (inspection::capture_cards); -1: no carrier
  std::string switches;       // from the root to its leaf switch: "s0/leaf1"; empty: not known
  std::string nvlink_domain;  // HostFacts::nvlink_domain
  bool infiniband = false;    // there are RDMA devices
  std::map<std::string, std::uint64_t> limits;  // soft: "nofile", "memlock", "nproc"; k_unlimited
  std::vector<Folder> folders;

  std::vector<std::string> name_addresses;  // addresses of this node's own name
  double name_time = 0;                     // seconds for that answer
  double reverse_time = 0;                  // seconds to look the own address up; 0: not asked
  int search_domains = 0;

  std::vector<GpuHealth> gpus;
  std::vector<std::string> lost_gpus;            // "GPU 3: GPU is lost"
  std::string gpu_problem;                       // reason why there is no list of GPUs
  KernelLog kernel_log;                          // read where there are NVIDIA GPUs
  int visible_gpus = 0;                          // number that the workers may use
  std::map<std::string, std::string> variables;  // known ones that are set for the workers

  double clock_offset = 0;       // seconds that the first node's clock is ahead of this one's
  double clock_uncertainty = 0;  // half the way there and back; 0: not measured
  std::vector<Connection> connections;
};

inline constexpr std::uint64_t k_unlimited = ~std::uint64_t{0};

}  // namespace ddprun::check
