#include "os/system_failure.hpp"

#include <cerrno>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::os;

TEST_CASE("what the kernel refused is said in words") {
  CHECK(describe_errno(EIO) == "input/output error");
  const Error no_pipe = system_failure("cannot create a pipe", EMFILE);
  CHECK(std::string(no_pipe.what()) == "cannot create a pipe: too many open files");
  CHECK(no_pipe.hint() == "raise the limit of open files: ulimit -n");
  const Error no_process = system_failure("cannot start the reaper process", EAGAIN);
  CHECK(std::string(no_process.what()) ==
        "cannot start the reaper process: resource temporarily unavailable");
  CHECK(no_process.hint() == "the limit of processes (ulimit -u) or of memory may be reached");
  CHECK(system_failure("cannot watch signals", EINVAL).hint().empty());
}
