#include "os/process/spawn_failure.hpp"

#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <new>

namespace ddprun::os {

namespace {

constexpr Milliseconds k_step{1};  // of a child that waits to be released

}  // namespace

ExitStatus not_started(const SpawnFailure& failure) {
  return {ExitStatus::Kind::not_started, failure.error, failure.stage, false};
}

struct SharedStart::Page {
  bool failed = false;
  SpawnFailure failure{};
  std::atomic<bool> bound{false};
  BindingRefusal refusal;
  std::atomic<bool> released{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "it is shared by processes");
};

std::shared_ptr<SharedStart> SharedStart::make() {
  void* page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {};
  return std::shared_ptr<SharedStart>(new SharedStart(new (page) Page{}));
}

SharedStart::~SharedStart() { ::munmap(page_, sizeof(Page)); }

void SharedStart::write_failure(const SpawnFailure& failure) noexcept {
  page_->failure = failure;
  page_->failed = true;
}

void SharedStart::write_refusal(const BindingRefusal& refusal) noexcept {
  page_->refusal = refusal;
  page_->bound.store(true, std::memory_order_release);
}

void SharedStart::wait_for_release() const noexcept {
  const timespec step{0, std::chrono::nanoseconds(k_step).count()};
  for (Milliseconds waited{0}; waited < k_longest_hold && !page_->released.load(); waited += k_step) {
    ::nanosleep(&step, nullptr);
  }
}

std::optional<SpawnFailure> SharedStart::failure() const {
  return page_->failed ? std::optional(page_->failure) : std::nullopt;
}

std::optional<BindingRefusal> SharedStart::refusal() const {
  return page_->bound.load(std::memory_order_acquire) ? std::optional(page_->refusal) : std::nullopt;
}

void SharedStart::release() noexcept { page_->released.store(true); }

}  // namespace ddprun::os
