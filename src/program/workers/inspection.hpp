// Python module that shows where a worker is (workers/inspection/ddprun_inspection.py).
// torch's import finds it on PYTHONPATH by its entry point of the group torch.backends.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "os/files/temp_dir.hpp"

namespace ddprun::workers {

class Inspection {
 public:
  // Writes the module into a new folder in `folder`, which is this user's alone. Where that fails, no worker
  // is inspected: half of it would end torch's import. `places`: for sockets, where `folder`'s path is too
  // long for them.
  Inspection(const std::string& folder, const std::vector<std::string>& places);

  // Returns the folder for PYTHONPATH; empty: there is none.
  const std::string& folder() const { return folder_; }
  // Returns the beginning of the paths of a worker's files, new for each attempt, in `attempt_folder` if that
  // is short enough.
  std::string prefix(const std::string& attempt_folder, Attempt attempt, std::size_t worker) const;

 private:
  std::string folder_;
  std::optional<os::TempDir> sockets_;
};

// The text of the Python files in inspection/ and standby/.

extern const std::string_view k_inspection_module;  // ddprun_inspection.py
extern const std::string_view k_answer_module;      // ddprun_answer.py
extern const std::string_view k_standby_module;     // sitecustomize.py
extern const std::string_view k_imports_module;     // imports.py

}  // namespace ddprun::workers
