// ddprun's whole program in a child of the test process: what its driver, its worker group and run() do, with
// whatever the test was compiled with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "os/descriptors.hpp"

namespace ddprun::testing {

class ForkedDdprun {
 public:
  struct End {
    int code = 0;  // 128 + n where signal n killed it
    std::string output;
    std::string error;
  };
  // `arguments` without the program's name; the environment is `variables`, PATH, HOME and TMPDIR, the latter
  // two a folder of the test's. Fails the test when there can be no child.
  ForkedDdprun(std::vector<std::string> arguments, const std::string& folder,
               const std::map<std::string, std::string>& variables = {});
  ~ForkedDdprun();
  ForkedDdprun(const ForkedDdprun&) = delete;
  ForkedDdprun& operator=(const ForkedDdprun&) = delete;

  int pid() const { return pid_; }
  // To its end; fails the test after thirty seconds, and ends it.
  End wait();

 private:
  int pid_ = -1;
  os::Fd output_;
  os::Fd error_;
};

}  // namespace ddprun::testing
