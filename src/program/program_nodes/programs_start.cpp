#include "program_nodes/programs_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "command_line/arguments.hpp"
#include "command_line/command_line.hpp"
#include "command_line/option_table.hpp"
#include "console/console.hpp"
#include "facts/lined_json.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/become.hpp"
#include "os/process/child_call.hpp"
#include "os/read_file.hpp"
#include "placement/devices.hpp"
#include "plan/worker_env.hpp"
#include "program_nodes/program_child.hpp"
#include "program_nodes/program_node.hpp"
#include "programs/replicas.hpp"

namespace ddprun::program_nodes {

using programs::Program;

namespace {

// Options of the launch as a whole, of which no program's own ddprun hears.
constexpr std::string_view k_of_launch[] = {
    "scheduler",  "launcher",      "launcher-args",     "hosts",         "hostfile",     "order",
    "node-rank",  "master-addr",   "master-port",       "rdzv-endpoint", "rdzv-backend", "rdzv-id",
    "rdzv-conf",  "rdzv",          "rdzv-dir",          "standalone",    "gather",       "requeue",
    "requeue-on", "no-requeue-on", "signal-before-end", "dry-run",       "capture",      "snapshot",
    "check",      "strict",        "exclude-file",      "print-config"};
// Options before the first program that are its own, beside those of OptionGroup::programs; --report is the
// job's.
constexpr std::string_view k_of_first[] = {"nnodes",
                                           "nproc-per-node",
                                           "module",
                                           "no-python",
                                           "run-path",
                                           "no-use-env",
                                           "container",
                                           "role",
                                           "spares",
                                           "gpus-per-worker",
                                           "workers-per-gpu",
                                           "max-restarts",
                                           "report",
                                           "events",
                                           "metrics",
                                           "stage",
                                           "stage-to",
                                           "stage-keep",
                                           "signal-before-end",
                                           "hang-timeout",
                                           "on-hang",
                                           "checkpoint-memory",
                                           "checkpoint-folder",
                                           "checkpoint-rate",
                                           "checkpoint-flush",
                                           "checkpoint-flush-every",
                                           "checkpoint-keep"};

template <class Names>
bool is_among(const Names& names, std::string_view option) {
  return std::ranges::find(names, option) != std::end(names);
}

// One option as it was normalised: its name without dashes, and its value.
struct GivenOption {
  std::string name;
  std::string value;
  bool flag = false;
  bool of_programs = false;  // option of OptionGroup::programs
};

std::vector<GivenOption> options_of(const command_line::Arguments& arguments) {
  std::vector<GivenOption> given;
  const auto& table = command_line::option_table();
  for (std::size_t i = 0; i < arguments.options.size(); ++i) {
    const std::string name = arguments.options[i].substr(2);
    const auto entry = std::ranges::find_if(table, [&](const auto& each) { return each.name == name; });
    const bool flag = entry->value == command_line::OptionValue::none;
    given.push_back({name, flag ? "" : arguments.options[++i], flag,
                     entry->group == command_line::OptionGroup::programs});
  }
  return given;
}

std::string as_word(const GivenOption& option) {
  return option.flag ? "--" + option.name : fmt::format("--{}={}", option.name, option.value);
}

command_line::Arguments normalise(const std::vector<std::string>& words) {
  return command_line::normalise_arguments(words, command_line::option_table());
}

// The words of one program's own ddprun; its log files have a folder of their own.
std::vector<std::string> words_for_child(const std::vector<GivenOption>& given,
                                         const std::vector<std::string>& command, const std::string& name) {
  std::vector<std::string> words;
  for (GivenOption option : given) {
    if (is_among(k_of_launch, option.name) || (option.of_programs && option.name != "env")) continue;
    if (option.name == "logs" || option.name == "log-dir") option.value += "/" + name;
    words.push_back(as_word(option));
  }
  const bool labelled = std::ranges::any_of(given, [](const GivenOption& option) {
    return option.name == "label" || option.name == "log-line-prefix-template" || option.name == "tee";
  });
  if (!labelled) words.push_back(fmt::format("--label=[{} {{rank}} {{host}}] ", name));
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Program make_program(const options::Options& options) {
  Program program;
  program.name = options.program.name;
  program.nodes = options.place.nodes ? options.place.nodes->value : 0;
  program.least = options.least_nodes ? options.least_nodes->value : program.nodes - options.spares.value;
  program.node_list = options.program.nodes;
  program.with = options.program.with;
  program.after = options.program.after;
  program.ready = options.program.ready;
  program.ready_timeout = static_cast<int>(options.program.ready_timeout.count());
  program.on_exit = options.program.on_exit.value_or(options::OnExit::fail);
  program.workers = options.place.workers_per_node ? options.place.workers_per_node->value : 0;
  if (!options.gpus_per_worker.by_default()) program.gpus = options.gpus_per_worker.value;
  if (options.time_limit.signal) program.warned = options.time_limit.signal->value.signal;
  program.independent = options.program.independent;
  return program;
}

// The script that an interpreter is given, or the first word.
std::string script_of(const options::Options& options) {
  const std::vector<std::string>& words = options.command;
  const auto script =
      std::ranges::find_if(words, [](const std::string& word) { return word.ends_with(".py"); });
  return options.no_python && script != words.end() ? *script : words.front();
}

std::string name_piece(std::size_t number, const options::Options* options) {
  if (options != nullptr && !options->program.name.empty()) return "program " + options->program.name;
  return fmt::format("program {}", number + 1);
}

options::Options parse_piece(std::size_t number, const std::vector<std::string>& words,
                             const facts::Environment& environment,
                             const command_line::OptionLayers& layers) {
  try {
    auto parsed = command_line::parse_command_line(words, environment, layers);
    if (auto* options = std::get_if<options::Options>(&parsed)) return std::move(*options);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", name_piece(number, nullptr), error.what()), error.hint());
  }
  throw UsageError(fmt::format("{}: an option that prints something and ends stands before the first program",
                               name_piece(number, nullptr)),
                   "leave it out");
}

// ---- the job's file

using LinedJson = facts::LinedJson;

// The options of an object as words; the keys of `others` are something else.
std::vector<std::string> words_of(const LinedJson& source, const LinedJson::Json& object,
                                  const std::string& file, const std::vector<std::string>& others) {
  std::vector<std::string> words;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(others, key) != others.end()) continue;
    const int line = source.line_of(value);
    const LinedJson::Json list = value.is_array() ? value : LinedJson::Json::array({value});
    for (const auto& each : list) {
      const std::string origin = fmt::format("{} ({}, line {})", key, file, line);
      if (!each.is_string() && !each.is_number_integer() && !each.is_boolean())
        source.fail(line, fmt::format("{} is no text, number or truth value", key));
      const facts::OptionText text{key, each.is_string() ? each.get<std::string>() : each.dump(), origin};
      const command_line::OptionEntry& option = command_line::find_configured(text);
      const auto configured = command_line::configured_value(option, text);
      if (configured)
        words.push_back(as_word({key, *configured, option.value == command_line::OptionValue::none}));
    }
  }
  return words;
}

std::vector<std::string> command_of(const LinedJson& source, const LinedJson::Json& program) {
  const auto command = program.find("command");
  if (command == program.end()) source.fail(source.line_of(program), "a program has no \"command\"");
  std::vector<std::string> words;
  if (command->is_array() && !command->empty()) {
    for (const auto& word : *command) {
      if (!word.is_string()) source.fail(source.line_of(*command), "\"command\" has a word that is no text");
      words.push_back(word.get<std::string>());
    }
  }
  if (words.empty())
    source.fail(source.line_of(*command),
                "\"command\" is no list of words, as in [\"train.py\", \"--steps\", \"100\"]");
  return words;
}

// The words of a job's file: options for all programs, then the programs.
struct JobWords {
  std::vector<std::string> common;
  std::vector<std::string> programs;
};

JobWords words_of_file(const std::string& path) {
  constexpr std::size_t k_limit = std::size_t{1} << 20;
  const LinedJson source =
      facts::read_lined_json(os::read_file(path, k_limit), "the job file " + path,
                             "its \"programs\" is a list of objects with \"command\" and options", k_limit);
  const auto programs = source.json.find("programs");
  if (programs == source.json.end() || !programs->is_array() || programs->empty())
    source.fail(0, "it has no list \"programs\"");
  JobWords all{words_of(source, source.json, path, {"programs"}), {}};
  std::vector<std::string>& words = all.programs;
  bool first = true;
  for (const auto& program : *programs) {
    if (!program.is_object()) source.fail(source.line_of(*programs), "a program is no object");
    if (!std::exchange(first, false)) words.emplace_back(":");
    const std::vector<std::string> own = words_of(source, program, path, {"command"});
    words.insert(words.end(), own.begin(), own.end());
    const std::vector<std::string> command = command_of(source, program);
    words.insert(words.end(), command.begin(), command.end());
  }
  return all;
}

// ---- the plan

constexpr Milliseconds k_plan_limit{30'000};
constexpr std::size_t k_longest_plan = std::size_t{1} << 20;

// Returns the plan that a ddprun of the program prints for --dry-run.
std::string plan_of(const Program& program, const ProgramPlace& place, const std::string& how,
                    const facts::Snapshot& snapshot) {
  std::vector<std::string> arguments = make_arguments(program, place);
  arguments.insert(arguments.begin() + 1, {how, "--quiet"});
  arguments.front() = os::capture_own_file();
  const auto environment = make_environment(program, place, snapshot.environment);
  const os::ProgramEnd end = os::run_program({arguments, plan::make_environment_strings(environment), ""},
                                             k_plan_limit, k_longest_plan);
  if (end.status && end.status->success()) return end.output;
  std::string what(trim(end.output)), hint;
  const std::string said = fmt::format("ddprun: {}: ", programs::name_of(program));
  constexpr std::string_view k_hint = "\nhint: ";
  if (what.starts_with(said)) what.erase(0, said.size());
  if (const std::size_t at = what.find(k_hint); at != std::string::npos) {
    hint = what.substr(at + k_hint.size());
    what.resize(at);
  }
  throw Error(fmt::format("program {}: {}", program.name, what), hint,
              end.status ? end.status->value : k_exit_own_failure);
}

}  // namespace

void read_job_file(facts::Snapshot& snapshot) {
  std::vector<std::string>& arguments = snapshot.arguments;
  const auto end = std::ranges::find(arguments, "--");
  const auto option = std::find_if(arguments.begin(), end, [](const std::string& word) {
    return word == "--job" || word.starts_with("--job=");
  });
  if (option == end) return;
  const bool joined = *option != "--job";
  if (!joined && option + 1 == end) throw UsageError("option --job needs a value", "write --job=FILE");
  const std::string path = joined ? option->substr(6) : *(option + 1);
  const auto next = option + (joined ? 1 : 2);
  if (next != end && !next->starts_with('-'))
    throw UsageError(fmt::format("unexpected argument {} after --job {}", printable(*next), printable(path)),
                     "the file names the programs: write options before it");
  const JobWords words = words_of_file(path);
  std::vector<std::string> all = words.common;  // options of the file count less than those of the line
  all.insert(all.end(), arguments.begin(), option);
  all.insert(all.end(), next, arguments.end());
  all.insert(all.end(), words.programs.begin(), words.programs.end());
  arguments = std::move(all);
}

std::vector<Program> read_programs(const std::vector<std::vector<std::string>>& pieces,
                                   const options::Options& first, const facts::Environment& environment,
                                   const command_line::OptionLayers& layers) {
  if (pieces.size() < 2 && !first.program.independent) return {};
  std::vector<Program> all;
  std::vector<std::vector<GivenOption>> given;
  std::vector<std::string> scripts;
  std::vector<std::vector<std::string>> commands;
  std::vector<std::string> common;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::vector<std::string> words = common;
    words.insert(words.end(), pieces[i].begin(), pieces[i].end());
    const options::Options options = i == 0 ? first : parse_piece(i, words, environment, layers);
    const command_line::Arguments arguments = normalise(words);
    given.push_back(options_of(arguments));
    commands.push_back(arguments.command);
    scripts.push_back(script_of(options));
    all.push_back(make_program(options));
    const auto& warning = options.time_limit.signal;
    if (warning && (!first.time_limit.signal || warning->value != first.time_limit.signal->value))
      throw UsageError(
          fmt::format("{}: --signal-before-end is not that of the first program", name_piece(i, &options)),
          "give the first program the same: the signal is sent once, to the programs that have the option");
    if (i == 0) {
      if (!options.program.on_exit) all.front().on_exit = options::OnExit::job;
      for (const GivenOption& option : given.front()) {
        if (!option.of_programs && !is_among(k_of_first, option.name)) common.push_back(as_word(option));
      }
      std::erase_if(given.front(), [](const GivenOption& option) { return option.name == "report"; });
    }
  }
  programs::settle_names(all, scripts);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].words = words_for_child(given[i], commands[i], all[i].name);
  return all;
}

