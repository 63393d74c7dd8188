// Python and torch of a host's workers, as far as files show them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::facts {

// The Python of the virtual or conda environment that ddprun itself was started from by its path.
// `pbsdsh /home/u/venv/bin/ddprun` does so where nothing of the submitter's environment is left.

inline constexpr const char* k_own_python = "python beside ddprun";  // in Snapshot::programs

struct PythonFacts {
  std::string version;  // "3.11"; empty: not known
  std::string torch;    // "2.13.0+cpu"; empty: not found
  friend bool operator==(const PythonFacts&, const PythonFacts&) = default;
};

// Parses the number in "python3.11", an interpreter's file or a folder of lib.
std::optional<std::string> parse_python_name(std::string_view name);
// Parses __version__ in the text of torch/version.py.
std::optional<std::string> parse_torch_version(std::string_view text);

// pyvenv.cfg: "version = 3.11.2", "home = /usr/bin", "include-system-site-packages = true".
struct VirtualEnvironment {
  std::string version;  // "3.11"
  bool system_packages = false;
};
VirtualEnvironment parse_virtual_environment(std::string_view text);

}  // namespace ddprun::facts
