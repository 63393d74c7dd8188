#include "allocation/launchers/launchers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "allocation/hostlist.hpp"
#include "allocation/launchers/launcher_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace launcher_rows {

namespace {

[[noreturn]] void fail_torn(const std::string& what) {
  throw Error(what,
              "the variables come from different launches or were edited; start ddprun from a fresh shell");
}

void check_below(const Sourced<int>& number, const std::optional<Sourced<int>>& count) {
  if (!count || number.value < count->value) return;
  fail_torn(fmt::format("{}={}, but {}={}", number.origin, number.value, count->origin, count->value));
}

}  // namespace

std::optional<Sourced<int>> read_number(const Seen& seen, const char* name, int least) {
  return name == nullptr ? std::nullopt : seen.variables.count(name, least);
}

std::optional<LaunchPlace> read_numbers(const Seen& seen, const char* launcher, const Names& names) {
  const auto rank = read_number(seen, names.rank, 0);
  if (!rank) return std::nullopt;
  LaunchPlace place;
  place.launcher = launcher;
  place.rank = *rank;
  place.size = read_number(seen, names.size, 1);
  place.local_rank = read_number(seen, names.local_rank, 0);
  place.local_size = read_number(seen, names.local_size, 1);
  check_below(place.rank, place.size);
  if (place.local_rank) check_below(*place.local_rank, place.local_size);
  if (place.size && place.local_size && place.local_size->value > place.size->value) {
    fail_torn(fmt::format("{}={} is more than {}={}", place.local_size->origin, place.local_size->value,
                          place.size->origin, place.size->value));
  }
  return place;
}

std::string read_slurm_step(const Seen& seen, const char* variable) {
  const auto text = seen.variables.text(variable);
  if (!text) return {};
  std::string_view step = text->value;
  constexpr std::string_view k_pmix = "slurm.pmix.";
  if (step.starts_with(k_pmix)) step.remove_prefix(k_pmix.size());
  const auto numbers = split(step, '.');
  const bool both = numbers.size() == 2 &&
                    std::all_of(numbers.begin(), numbers.end(),
                                [](const auto& number) { return parse_integer(number).value_or(-1) >= 0; });
  return both ? std::string(step) : std::string{};
}

KeyValueSpace find_pmi1(const Seen& seen) {
  return seen.variables.has("PMI_FD") || seen.variables.has("PMI_PORT") ? KeyValueSpace::pmi1
                                                                        : KeyValueSpace::none;
}

KeyValueSpace find_pmix(const Seen& seen) {
  constexpr const char* k_server = "PMIX_SERVER_URI";
  const auto found = seen.snapshot.environment.lower_bound(k_server);
  const bool there = found != seen.snapshot.environment.end() && found->first.starts_with(k_server);
  return there ? KeyValueSpace::pmix : KeyValueSpace::none;
}

}  // namespace launcher_rows