void refuse_alone(const options::Options& options) {
  const options::ProgramOptions& program = options.program;
  if (!options.job_file.empty())
    throw UsageError(
        fmt::format("--job {} has to be written in full, before a script", printable(options.job_file)),
        "write --job FILE");
  const char* const option = !program.nodes.empty()   ? "--nodes"
                             : !program.with.empty()  ? "--with"
                             : !program.after.empty() ? "--after"
                             : !program.ready.empty() ? "--ready"
                             : program.on_exit        ? "--on-exit"
                                                      : nullptr;
  if (option == nullptr) return;
  throw UsageError(fmt::format("{} is about several programs, and this job has one", option),
                   option == std::string_view("--nodes")
                       ? "--nnodes sets the number of nodes (default: those of the allocation)"
                       : "separate programs with ':', as in ddprun train.py : --name server serve.py");
}

void make_programs_launch(options::Options& options, const std::vector<Program>& programs) {
  options.several_programs = true;
  options.module = options.run_path = options.local_rank_argument = false;
  options.no_python = true;
  options.command = {os::capture_own_file(), k_program_node, nlohmann::json(programs).dump(),
                     options.report_file};
  options.workers = {options::WorkersKind::number, 1, "one ddprun a node"};
  options.place.workers_per_node = sourced(1, "one ddprun a node");
  const bool by_hand = options.place.node_rank || options.place.address;
  int nodes = 0;
  for (const Program& each : programs) nodes += each.with.empty() ? each.nodes : 0;
  options.place.nodes.reset();
  if (by_hand && nodes > 0) options.place.nodes = sourced(nodes, "--nnodes of all programs");
  options.max_restarts.value = 0;
  options.spares.value = 0;
  options.least_nodes.reset();
  if (const int least = programs::least_nodes(programs); least > 0) {
    // On these the job starts again where its first node is lost; none is left out at the start for that.
    options.least_nodes = sourced(least, "the nodes that all programs need");
    options.last_call.value = std::chrono::hours(1);
    options.grow.value = options::Grow::never;
  }
  options.restarts = {};
  options.hang = {};
  options.hang.inspect.value = false;
  options.stage = {};
  options.checkpoint = {};
  options.bind.mode = options::BindMode::none;
  options.memory_bind.value = options::MemoryBind::automatic;
  options.omp_places = options.show_binding = false;
  options.nic.value = false;
  options.container = {};
  options.store = options::StoreHost::agent;
  options.program = {};
  options.report_file.clear();
  options.events_file.clear();
  options.metrics_file.clear();
  const bool gather = options.output.gather;
  options.output = {};
  options.output.gather = gather;
  options.output.fold = output::Folding::off;
}

