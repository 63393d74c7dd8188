#include "facts/program.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/text.hpp"

namespace ddprun::facts {

namespace {

constexpr std::array<std::pair<ProgramKind, std::string_view>, 5> k_kinds{{
    {ProgramKind::missing, "missing"},
    {ProgramKind::directory, "directory"},
    {ProgramKind::not_executable, "not executable"},
    {ProgramKind::python_file, "python file"},
    {ProgramKind::executable, "executable"},
}};

// Reports whether the first line asks for Python: "#!/usr/bin/env python3", "#!/opt/python-3.12/bin/python
// -u". The interpreter's own name decides, or the word after env.
bool asks_for_python(std::string_view head) {
  if (!head.starts_with("#!")) return false;
  std::string_view line = head.substr(2, head.find('\n') - 2);
  while (!line.empty()) {
    const std::size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string_view::npos) return false;
    line.remove_prefix(start);
    std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
    line.remove_prefix(word.size());
    word.remove_prefix(word.find_last_of('/') + 1);
    if (word.starts_with("python")) return true;
    if (word != "env" && !word.starts_with("-")) return false;
  }
  return false;
}

// Reports whether the Python is of the active environment. One whose variable is left, while PATH has another
// python first, is not active.
bool is_of_environment(const std::string& python, const Environment& environment) {
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    std::string prefix = variable_or_empty(environment, name);
    while (prefix.ends_with('/')) prefix.pop_back();
    if (!prefix.empty() && python == prefix + "/bin/python") return true;
  }
  return false;
}

// Reports whether it is the system's Python, which PATH finds if no other was chosen.
bool is_of_system(const std::string& python) {
  const std::string folder = python.substr(0, python.rfind('/'));
  return folder == "/usr/bin" || folder == "/bin" || folder == "/usr/local/bin";
}

}  // namespace

std::string variable_or_empty(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

std::string to_string(ProgramKind kind) {
  const auto* const found =
      std::ranges::find_if(k_kinds, [&](const auto& entry) { return entry.first == kind; });
  return std::string(found->second);
}

std::optional<ProgramKind> parse_program_kind(std::string_view text) {
  for (const auto& [kind, name] : k_kinds) {
    if (name == text) return kind;
  }
  return std::nullopt;
}

ProgramKind judge_program(std::string_view word, bool directory, bool may_execute, std::string_view head) {
  if (directory) return ProgramKind::directory;
  if (word.ends_with(".py")) return ProgramKind::python_file;
  if (may_execute) return ProgramKind::executable;
  return asks_for_python(head) ? ProgramKind::python_file : ProgramKind::not_executable;
}

std::vector<std::string> python_candidates(const Environment& environment) {
  if (const std::string chosen = variable_or_empty(environment, "PYTHON_EXEC"); !chosen.empty())
    return {chosen};
  return {"python3", "python"};
}

std::optional<std::string> choose_python(const Environment& environment,
                                         const std::map<std::string, ProgramFacts>& programs) {
  const auto path_of = [&](const std::string& candidate) {
    const auto found = programs.find(candidate);
    const bool there = found != programs.end() && found->second.kind == ProgramKind::executable;
    return there ? std::optional(found->second.path) : std::nullopt;
  };
  const auto plain = path_of("python");
  const bool chosen = !variable_or_empty(environment, "PYTHON_EXEC").empty();
  if (plain && !chosen && is_of_environment(*plain, environment)) return plain;
  std::optional<std::string> found;
  for (const std::string& candidate : python_candidates(environment)) {
    if (!found) found = path_of(candidate);
  }
  const auto own = path_of(k_own_python);
  return own && !chosen && (!found || is_of_system(*found)) ? own : found;
}

namespace {

constexpr std::size_t k_longest_version = 64;

bool is_version_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' || c == '-' || c == '_';
}

// Returns "3.11" for "3.11.2".
std::string major_and_minor(std::string_view version) {
  const std::size_t minor = version.find('.');
  if (minor == std::string_view::npos) return {};
  return std::string(version.substr(0, version.find('.', minor + 1)));
}

}  // namespace

std::optional<std::string> parse_python_name(std::string_view name) {
  constexpr std::string_view k_start = "python";
  if (!name.starts_with(k_start)) return std::nullopt;
  const std::string_view number = name.substr(k_start.size());
  const auto parts = split(number, '.');
  const auto is_number = [](const std::string& part) {
    return !part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == std::string::npos;
  };
  if (parts.size() != 2 || !std::ranges::all_of(parts, is_number)) return std::nullopt;
  return std::string(number);
}

std::optional<std::string> parse_torch_version(std::string_view text) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with("__version__")) continue;
    const std::size_t open = line.find_first_of("'\"");
    if (open == std::string::npos) return std::nullopt;
    const std::size_t close = line.find(line[open], open + 1);
    if (close == std::string::npos || close - open - 1 > k_longest_version) return std::nullopt;
    const std::string version = line.substr(open + 1, close - open - 1);
    const bool good = !version.empty() && std::ranges::all_of(version, is_version_character);
    return good ? std::optional(version) : std::nullopt;
  }
  return std::nullopt;
}

VirtualEnvironment parse_virtual_environment(std::string_view text) {
  VirtualEnvironment environment;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view key = trim(std::string_view(line).substr(0, equals));
    const std::string_view value = trim(std::string_view(line).substr(equals + 1));
    // venv writes version, virtualenv and uv version_info.
    if (key == "version" || key == "version_info") environment.version = major_and_minor(value);
    if (key == "include-system-site-packages") environment.system_packages = to_lower(value) == "true";
  }
  return environment;
}

}  // namespace ddprun::facts
