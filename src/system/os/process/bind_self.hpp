// Binding of the calling process, as a Binding says, and why a process did not reach its program.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "base/duration.hpp"
#include "base/exit_status.hpp"
#include "facts/binding.hpp"

namespace ddprun::os {

// Binding of the calling process, as a Binding says.
// In two steps, so that a forked child has nothing to allocate.

// Part of a binding that the kernel refused: errno, 0 if granted. The process continues in any case.
struct BindingRefusal {
  int cpus = 0;    // sched_setaffinity(2): EINVAL where none of them may be used (any more)
  int memory = 0;  // set_mempolicy(2): EPERM in many containers, ENOSYS without NUMA, EINVAL for no such node
  friend bool operator==(const BindingRefusal&, const BindingRefusal&) = default;
};

// Returns a set of numbers in the kernel's words.
std::vector<unsigned long> make_bit_mask(const std::vector<int>& numbers);

struct PreparedBinding {
  std::vector<unsigned long> cpus;       // empty: not asked for
  std::vector<unsigned long> otherwise;  // mask used where `cpus` is empty or refused; empty: unchanged
  std::vector<unsigned long> nodes;
  int policy = 0;  // a mode of set_mempolicy(2); 0: untouched
};
PreparedBinding prepare_binding(const facts::Binding& binding, const std::vector<int>& otherwise);

// Binds in bare calls. If the CPUs are refused the memory is left alone too: a process that
// may run anywhere is no better off with memory from one place. Several preferred nodes need Linux 5.15
// (MPOL_PREFERRED_MANY); before it they are left alone, which is no refusal.
BindingRefusal bind_self(const PreparedBinding& binding) noexcept;

// System calls that touch nothing of the C library, not even errno.
// For a child that shares our memory while we run on.

// Marks the functions that such a child runs: its stack is unknown to the sanitizers, and it leaves it
// without returning.
#define DDPRUN_BARE __attribute__((no_sanitize("address", "undefined")))

template <class Value>
DDPRUN_BARE inline long as_word(Value* pointer) {
  return reinterpret_cast<long>(pointer);  // NOLINT(performance-no-int-to-ptr): as the kernel takes it
}

// The kernel's answer: negative, it is an errno.
#if defined(__x86_64__) && !defined(__ILP32__)
inline constexpr bool k_has_bare_calls = true;

DDPRUN_BARE inline long bare_call(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  long answer = number;
  register long fourth asm("r10") = d;
  asm volatile("syscall" : "+a"(answer) : "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return answer;
}
#elif defined(__aarch64__)
inline constexpr bool k_has_bare_calls = true;

DDPRUN_BARE inline long bare_call(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  register long which asm("x8") = number;
  register long first asm("x0") = a;
  register long second asm("x1") = b;
  register long third asm("x2") = c;
  register long fourth asm("x3") = d;
  asm volatile("svc 0" : "+r"(first) : "r"(which), "r"(second), "r"(third), "r"(fourth) : "memory");
  return first;
}
#else
inline constexpr bool k_has_bare_calls = false;  // such a child has memory of its own

inline long bare_call(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  const long answer = ::syscall(number, a, b, c, d);
  return answer == -1 ? -errno : answer;
}
#endif

// Failure of a process on the way to its program: the reason, and the refused part of its binding.

struct SpawnFailure {
  StartStage stage;
  int error;  // errno
};

ExitStatus not_started(const SpawnFailure& failure);

// A child that is held goes on by itself after this long.
inline constexpr Milliseconds k_longest_hold{1000};

// Memory that a child shares with us alone. What the child calls is a plain read or write.
class SharedStart {
 public:
  // Makes the shared memory. `separate`: the child has memory of its own, and only this is shared. Empty when
  // there is no memory for it.
  static std::shared_ptr<SharedStart> make(bool separate);
  SharedStart(const SharedStart&) = delete;
  SharedStart& operator=(const SharedStart&) = delete;
  ~SharedStart();

  // Writes a failure, on the child's side.
  void write_failure(const SpawnFailure& failure) noexcept;
  void write_refusal(const BindingRefusal& refusal) noexcept;
  bool is_released() const noexcept;  // a child that is held waits for it, k_longest_hold at most

  // Ours.
  std::optional<SpawnFailure> failure() const;    // once the child has ended, so that its writes are complete
  std::optional<BindingRefusal> refusal() const;  // nullopt: none has come so far
  void release() noexcept;

 private:
  struct Page;
  SharedStart(Page* page, bool is_mapped) : page_(page), is_mapped_(is_mapped) {}
  Page* page_;
  bool is_mapped_;
};

}  // namespace ddprun::os
