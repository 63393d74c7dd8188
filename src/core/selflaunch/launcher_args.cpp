#include "selflaunch/launcher_args.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/shell_words.hpp"

namespace ddprun::selflaunch {

namespace {

using Words = std::vector<std::string>;

struct RefusedOptions {
  std::string_view launcher;
  const char* options;  // separated by blanks
  const char* reason;
};

constexpr const char* k_one_a_node = "it starts one ddprun on each node";
constexpr const char* k_carries = "it reads the output of every node and sends input to rank 0";
constexpr const char* k_outlives = "it decides how long the other nodes run when one ends";
constexpr const char* k_needs_input = "it sends each node its task through standard input";

// srun(1), mpiexec of MPICH, Open MPI and PALS, ssh(1), pbsdsh(1B), flux-run(1), blaunch(1), qrsh(1).
constexpr RefusedOptions k_refused[] = {
    {"srun",
     "-n --ntasks -N --nodes --ntasks-per-node -w --nodelist -x --exclude -r --relative -m --distribution "
     "--het-group --multi-prog -F --nodefile",
     k_one_a_node},
    {"srun", "-o --output -e --error -i --input --pty -l --label", k_carries},
    {"srun", "-W --wait -K --kill-on-bad-exit -k --no-kill", k_outlives},
    {"mpiexec",
     "-n -np --n --np -N -c -ppn --ppn -npernode --npernode -perhost --map-by -map-by -host -hosts --host "
     "--hosts "
     "-hostfile --hostfile -f -machinefile --machinefile -configfile --app --line-buffer-app",
     k_one_a_node},
    {"mpiexec",
     "-l --label -prepend-rank --tag-output -outfile-pattern -errfile-pattern --output-filename --output "
     "-s --stdin -stdin --xterm",
     k_carries},
    {"mpiexec", "-genvnone -envnone -genvlist -envlist", "its agents need its variables"},
    {"ssh", "-n -f -N -t -W -O -s", k_needs_input},
    {"ssh", "-M -S", "a shared connection would outlive the ssh that is to end"},
    {"oarsh", "-n -f -N -t -W -O -s -M -S", k_needs_input},
    {"qrsh", "-inherit -pty -noshell", k_needs_input},
    {"pbsdsh", "-n -c -o -s", k_one_a_node},
    {"flux", "-n --ntasks -N --nodes --tasks-per-node --tasks-per-core --cores --requires", k_one_a_node},
    {"flux", "--output --error --input -l --label-io", k_carries},
    {"blaunch", "-z -u", k_one_a_node}};

constexpr std::string_view k_refused_settings[] = {
    "controlmaster", "controlpath", "controlpersist", "forkafterauthentication",
    "remotecommand", "requesttty",  "sessiontype",    "stdinnull"};

// Reports whether the word gives this option: "-n4" and "--ntasks=4" too, and abbreviations that getopt
// takes.
bool gives(const std::string& word, std::string_view option, std::string_view launcher) {
  constexpr std::size_t k_shortest = 5;
  const std::string_view name = std::string_view(word).substr(0, word.find('='));
  if (name == option) return true;
  if (option.starts_with("--")) return name.size() >= k_shortest && option.starts_with(name);
  return option.size() == 2 && launcher != "mpiexec" && launcher != "qrsh" && word.starts_with(option);
}

std::optional<std::string> find_refusal(const std::string& word, const std::string& launcher) {
  if (word == "--" || word == ":") return fmt::format("{} ends the options of {}", word, launcher);
  for (const RefusedOptions& row : k_refused) {
    if (row.launcher != launcher) continue;
    for (const std::string& option : split_words(row.options)) {
      if (gives(word, option, launcher))
        return fmt::format("ddprun sets {} of {} itself: {}", option, launcher, row.reason);
    }
  }
  return std::nullopt;
}

// Returns the value of an option: behind "=", behind a single letter, or the next word.
std::string value_of(const Words& words, std::size_t at, std::string_view option) {
  const std::string& word = words[at];
  if (word == option) return at + 1 < words.size() ? words[at + 1] : std::string();
  return word.substr(option.size() + (option.starts_with("--") ? 1 : 0));
}

// The values that matter: variables that srun passes on, and settings of ssh.
std::optional<std::string> find_refused_value(const Words& words, std::size_t at,
                                              const std::string& launcher) {
  const std::string& word = words[at];
  if (launcher == "srun" && (word == "--export" || word.starts_with("--export="))) {
    const std::string value = value_of(words, at, "--export");
    if (value != "ALL" && !value.starts_with("ALL,"))
      return fmt::format(
          "srun --export={} does not pass on the variables that the agents need: begin it with ALL", value);
  }
  if ((launcher == "ssh" || launcher == "oarsh") && word.starts_with("-o")) {
    const std::string value = to_lower(value_of(words, at, "-o"));
    const std::string name = value.substr(0, value.find_first_of("= "));
    if (std::ranges::find(k_refused_settings, name) != std::end(k_refused_settings))
      return fmt::format("ddprun sets {} of {} itself: {}", name, launcher, k_needs_input);
  }
  return std::nullopt;
}

}  // namespace

Sourced<Words> read_launcher_args(const options::Options& options, const std::string& remote_launcher) {
  const auto given = options.given.find("launcher-args");
  if (given == options.given.end()) return {};
  const std::string& origin = given->second.origin;
  const Words words = options::split_shell_words(given->second.value, origin, k_launcher_args_hint);
  if (!words.front().starts_with('-')) {
    throw UsageError(fmt::format("{} is no option: {} would run '{}' instead of ddprun", origin,
                                 remote_launcher, printable(words.front(), 80)),
                     k_launcher_args_hint);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto refusal = find_refusal(words[i], remote_launcher);
    if (!refusal) refusal = find_refused_value(words, i, remote_launcher);
    if (!refusal) continue;
    throw UsageError(
        fmt::format("{} cannot have '{}': {}", origin, printable(words[i], 80), printable(*refusal, 300)),
        fmt::format("leave it out; --nnodes limits the nodes, --nproc-per-node sets the workers, and "
                    "--launcher none and your own {} start ddprun without it",
                    remote_launcher));
  }
  return sourced(words, origin);
}

}  // namespace ddprun::selflaunch
