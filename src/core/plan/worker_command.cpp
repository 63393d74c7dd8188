#include "plan/worker_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "staging/manifest.hpp"
#include "staging/rewrite.hpp"

namespace ddprun::plan {

namespace {

// Folders of a Python that all users of the machine share.
constexpr std::array k_system_folders{"/usr/bin", "/bin", "/usr/local/bin"};

// VIRTUAL_ENV or CONDA_PREFIX, where it is set but PATH leads to the system's Python; empty: neither.
std::string find_inactive_environment(const facts::Environment& environment, const std::string& python) {
  const bool by_system =
      std::ranges::find(k_system_folders, python.substr(0, python.rfind('/'))) != k_system_folders.end();
  if (!by_system || !facts::variable_or_empty(environment, "PYTHON_EXEC").empty()) return {};
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = facts::variable_or_empty(environment, name);
    if (!prefix.empty() && !python.starts_with(prefix + "/")) return name;
  }
  return {};
}

// Replaces torchrun's macro (torch/distributed/elastic/utils/api.py). Its template class also knows
// `$local_rank` and turns `$$` into `$`; ddprun leaves every other `$` as the user wrote it.
std::string replace_macro(std::string word, const std::string& number) {
  static constexpr std::string_view k_macro = "${local_rank}";
  for (std::size_t at = word.find(k_macro); at != std::string::npos;
       at = word.find(k_macro, at + number.size())) {
    word.replace(at, k_macro.size(), number);
  }
  return word;
}

// Throws for a script that is only on PATH: python looks for a script by its path alone.
void refuse_from_path(const std::string& word, const facts::ProgramFacts& facts,
                      const facts::Snapshot& snapshot) {
  if (word.find('/') != std::string::npos || facts.path.find('/') == std::string::npos) return;
  throw Error(fmt::format("cannot start {} on {}: no such file in {}", printable(word), snapshot.host.name,
                          printable(snapshot.working_directory)),
              fmt::format("it is on PATH: write {}", shell_quote(facts.path)), k_exit_not_found);
}

std::string explain_missing(const std::string& word, const facts::ProgramFacts& facts,
                            const facts::Snapshot& snapshot) {
  if (!facts.path.empty()) {
    return fmt::format("it is in {}, but not on PATH: write ./{}", printable(snapshot.working_directory),
                       printable(word));
  }
  const auto submitted = snapshot.programs.find(path_where_submitted(word, snapshot));
  if (submitted != snapshot.programs.end() && submitted->second.kind != facts::ProgramKind::missing) {
    return fmt::format(
        "it is in {}, where the job was submitted; PBS starts scripts in the home directory: write cd "
        "\"$PBS_O_WORKDIR\" before ddprun",
        printable(*facts::find_variable(snapshot, "PBS_O_WORKDIR")));
  }
  const std::string folder = printable(snapshot.working_directory);
  if (folder.empty()) return "the working directory has been removed: cd to another one";
  return word.find('/') == std::string::npos ? fmt::format("it is neither in {} nor on PATH", folder)
                                             : fmt::format("the working directory is {}", folder);
}

// An option of python. `more`: its value is the next word.
struct PythonOption {
  bool isolates = false;
  bool ends = false;  // the script follows, or is named here
  bool more = false;
};

PythonOption read_python_option(const std::string& word) {
  if (word.size() < 2 || word.front() != '-') return {.ends = true};
  if (word[1] == '-') return {.more = word == "--check-hash-based-pycs"};
  for (std::size_t at = 1; at < word.size(); ++at) {
    const char letter = word[at];
    if (letter == 'I' || letter == 'E') return {.isolates = true};
    if (letter == 'c' || letter == 'm') return {.ends = true};
    if (letter == 'W' || letter == 'X') return {.more = at + 1 == word.size()};
  }
  return {};
}

}  // namespace

std::string path_where_submitted(const std::string& word, const facts::Snapshot& snapshot) {
  const auto folder = facts::find_variable(snapshot, "PBS_O_WORKDIR");
  const bool relative = !word.empty() && word.front() != '/';
  if (!folder || folder->empty() || !relative || !facts::find_variable(snapshot, "PBS_JOBID")) return {};
  return *folder + "/" + word;
}

bool needs_python(const options::Options& options, facts::ProgramKind kind) {
  if (options.run_path) return true;
  if (options.no_python) return false;
  return options.module || kind != facts::ProgramKind::executable;
}

std::string find_python_inside(const facts::Snapshot& snapshot) {
  const std::string chosen = facts::find_variable(snapshot, "PYTHON_EXEC").value_or("");
  return chosen.empty() ? "python3" : chosen;
}

