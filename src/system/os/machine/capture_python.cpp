#include "os/machine/capture_python.hpp"

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/text.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_file_limit = std::size_t{64} << 10;
constexpr std::size_t k_most_entries = 16;  // entries of PYTHONPATH

std::string value_of(const facts::Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real;
}

fs::path prefix_of(const fs::path& interpreter) { return interpreter.parent_path().parent_path(); }

// Returns the version in the interpreter's name; for python3 or python, that of the only lib/python3.* beside
// it.
std::string find_version(const fs::path& real) {
  if (const auto named = facts::parse_python_name(real.filename().string())) return *named;
  std::string version;
  for (const std::string& name : list_folder((prefix_of(real) / "lib").string())) {
    const auto found = facts::parse_python_name(name);
    if (found && !version.empty()) return {};
    if (found) version = *found;
  }
  return version;
}

// Returns the folders in the order in which Python would find them.
std::vector<fs::path> package_folders(const fs::path& interpreter, const std::string& version,
                                      const std::optional<facts::VirtualEnvironment>& virtual_environment,
                                      const facts::Environment& environment) {
  std::vector<fs::path> folders;
  for (const std::string& entry : split(value_of(environment, "PYTHONPATH"), ':')) {
    if (!entry.empty() && folders.size() < k_most_entries) folders.emplace_back(entry);
  }
  const std::string named = "python" + version;
  const auto add = [&](const fs::path& prefix) {
    folders.push_back(prefix / "lib" / named / "site-packages");
    folders.push_back(prefix / "lib64" / named / "site-packages");
  };
  if (virtual_environment) add(prefix_of(interpreter));
  if (virtual_environment && !virtual_environment->system_packages) return folders;
  const std::string home = value_of(environment, "HOME");
  if (!home.empty()) add(fs::path(home) / ".local");
  const fs::path base = prefix_of(real_path(interpreter));
  folders.push_back(base / "local" / "lib" / named / "dist-packages");  // Debian
  add(base);
  folders.push_back(base / "lib" / "python3" / "dist-packages");
  return folders;
}

struct Found {
  facts::PythonFacts facts;
  fs::path folder;  // folder of packages that has torch
};

Found find_torch(const std::string& interpreter, const facts::Environment& environment) {
  Found found;
  if (interpreter.find('/') == std::string::npos) return found;
  std::optional<facts::VirtualEnvironment> virtual_environment;
  const fs::path settings = prefix_of(interpreter) / "pyvenv.cfg";
  if (const auto text = try_read_file(settings.string(), k_file_limit)) {
    virtual_environment = facts::parse_virtual_environment(*text);
  }
  found.facts.version = virtual_environment ? virtual_environment->version : "";
  if (found.facts.version.empty()) found.facts.version = find_version(real_path(interpreter));
  if (found.facts.version.empty()) return found;
  for (const fs::path& folder :
       package_folders(interpreter, found.facts.version, virtual_environment, environment)) {
    const auto text = try_read_file((folder / "torch" / "version.py").string(), k_file_limit);
    const auto version = text ? facts::parse_torch_version(*text) : std::nullopt;
    if (!version) continue;
    found.facts.torch = *version;
    found.folder = folder;
    break;
  }
  return found;
}

}  // namespace

facts::PythonFacts capture_python(const std::string& interpreter, const facts::Environment& environment) {
  return find_torch(interpreter, environment).facts;
}

std::string find_nccl_version(const std::string& interpreter, const facts::Environment& environment) {
  const fs::path folder = find_torch(interpreter, environment).folder;
  if (folder.empty()) return {};
  for (const std::string& name : list_folder(folder.string())) {
    // nvidia_nccl_cu12-2.27.5.dist-info
    const std::size_t dash = name.find('-');
    const std::size_t end = name.rfind(".dist-info");
    if (!name.starts_with("nvidia_nccl_cu") || dash == std::string::npos || end == std::string::npos)
      continue;
    return name.substr(dash + 1, end - dash - 1);
  }
  return {};
}

}  // namespace ddprun::os