namespace {

// Programs that run other programs in their own environment.
constexpr std::array k_shells{"sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "su", "sudo"};
constexpr std::array k_consoles{"login", "tmux", "screen", "SCREEN"};
constexpr std::array k_daemons{"hydra_pmi_proxy", "pmi_proxy",      "orted",       "orterun",
                               "mpirun",          "mpirun.openmpi", "mpiexec",     "mpiexec.openmpi",
                               "prted",           "prterun",        "mpiexec_mpt", "arrayd"};
constexpr std::array k_scheduler_daemons{"slurmstepd:", "pbs_mom", "pbs_attach", "pbs_tmrsh",   "palsd",
                                         "res",         "jsmd",    "flux-shell", "flux-broker", "sshd:"};

template <std::size_t N>
bool is_among(std::string_view program, const std::array<const char*, N>& programs) {
  return std::find(programs.begin(), programs.end(), program) != programs.end();
}

// Returns "bash" for "-bash", "pbs_mom" for "/opt/pbs/sbin/pbs_mom -N".
std::string_view program_of(const facts::Ancestor& ancestor) {
  std::string_view word = std::string_view(ancestor.title).substr(0, ancestor.title.find(' '));
  word.remove_prefix(word.find_last_of('/') + 1);
  if (word.starts_with('-')) word.remove_prefix(1);
  return word;
}

bool starts_scripts(const facts::Ancestor& ancestor) {
  const bool slurm = ancestor.title.starts_with("slurmstepd: [") && ancestor.title.ends_with(".batch]");
  return slurm || program_of(ancestor) == "pbs_mom";
}

// Reports whether it is a person's terminal. An sshd without one, "sshd: lab@notty", may be where a
// launcher's command arrived.
bool is_login(const facts::Ancestor& ancestor) {
  const bool by_ssh = ancestor.title.starts_with("sshd") && ancestor.title.find("@pts/") != std::string::npos;
  return by_ssh || is_among(program_of(ancestor), k_consoles);
}

// Returns the nearest ancestor that is no shell; nullptr if /proc shows none.
const facts::Ancestor* find_front_end(const facts::HostFacts& host) {
  const auto found =
      std::find_if(host.ancestors.begin(), host.ancestors.end(),
                   [](const facts::Ancestor& ancestor) { return !is_among(program_of(ancestor), k_shells); });
  return found == host.ancestors.end() ? nullptr : &*found;
}

// The most telling first: jsrun sets Open MPI's variables too, Open MPI and PALS those of PMIx and PMI.
constexpr std::array k_launchers{launcher_rows::read_flux,     launcher_rows::read_jsrun,
                                 launcher_rows::read_pals,     launcher_rows::read_open_mpi,
                                 launcher_rows::read_mvapich2, launcher_rows::read_mpt,
                                 launcher_rows::read_hydra,    launcher_rows::read_pmix};

}  // namespace

std::vector<LaunchPlace> find_launch_places(const facts::Snapshot& snapshot) {
  const launcher_rows::Seen seen{snapshot, Variables(snapshot.environment)};
  std::vector<LaunchPlace> places;
  for (const auto& read : k_launchers) {
    if (auto place = read(seen)) places.push_back(std::move(*place));
  }
  return places;
}

void check_not_left_over(const LaunchPlace& place, const facts::HostFacts& host) {
  const facts::Ancestor* const front_end = find_front_end(host);
  if (front_end == nullptr || !(starts_scripts(*front_end) || is_login(*front_end))) return;
  throw Error(
      fmt::format("{} is set, but only shells are between this ddprun and {}: the variable is left from "
                  "another launch",
                  describe(place), printable(front_end->title, 80)),
      "clear the variables of " + place.launcher + ", or use this host alone with --standalone");
}

void check_rank_not_lost(const facts::Snapshot& snapshot) {
  if (const auto local = Variables(snapshot.environment).text("MPT_LRANK");
      local && find_launch_places(snapshot).empty()) {
    throw Error(fmt::format("HPE MPT started this ddprun on {} ({}={}), but PMI_RANK is not set: no variable "
                            "gives its rank among all",
                            snapshot.host.name, local->origin, printable(local->value, 20)),
                "start one ddprun on each host and give its place: --nnodes N --node-rank R --master-addr "
                "HOST; or call ddprun once in the job's script, without mpiexec_mpt");
  }
  const facts::Ancestor* const front_end = find_front_end(snapshot.host);
  if (front_end == nullptr || !is_among(program_of(*front_end), k_daemons)) return;
  if (!find_launch_places(snapshot).empty()) return;
  throw Error(fmt::format("{} started this ddprun on {}, but no variable gives its rank",
                          program_of(*front_end), snapshot.host.name),
              "let the launcher's variables reach ddprun (a script may have cleared them), or use this host "
              "alone with --standalone");
}

bool is_started_by_scheduler(const facts::HostFacts& host) {
  const facts::Ancestor* const front_end = find_front_end(host);
  return front_end != nullptr &&
         (front_end->title.starts_with("slurmstepd: [") || starts_scripts(*front_end));
}

std::optional<bool> is_below_script(const facts::HostFacts& host) {
  const auto has = [&](const auto& is_such) { return std::ranges::any_of(host.ancestors, is_such); };
  if (has(starts_scripts)) return true;
  if (has(is_login)) return std::nullopt;
  // Neither shows if other users' processes are hidden, or a container has process numbers of its own.
  const bool seen = has([](const facts::Ancestor& ancestor) {
    const std::string_view program = program_of(ancestor);
    return program == "systemd" || program == "init" || program.starts_with("sshd");
  });
  return seen ? std::optional(false) : std::nullopt;
}

bool is_interactive_shell(const facts::Ancestor& ancestor) {
  if (!is_among(program_of(ancestor), k_shells)) return false;
  const std::vector<std::string> words = split_words(ancestor.title);
  return std::all_of(words.begin() + 1, words.end(), [](const std::string& word) {
    return word.starts_with("--") || (word.starts_with('-') && word.find('c') == std::string::npos);
  });
}

bool has_ancestor(const facts::HostFacts& host, const std::vector<std::string>& programs) {
  return std::any_of(host.ancestors.begin(), host.ancestors.end(), [&](const facts::Ancestor& ancestor) {
    return std::find(programs.begin(), programs.end(), program_of(ancestor)) != programs.end();
  });
}

bool is_run_by(const facts::HostFacts& host, std::string_view program) {
  for (const facts::Ancestor& ancestor : host.ancestors) {
    const std::string_view name = program_of(ancestor);
    if (name == program) return true;
    if (is_among(name, k_daemons) || is_among(name, k_scheduler_daemons)) return false;
  }
  return false;
}

std::string describe(const LaunchPlace& place) {
  const std::string rank = fmt::format("{}={}", place.rank.origin, place.rank.value);
  return place.size ? fmt::format("{} (of {})", rank, place.size->value) : rank;
}

std::optional<std::string> find_prrte_host(std::string_view launch) {
  constexpr std::string_view k_digits = "0123456789";
  const std::size_t at = launch.find('@');
  if (at == std::string_view::npos || !launch.starts_with("prte")) return std::nullopt;
  launch = launch.substr(0, at);
  const std::size_t first = launch.find('-');
  const std::size_t last = launch.rfind('-');
  if (first == std::string_view::npos || last <= first + 1 || last + 1 == launch.size()) return std::nullopt;
  if (launch.find_first_not_of(k_digits, last + 1) != std::string_view::npos) return std::nullopt;
  const std::string_view host = launch.substr(first + 1, last - first - 1);
  return is_host_name(host) ? std::optional<std::string>(host) : std::nullopt;
}

bool is_address_text(std::string_view text) {
  const bool dotted = text.find_first_not_of("0123456789.") == std::string_view::npos;
  const bool colons = text.find(':') != std::string_view::npos &&
                      text.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  return !text.empty() && text.size() <= 45 && (dotted || colons);
}

}  // namespace ddprun::allocation