std::string find_python(const facts::Snapshot& snapshot) {
  const auto chosen = facts::find_variable(snapshot, "PYTHON_EXEC");
  const auto found = chosen ? snapshot.programs.find(*chosen) : snapshot.programs.end();
  if (found != snapshot.programs.end() && found->second.kind != facts::ProgramKind::executable) {
    throw UsageError(
        fmt::format(
            "PYTHON_EXEC={} cannot be started on {}: {}", printable(*chosen), snapshot.host.name,
            found->second.kind == facts::ProgramKind::missing ? "no such file" : "it is not executable"),
        "set it to an existing python, or unset PYTHON_EXEC");
  }
  const auto python = facts::choose_python(snapshot.environment, snapshot.programs);
  const auto looked_for = snapshot.programs.find("python3");
  if (!python && looked_for != snapshot.programs.end() &&
      looked_for->second.kind == facts::ProgramKind::missing) {
    const bool empty = facts::find_variable(snapshot, "PATH").value_or("").empty();
    throw Error(fmt::format("cannot start Python on {}: neither python3 nor python is on PATH{}",
                            snapshot.host.name, empty ? ", which is empty" : ""),
                "activate the environment that has Python before ddprun, or set PYTHON_EXEC to its path",
                k_exit_not_found);
  }
  return python.value_or("python3");
}

namespace {

// Guesses by the name: the contents of the image cannot be seen from outside.
facts::ProgramKind guess_kind_inside(const options::Options& options, const facts::Snapshot& snapshot) {
  const std::string& program = options.container.words.front();
  const auto found = snapshot.programs.find(program);
  if (found != snapshot.programs.end() && found->second.kind != facts::ProgramKind::executable) {
    throw Error(fmt::format("cannot start {} of {} on {}: {}", printable(program), options.container.origin,
                            snapshot.host.name,
                            found->second.kind == facts::ProgramKind::missing ? "it is not on PATH"
                                                                              : "it is not executable"),
                "load its module, or give its path", k_exit_not_found);
  }
  return options.command.front().ends_with(".py") ? facts::ProgramKind::python_file
                                                  : facts::ProgramKind::executable;
}

}  // namespace

facts::ProgramKind find_program_kind(const options::Options& options, const facts::Snapshot& snapshot) {
  if (!options.container.words.empty()) return guess_kind_inside(options, snapshot);
  const std::string& word = options.command.front();
  const auto found = snapshot.programs.find(word);
  if (options.module || found == snapshot.programs.end()) {
    return word.ends_with(".py") || !options.no_python ? facts::ProgramKind::python_file
                                                       : facts::ProgramKind::executable;
  }
  const facts::ProgramKind kind = found->second.kind;
  const std::string what = fmt::format("cannot start {} on {}: ", printable(word), snapshot.host.name);
  if (kind == facts::ProgramKind::missing) {
    throw Error(what + "no such file", explain_missing(word, found->second, snapshot), k_exit_not_found);
  }
  if (options.no_python && kind != facts::ProgramKind::executable &&
      kind != facts::ProgramKind::python_file) {
    throw Error(what + (kind == facts::ProgramKind::directory ? "it is a directory" : "it is not executable"),
                kind == facts::ProgramKind::directory ? "" : fmt::format("chmod +x {}", shell_quote(word)),
                k_exit_not_executable);
  }
  if (needs_python(options, kind)) refuse_from_path(word, found->second, snapshot);
  return kind;
}

std::vector<std::string> make_worker_command(const options::Options& options, const std::string& python,
                                             facts::ProgramKind kind, LocalRank local_rank) {
  std::vector<std::string> command;
  if (needs_python(options, kind)) {
    command = {python, "-u"};
    if (options.module && !options.run_path) command.emplace_back("-m");
  }
  const std::string number = std::to_string(local_rank.value);
  for (const std::string& word : options.command) command.push_back(replace_macro(word, number));
  if (options.local_rank_argument) {  // torch.distributed.launch, too, puts it right after the script
    const auto rest = static_cast<std::ptrdiff_t>(options.command.size() - 1);
    command.insert(command.end() - rest, "--local-rank=" + number);
  }
  return options::wrap_in_container(options.container, std::move(command));
}