void refuse_tasks(const allocation::Allocation& allocation) {
  if (allocation.style.value != allocation::LaunchStyle::agent_per_task) return;
  throw UsageError("several programs need one ddprun on each node, and this launch has one for each worker",
                   "start one on each node, as in srun --ntasks-per-node=1 or mpiexec -ppn 1");
}

int print_programs(const std::vector<Program>& several, const options::Options& options,
                   const allocation::Allocation& allocation, const facts::Snapshot& snapshot) {
  if (options.dry_run != options::DryRun::text && options.dry_run != options::DryRun::json)
    throw UsageError("--dry-run of several programs is text or JSON", "write --dry-run or --dry-run=json");
  const placement::VisibleDevices devices = placement::find_visible_devices(snapshot);
  const int gpus = static_cast<int>(devices.entries.size());
  std::vector<programs::JobNode> nodes;  // takes all to be like this one
  for (const allocation::Host& each : allocation.hosts.value) nodes.push_back({each.name, each.name, gpus});
  if (nodes.empty() || std::ranges::find(nodes, "", &programs::JobNode::host) != nodes.end())
    throw Error("the hosts of this launch show only once all its ddpruns have met", "leave --dry-run out");
  const auto [all, nodes_of, ranks] = programs::place_programs(several, nodes);
  const bool json = options.dry_run == options::DryRun::json;
  nlohmann::ordered_json plans;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ProgramPlace there;
    if (all[i].replica > 0) continue;  // looks like the first one
    for (const int node : nodes_of[i]) there.hosts.push_back(nodes[static_cast<std::size_t>(node)].host);
    there.address = there.hosts.front();
    there.job = allocation.job_id.value.empty() ? "" : allocation::describe_job(allocation);
    there.folder = "$TMPDIR";
    there.share = programs::share_node(all, nodes_of, nodes_of[i].front(), there.hosts.front(),
                                       cores_of(snapshot.host), gpus)
                      .at(i);
    there.note_gpus(devices);
    os::keep_to_cpus(there.share.cpus.empty() ? snapshot.host.allowed_cpus : there.share.cpus);
    const std::string plan = plan_of(all[i], there, json ? "--dry-run=json" : "--dry-run", snapshot);
    if (json) {
      plans["programs"][all[i].name] = nlohmann::ordered_json::parse(plan);
    } else {
      const std::string replica =
          all[i].replica < 0 ? "" : fmt::format(", the first of {}", count_of(all[i].replicas, "replica"));
      console::print_text(fmt::format("{}program {} on {}{}\n\n{}", i == 0 ? "" : "\n", all[i].name,
                                      allocation::compress_hostlist(there.hosts), replica, plan));
    }
  }
  if (json) console::print_data(plans.dump(2) + "\n");
  return 0;
}

}  // namespace ddprun::program_nodes
