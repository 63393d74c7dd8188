#include "ddprun/os/spawn_failure.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <new>

#include "ddprun/os/system_failure.hpp"

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

std::string describe(const SpawnFailure& failure) {
  const std::string error = describe_errno(failure.error);
  switch (failure.stage) {
    case SpawnStage::exec:
      return failure.error == ENOEXEC ? "neither a program nor a script with a #! line" : error;
    case SpawnStage::interpreter:
      return "the interpreter in its first line does not exist";
    case SpawnStage::process:
      return "no new process: " + error;
    case SpawnStage::working_directory:
      return "its working directory: " + error;
    case SpawnStage::cpus:
      return "none of its CPUs may be used: " + error;
    default:
      return std::string(stage_name(failure.stage)) + ": " + error;
  }
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
