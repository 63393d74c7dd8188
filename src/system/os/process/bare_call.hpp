// System calls that touch nothing of the C library, not even errno.
// For a child that shares our memory while we run on.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun::os {

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

}  // namespace ddprun::os
