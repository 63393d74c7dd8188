#include "os/machine/capture_step.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/text.hpp"
#include "facts/step_options.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

constexpr std::size_t k_largest_table = 4 << 20;
constexpr std::size_t k_largest_text = 2 << 20;  // limit for arguments and variables

std::vector<std::string> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  std::vector<std::string> names;
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr)
    names.emplace_back(static_cast<const char*>(entry->d_name));
  return names;
}

// Returns the port at which the srun of this step listens for its nodes, if that is on this host.
std::optional<int> find_port_of_srun(const facts::Snapshot& snapshot) {
  const std::string host = facts::find_variable(snapshot, "SLURM_SRUN_COMM_HOST").value_or("");
  const auto port = parse_integer(facts::find_variable(snapshot, "SLURM_SRUN_COMM_PORT").value_or(""));
  const auto& own = snapshot.host.addresses;
  const bool here = std::any_of(own.begin(), own.end(),
                                [&](const facts::InterfaceAddress& each) { return each.address == host; });
  if (!here || !port || *port < 1 || *port > 65535) return std::nullopt;
  return static_cast<int>(*port);
}

std::optional<std::string> find_listener(int port) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto table = try_read_file(path, k_largest_table);
    const auto inode = table ? facts::parse_listener_inode(*table, port) : std::nullopt;
    if (inode) return fmt::format("socket:[{}]", *inode);
  }
  return std::nullopt;
}

bool has_open(const std::string& process, const std::string& wanted) {
  const std::string folder = process + "/fd/";
  const std::vector<std::string> names = names_in(folder);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    std::array<char, 64> target;
    const ssize_t length = ::readlink((folder + name).c_str(), target.data(), target.size());
    return length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)) == wanted;
  });
}

// Returns srun's folder in /proc.
std::optional<std::string> find_srun(const std::string& listener) {
  for (const std::string& name : names_in("/proc")) {
    const std::string folder = "/proc/" + name;
    struct stat status {};
    if (!parse_integer(name) || ::stat(folder.c_str(), &status) != 0 || status.st_uid != ::geteuid())
      continue;
    if (read_head(folder + "/comm", 16) == "srun\n" && has_open(folder, listener)) return folder;
  }
  return std::nullopt;
}

std::vector<std::string> split_at_zeros(std::string text) {
  if (text.ends_with('\0')) text.pop_back();
  return split(text, '\0');
}

facts::Environment environment_of(const std::string& process) {
  facts::Environment environment;
  for (const std::string& entry : split_at_zeros(read_head(process + "/environ", k_largest_text))) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

// Reads slurm.conf where srun looks for it: another path that was compiled in is not known here.
std::string read_slurm_configuration(const facts::Environment& environment) {
  const auto named = environment.find("SLURM_CONF");
  if (named != environment.end()) return try_read_file(named->second, k_largest_table).value_or("");
  for (const char* path : {"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"}) {
    if (auto text = try_read_file(path, k_largest_table)) return *text;
  }
  return "";
}

}  // namespace

std::optional<facts::StepOptions> capture_step_options(const facts::Snapshot& snapshot) {
  const auto port = find_port_of_srun(snapshot);
  const auto listener = port && sees_own_processes() ? find_listener(*port) : std::nullopt;
  const auto srun = listener ? find_srun(*listener) : std::nullopt;
  if (!srun) return std::nullopt;
  const std::vector<std::string> words = split_at_zeros(read_head(*srun + "/cmdline", k_largest_text));
  const facts::Environment environment = environment_of(*srun);
  return facts::parse_step_options(words, snapshot.arguments, environment,
                                   read_slurm_configuration(environment));
}

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
