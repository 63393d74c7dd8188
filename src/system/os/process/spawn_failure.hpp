// Failure of a process on the way to its program: the reason, and the refused part of its binding.
#pragma once

#include <memory>
#include <optional>

#include "base/duration.hpp"
#include "base/exit_status.hpp"
#include "os/process/bind_self.hpp"

namespace ddprun::os {

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
