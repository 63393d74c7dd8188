// A child process that makes one call and gives its result through a pipe, beside the event loop.
// For calls whose length another process decides, such as a name server or the slowest of all agents,
// where a thread could not be ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "base/exit_status.hpp"
#include "os/fd.hpp"

namespace ddprun::os {

class AnsweringChild {
 public:
  AnsweringChild() = default;
  // Starts the call in a child. `purpose` completes "cannot ...", thrown as Error when there can be no child.
  // Must be called while this process has one thread. The child keeps all signals blocked (our handlers must
  // not run in it), leaves without any destructor or exit handler, and dies with its parent. `afterwards`:
  // work that it does once its answer is in the pipe and that is closed.
  AnsweringChild(const std::function<std::string()>& call, const std::string& purpose,
                 const std::function<void()>& afterwards = {});
  ~AnsweringChild() { end(); }
  AnsweringChild(AnsweringChild&& other) noexcept;
  AnsweringChild& operator=(AnsweringChild&& other) noexcept;

  // Gives what the call returned, and then its end; nothing when it threw.
  int descriptor() const { return answer_.get(); }
  pid_t pid() const { return child_; }  // -1: none
  // Kills it where it still runs; how it ended, as end_helper() says.
  std::optional<ExitStatus> end();

 private:
  Fd answer_;
  Fd process_;  // its pidfd; empty before Linux 5.3
  pid_t child_ = -1;
};

}  // namespace ddprun::os