namespace {

std::optional<allocation::Notice> find_python_beside(const options::Options& options,
                                                     const facts::Snapshot& snapshot) {
  const std::string chosen = facts::find_variable(snapshot, "PYTHON_EXEC").value_or("");
  const auto named = snapshot.programs.find(options.command.front());
  const auto other = snapshot.programs.find(chosen);
  if (chosen.empty() || named == snapshot.programs.end() || options.command.size() < 2) return std::nullopt;
  if (!starts_python({named->second.path}) ||
      (other != snapshot.programs.end() && other->second.path == named->second.path))
    return std::nullopt;
  return allocation::Notice{
      fmt::format("{} of the command is {}: PYTHON_EXEC={} has no effect", printable(options.command.front()),
                  printable(named->second.path), printable(chosen)),
      fmt::format("leave {} out, and ddprun runs the script with PYTHON_EXEC",
                  printable(options.command.front()))};
}

}  // namespace

std::optional<allocation::Notice> find_odd_python(const options::Options& options,
                                                  const facts::Snapshot& snapshot) {
  if (options.command.empty() || !options.container.words.empty()) return std::nullopt;
  if (!needs_python(options, find_program_kind(options, snapshot)))
    return find_python_beside(options, snapshot);
  const std::string python = find_python(snapshot);
  const std::string variable = find_inactive_environment(snapshot.environment, python);
  if (variable.empty()) return std::nullopt;
  const std::string prefix = *facts::find_variable(snapshot, variable);
  return allocation::Notice{
      fmt::format("{} runs the workers: {} is {}, but its bin folder is not on PATH", python, variable,
                  printable(prefix)),
      fmt::format(
          "activate the environment before ddprun, or export PYTHON_EXEC={}/bin/python; unset {} if {} is "
          "meant",
          printable(prefix), variable, python)};
}

std::optional<allocation::Notice> find_fixed_local_rank(const options::Options& options, int workers) {
  if (workers < 2) return std::nullopt;
  for (std::size_t i = 1; i < options.command.size(); ++i) {
    const std::string& word = options.command[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name != "--local_rank" && name != "--local-rank") continue;
    const bool last = i + 1 == options.command.size();
    const std::string number = equals != std::string::npos ? word.substr(equals + 1)
                               : last                      ? std::string()
                                                           : options.command[i + 1];
    if (!parse_integer(number)) continue;
    return allocation::Notice{
        fmt::format("{} {} of the command is the same for all {}", name, number, count_of(workers, "worker")),
        fmt::format(
            "leave it out: LOCAL_RANK is in the environment of each worker; for a script that needs the "
            "argument, write {}='${{local_rank}}', or add --no-use-env",
            name)};
  }
  return std::nullopt;
}

bool starts_python(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const std::string& program = command.front();
  return program.compare(program.rfind('/') + 1, 6, "python") == 0;
}

bool takes_python_path(const std::vector<std::string>& command) {
  for (std::size_t at = 1; at < command.size(); ++at) {
    const PythonOption option = read_python_option(command[at]);
    if (option.isolates) return false;
    if (option.ends) return true;
    if (option.more) ++at;
  }
  return true;
}

std::vector<std::string> staged_paths(const options::Options& options, const facts::Snapshot& snapshot) {
  std::vector<std::string> paths;
  for (const std::string& path : options.stage.paths)
    paths.push_back(
        staging::plain_path(path.starts_with('/') ? path : snapshot.working_directory + "/" + path));
  return paths;
}

std::vector<std::string> stage_places(const options::Options& options, const facts::Snapshot& snapshot) {
  return staging::places(options.stage.to, facts::find_variable(snapshot, "TMPDIR"));
}

std::vector<staging::Mapping> expect_staged(const options::Options& options,
                                            const facts::Snapshot& snapshot) {
  std::vector<staging::Mapping> mappings;
  const std::string place = stage_places(options, snapshot).front();
  for (const std::string& path : staged_paths(options, snapshot)) {
    const std::string last = staging::is_archive(path) ? "unpacked" : staging::name_of(path);
    mappings.push_back(
        {{path}, fmt::format("{}/ddprun-stage-UID/{}/{}", place, staging::copy_folder(path, "HASH"), last)});
  }
  return mappings;
}

std::vector<std::string> point_command(const LaunchPlan& plan, std::vector<std::string> command) {
  if (plan.staged.empty() || command.empty()) return command;
  const std::size_t outside = std::min(plan.node->options.container.words.size(), command.size());
  for (std::size_t i = 1; i < outside; ++i) {
    for (const staging::Mapping& mapping : plan.staged) {
      const bool is_image = std::ranges::find(mapping.sources, command[i]) != mapping.sources.end();
      if (is_image) command[i] = mapping.copy;
    }
  }
  command.front() = staging::map_path(command.front(), plan.staged);
  return command;
}

}  // namespace ddprun::plan
