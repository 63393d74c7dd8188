#include "ddprun/os/spawn_failure.hpp"

#include <sys/mman.h>

#include <new>

namespace ddprun {

std::string_view stage_name(SpawnStage stage) {
  switch (stage) {
    case SpawnStage::process:
      return "process";
    case SpawnStage::parent_death:
      return "parent death";
    case SpawnStage::group:
      return "group";
    case SpawnStage::terminal:
      return "terminal";
    case SpawnStage::cpus:
      return "cpus";
    case SpawnStage::working_directory:
      return "working directory";
    case SpawnStage::descriptors:
      return "descriptors";
    case SpawnStage::exec:
      return "exec";
    case SpawnStage::interpreter:
      return "interpreter";
  }
  return "unknown";
}

ExitStatus not_started(const SpawnFailure& failure) {
  return {ExitStatus::Kind::not_started, failure.error, std::string(stage_name(failure.stage)), false};
}

struct SharedFailure::Page {
  bool written;
  SpawnFailure failure;
};

std::shared_ptr<SharedFailure> SharedFailure::make() {
  void* page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {};
  return std::shared_ptr<SharedFailure>(new SharedFailure(new (page) Page{}));
}

SharedFailure::~SharedFailure() { ::munmap(page_, sizeof(Page)); }

void SharedFailure::write(const SpawnFailure& failure) noexcept {
  page_->failure = failure;
  page_->written = true;
}

// Read once the child has ended, so its writes are complete.
std::optional<SpawnFailure> SharedFailure::read() const {
  return page_->written ? std::optional(page_->failure) : std::nullopt;
}

}  // namespace ddprun
