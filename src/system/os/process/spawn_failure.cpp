#include "os/process/spawn_failure.hpp"

#include <sys/mman.h>

#include <atomic>
#include <new>

namespace ddprun::os {

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

std::shared_ptr<SharedStart> SharedStart::make(bool separate) {
  if (!separate) return std::shared_ptr<SharedStart>(new SharedStart(new Page, false));
  void* page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {};
  return std::shared_ptr<SharedStart>(new SharedStart(new (page) Page{}, true));
}

SharedStart::~SharedStart() {
  if (is_mapped_) {
    ::munmap(page_, sizeof(Page));
  } else {
    delete page_;
  }
}

void SharedStart::write_failure(const SpawnFailure& failure) noexcept {
  page_->failure = failure;
  page_->failed = true;
}

void SharedStart::write_refusal(const BindingRefusal& refusal) noexcept {
  page_->refusal = refusal;
  page_->bound.store(true, std::memory_order_release);
}

bool SharedStart::is_released() const noexcept { return page_->released.load(std::memory_order_relaxed); }

std::optional<SpawnFailure> SharedStart::failure() const {
  return page_->failed ? std::optional(page_->failure) : std::nullopt;
}

std::optional<BindingRefusal> SharedStart::refusal() const {
  return page_->bound.load(std::memory_order_acquire) ? std::optional(page_->refusal) : std::nullopt;
}

void SharedStart::release() noexcept { page_->released.store(true); }

}  // namespace ddprun::os
