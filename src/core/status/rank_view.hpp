// View of where one rank is: its last collective, its Python stack, its process.
// Read from inside by torch's worker server and ddprun's module, and from outside if these do not answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/json_fields.hpp"

namespace ddprun::status {

// The newest one that a rank has entered, as torch's flight recorder has it.
struct Collective {
  std::string operation;      // "all_reduce"
  std::string group;          // the process group: "default_pg"
  std::int64_t sequence = 0;  // within the group, from 1
  std::string sizes{};        // "1000 float, 4x4 half"
  bool pending = false;       // not completed
  Milliseconds age{0};        // since it was entered
  std::string members{};      // the group's ranks, "0-3,8", where they are known and are not all
  friend bool operator==(const Collective&, const Collective&) = default;
};

void describe_collective(OrderedFields& fields, Collective& collective);
bool is_default_group(const std::string& group);  // the one that all ranks are in

struct NcclCounts {
  std::uint64_t started = 0;  // collectives, in all communicators
  std::uint64_t behind = 0;   // fewer than another rank, in the communicator where that is most
  friend bool operator==(const NcclCounts&, const NcclCounts&) = default;
};

// Returns "all_reduce #1842 (1000 float)", with the group if it is not the default one.
std::string describe(const Collective& collective);

// Returns "1841 NCCL collectives started, 1 fewer than another rank".
std::string describe(const NcclCounts& counts);

struct Frame {
  std::string file;
  int line = 0;
  std::string function;
  friend bool operator==(const Frame&, const Frame&) = default;
};

// Returns "train.py:88 in step": the file without its folders.
std::string describe(const Frame& frame);

// A Python thread in which a rank runs code of the user's own.
struct Thread {
  std::string name;          // "Thread-1 (prefetch)"
  std::vector<Frame> stack;  // innermost first
  friend bool operator==(const Thread&, const Thread&) = default;
};

struct NativeCall {
  std::string function;  // without parameters; empty: the program has no name for it
  std::string from;      // the library or the line: "libc.so.6", "ring.cpp:31"
  friend bool operator==(const NativeCall&, const NativeCall&) = default;
};

// Returns "pthread_cond_wait (libc.so.6)".
std::string describe(const NativeCall& call);

struct RankView {
  bool answers = false;  // torch's worker server in it does
  std::optional<Collective> collective{};
  std::optional<NcclCounts> nccl{};  // counts from NCCL's RAS, if torch's worker server does not answer
  std::vector<Frame> stack{};        // stack of the thread that matters, innermost first
  std::string thread{};              // its name; empty: the main thread
  std::vector<Thread> others{};      // the main thread where it is another, and more of the user's own
  std::string store_call{};  // "wait": the method of a torch store that it is in, called from the stack
  std::vector<NativeCall> calls{};  // calls of the main thread, innermost first, if there is no Python stack
  std::string raised{};  // an exception on its way through `finally`: "ValueError: bad loss (train.py:31)"
  bool ending = false;   // the script is over and the interpreter has not ended
  std::string
      process{};  // "stopped (state T)", "in uninterruptible sleep (state D) in nfs_wait"; empty: usual
  std::string unseen{};   // reason why there is no stack
  std::string threads{};  // the stacks of all threads as text
  friend bool operator==(const RankView&, const RankView&) = default;
};

inline constexpr std::size_t k_most_frames = 64;
inline constexpr std::size_t k_most_other_threads = 4, k_most_other_frames = 16;
inline constexpr std::size_t k_most_threads_text = std::size_t{8} << 10;  // bytes of RankView::threads

void describe_view(OrderedFields& fields, RankView& view);

// Returns the frame of the user's own code in which the rank is: the innermost one outside installed packages
// and the standard library, else the innermost one; nullptr without a stack.
const Frame* own_frame(const RankView& view);

// The call, recorded as no collective, in which the rank waits for others: "init_process_group", "new_group",
// "store.wait". Empty: it is in none.
std::string waiting_call(const RankView& view);
// In the debugger of Python that the user's own code has called.
bool at_prompt(const RankView& view);

// Describes in some words where the rank is, without numbers that differ from rank to rank by nature: equal
// for ranks that are at the same place. "waits in all_reduce #6 (1000 float) at train.py:44 in step"
std::string describe_place(const RankView& view);

}  // namespace ddprun::status
