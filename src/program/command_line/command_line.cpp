#include "command_line/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>

#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "command_line/arguments.hpp"
#include "command_line/help.hpp"
#include "command_line/lower_places.hpp"
#include "command_line/mistaken_command.hpp"
#include "command_line/option_table.hpp"
#include "os/capture/capture_hardware.hpp"
#include "output/output_options.hpp"
#include "plan/master_variables.hpp"
#include "rendezvous/host_limits.hpp"

namespace ddprun::command_line {

namespace {

// Refuses all unsupported options at once: one after the other would cost the user a try each.
void refuse_unsupported(const std::vector<Unsupported>& refusals) {
  if (refusals.empty()) return;
  if (refusals.size() == 1) throw refusals.front();
  std::vector<std::string> origins;
  std::vector<std::string> hints;
  for (const Unsupported& refusal : refusals) {
    origins.push_back(refusal.origin());
    hints.push_back(fmt::format("{}: {}", refusal.origin(), refusal.hint()));
  }
  throw UsageError(join(origins, ", ") + " are not supported yet", join(hints, "\nhint: "));
}

// Applies the command line. CLI11 gets full names with separate values, the form in which it takes any text
// for a value. It gets only the options that are there: each that it gets it compares with all before.
void apply_command_line(Draft& draft, std::vector<std::string> words) {
  CLI::App app;
  app.set_help_flag();
  for (const OptionEntry& option : option_table()) {
    const std::string name = fmt::format("--{}", option.name);
    if (std::find(words.begin(), words.end(), name) == words.end()) continue;
    if (option.value == OptionValue::none) {
      app.add_flag_callback(name,
                            [&draft, &option, name] {
                              apply_option(draft, option, {"1", name});
                            })
          ->take_last();
    } else {
      const auto set = [&draft, &option, name](const std::string& text) {
        apply_option(draft, option, {text, name});
      };
      const bool each_counts =
          option.name == std::string_view("stage") || option.name == std::string_view("env");
      app.add_option_function<std::string>(name, set)->take_last()->trigger_on_parse(each_counts);
    }
  }
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("the command line cannot be read: {}", printable(error.what())),
                     "ddprun --help lists the options");
  }
}

void note(Draft& draft, const std::string& what, const std::string& why) {
  draft.notices.push_back({what, why});
}

// Applies torchrun's --standalone, which replaces without a word everything that says where the others are;
// here the user can read it.
void settle_standalone(Draft& draft) {
  allocation::PlaceOptions& place = draft.place;
  if (!place.standalone) return;
  const std::string standalone = draft.origins["standalone"];
  if (place.nodes && place.nodes->value != 1) {
    throw UsageError(
        fmt::format("{} means one node, but {} is {}", standalone, place.nodes->origin, place.nodes->value),
        fmt::format("leave out {} or {}", standalone, place.nodes->origin));
  }
  for (const char* name : {"node-rank", "master-addr", "master-port", "rdzv-endpoint", "rdzv-id", "hosts",
                           "hostfile", "launcher"}) {
    const auto given = draft.origins.find(name);
    if (given == draft.origins.end()) continue;
    note(draft, given->second + " has no effect", standalone + " uses this host only");
  }
  draft.endpoint.reset();
  draft.hostfile.clear();
  draft.remote_launcher = {};
  allocation::PlaceOptions alone;
  alone.nodes = place.nodes;
  alone.workers_per_node = place.workers_per_node;
  alone.standalone = true;
  place = alone;
}

// Fills in what the command line and PET_ variables leave open.
void follow_master_variables(Draft& draft, const facts::Environment& environment) {
  allocation::PlaceOptions& place = draft.place;
  const plan::MasterVariables exported = plan::read_master_variables(environment);
  if (place.standalone) {
    if (exported.port)
      note(draft, exported.port->origin + " has no effect", "--standalone uses this host only");
    return;
  }
  if (!place.port) place.port = exported.port;
  if (!place.address) place.likely_address = exported.address;
}

// Follows torchrun's own variable for how much it logs.
void follow_log_level(Draft& draft, const facts::Environment& environment) {
  const auto level = environment.find("LOGLEVEL");
  if (level == environment.end() || draft.quiet) return;
  const std::string word = to_upper(trim(level->second));
  if (word == "INFO" || word == "DEBUG") draft.verbose = true;
}

void settle_address(Draft& draft) {
  allocation::PlaceOptions& place = draft.place;
  if (draft.endpoint) {
    const auto& [endpoint, origin, source] = *draft.endpoint;
    if (place.address && place.address->value != endpoint.host) {
      note(draft, place.address->origin + " has no effect", origin + " gives the address");
    }
    place.address = sourced(endpoint.host, origin, Source::endpoint);
    if (endpoint.port) {
      if (place.port && place.port->value != *endpoint.port) {
        note(draft, place.port->origin + " has no effect", origin + " gives the port");
      }
      place.port = sourced(*endpoint.port, origin);
    }
  }
}

// A host that is lost costs such a job a new attempt, not its end.
constexpr Milliseconds k_elastic_link{10000};

// Checks the spares against the number of nodes, if that is an option; else it is compared when it is known.
void check_spares(const options::Options& options) {
  const Sourced<int>& spares = options.spares;
  if (!options.place.nodes || spares.value == 0) return;
  const int least = options.least_nodes ? options.least_nodes->value : 1;
  const int left = options.place.nodes->value - spares.value;
  if (left >= least) return;
  throw UsageError(fmt::format("{} {} leaves {} of {} nodes ({}), and {} {} needed", spares.origin,
                               spares.value, std::max(left, 0), options.place.nodes->value,
                               options.place.nodes->origin, least, least == 1 ? "is" : "are"),
                   "give fewer spares, or more nodes");
}

void settle_elastic(Draft& draft) {
  const options::Options& options = draft;
  const bool chooses = options::outlives_nodes(options) && options::orders_by_network(options);
  if (is_typed(draft, "domain-size") && !chooses) {
    throw UsageError(options.domain_size.origin + " requires --order, and --nnodes MIN:MAX or --spares",
                     "all nodes take part otherwise, in the scheduler's order");
  }
  if (!options::outlives_nodes(options)) {
    for (const char* const name : {"grow", "replace-after"}) {
      if (!is_typed(draft, name)) continue;
      throw UsageError(fmt::format("--{} requires --nnodes MIN:MAX or --spares", name),
                       "the number of nodes is fixed otherwise");
    }
    return;
  }
  check_spares(options);
  const bool both_given = !options.join_timeout.by_default() && !options.last_call.by_default();
  if (both_given && options.last_call.value > options.join_timeout.value) {
    throw UsageError(fmt::format("{} is {}, longer than {} {}", options.last_call.origin,
                                 describe_duration(options.last_call.value), options.join_timeout.origin,
                                 describe_duration(options.join_timeout.value)),
                     "give a shorter one: it counts within the join timeout");
  }
  const bool is_given = draft.origins.contains("host-timeout");
  if (!is_given) draft.host_timeout.value = k_elastic_link;
  if (!is_given || options.host_timeout.value >= rendezvous::k_least_host_timeout) return;
  throw UsageError(fmt::format("{} is too short for a job that continues without a lost node: '{}'",
                               options.host_timeout.origin, describe_duration(options.host_timeout.value)),
                   fmt::format("give {} or more: a node that is cut off stops its workers in that time",
                               describe_duration(rendezvous::k_least_host_timeout)));
}

Milliseconds time_of_conf(const Draft& draft, const std::string& key, const std::string& value) {
  const auto time = parse_duration(value);
  if (time && *time > Milliseconds{0}) return *time;
  throw UsageError(
      fmt::format("{} has a {} that is not a time: '{}'", draft.conf->origin, key, printable(value)),
      "give seconds above 0");
}

// Settles --rdzv-conf: torchrun's static rendezvous calls its patience timeout, the dynamic one join_timeout.
void settle_conf(Draft& draft) {
  if (!draft.conf) return;
  std::map<std::string, std::string> conf = draft.conf->value;
  const auto last_call = conf.find("last_call_timeout");
  if (last_call != conf.end() && draft.least_nodes) {
    draft.last_call = sourced(time_of_conf(draft, "last_call_timeout", last_call->second),
                              draft.conf->origin + " last_call_timeout");
    conf.erase(last_call);
  }
  const std::string key = conf.count("join_timeout") != 0 ? "join_timeout" : "timeout";
  const auto patience = conf.find(key);
  const std::string& origin = draft.conf->origin;
  if (patience != conf.end() && draft.origins.count("join-timeout") == 0) {
    draft.join_timeout =
        sourced(time_of_conf(draft, key, patience->second), fmt::format("{} {}", origin, key));
    conf.erase(patience);
  }
  for (const auto& [name, value] : conf) {
    note(draft, fmt::format("{} in {} has no effect", printable(name), origin),
         "ddprun chooses the rendezvous host and its time limits itself");
  }
}

// Reports whether the text is "package.module:function", which torchrun's Python interface takes and a
// launcher of programs cannot.
bool names_function(std::string_view text) {
  const auto is_dotted_name = [](std::string_view name) {
    return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '.';
    });
  };
  const std::size_t colon = text.find(':');
  return colon != std::string_view::npos && !text.ends_with(".py") && is_dotted_name(text.substr(0, colon)) &&
         is_dotted_name(text.substr(colon + 1));
}

void settle_program(Draft& draft) {
  options::Options& options = draft;
  if (options.run_path) {
    for (const char* name : {"module", "no-python"}) {
      const auto given = draft.origins.find(name);
      if (given == draft.origins.end()) continue;
      note(draft, given->second + " has no effect", draft.origins["run-path"] + " runs the file with python");
    }
    if (!options.command.empty() && names_function(options.command.front())) {
      throw UsageError(fmt::format("{} requires a file, but {} names a function", draft.origins["run-path"],
                                   printable(options.command.front())),
                       "give the path of a script");
    }
  } else if (options.local_rank_argument && options.no_python) {
    throw UsageError(fmt::format("{} and {} contradict each other", draft.origins["no-python"],
                                 draft.origins["no-use-env"]),
                     "leave out --no-use-env: a program reads LOCAL_RANK; ${local_rank} in its arguments is "
                     "replaced by the number");
  } else if (options.module && options.no_python) {
    throw UsageError(
        fmt::format("{} and {} contradict each other", draft.origins["module"], draft.origins["no-python"]),
        "leave out one of them: a module needs python to run it");
  }
  if (is_typed(draft, "gpus") && options.topology.empty()) {
    throw UsageError(
        "--gpus requires --topology: it sets the GPU count of the described node",
        "--nproc-per-node sets the number of workers on each node (default: one per visible GPU)");
  }
  const bool runs_nothing = options.print_config || options.check.wanted || !options.capture_file.empty() ||
                            !options.timeline_file.empty() || options.status || options.stacks ||
                            options.profile || options.restart || !options.drain.empty() ||
                            options.dry_run != options::DryRun::off;
  if (options.command.empty() && !runs_nothing) {
    throw UsageError("there is no script to run", "write it after the options, as in ddprun train.py");
  }
}

void refuse_together(const Draft& draft, const char* one, const char* other) {
  const auto first = draft.origins.find(one);
  const auto second = draft.origins.find(other);
  if (first == draft.origins.end() || second == draft.origins.end()) return;
  throw UsageError(fmt::format("{} and {} contradict each other", first->second, second->second),
                   "leave out one of them");
}

void settle_binding(Draft& draft) {
  if (draft.origins.count("bind") != 0 && draft.origins.count("numa-binding") != 0) {
    throw UsageError(fmt::format("{} and {} name the same option, but both are given", draft.origins["bind"],
                                 draft.origins["numa-binding"]),
                     "leave out one of them");
  }
  const options::Options& options = draft;
  if (options.bind.mode != options::BindMode::none) return;
  const std::string unbound = options.bind.origin + " none";
  const bool unbound_typed = is_typed(draft, "bind") || is_typed(draft, "numa-binding");
  if (unbound_typed && !is_typed(draft, "omp-places")) draft.omp_places = false;
  if (unbound_typed && !is_typed(draft, "membind")) draft.memory_bind.value = options::MemoryBind::automatic;
  if (options.omp_places) {
    throw UsageError(fmt::format("{} and {} contradict each other", draft.origins["omp-places"], unbound),
                     "leave out one of them: OMP_PLACES requires bound workers");
  }
  const options::MemoryBind memory = options.memory_bind.value;
  if (memory == options::MemoryBind::automatic || memory == options::MemoryBind::none) return;
  throw UsageError(fmt::format("{} and {} contradict each other", options.memory_bind.origin, unbound),
                   "leave out one of them: --membind uses the NUMA nodes of a worker's cores");
}

void settle_shutdown(Draft& draft, const facts::Environment& environment) {
  const auto variable = environment.find("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  if (variable == environment.end() || draft.origins.count("shutdown-timeout") != 0) return;
  const auto& table = option_table();
  const auto option = std::ranges::find_if(
      table, [](const OptionEntry& each) { return std::string_view(each.name) == "shutdown-timeout"; });
  apply_option(draft, *option, {variable->second, variable->first});
}

// torch's way to have rank 0 serve the store.
void settle_store(Draft& draft, const facts::Environment& environment) {
  const auto variable = environment.find("TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
  if (variable == environment.end() || variable->second != "1" || draft.origins.contains("store")) return;
  draft.store = options::StoreHost::worker;
}

// torch's limit for workers in state D, which ddprun has not.
void settle_unused(Draft& draft, const facts::Environment& environment) {
  const auto variable = environment.find("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT");
  if (variable == environment.end() || variable->second.empty() || draft.hang.timeout) return;
  note(draft, variable->first + " has no effect", "--hang-timeout finds ranks that wait in state D too");
}

// Notes an option without effect: as a warning, which the user sees in any case, if it was typed.
void note_no_effect(Draft& draft, const std::string& origin, const std::string& why,
                    const std::string& hint) {
  const bool typed = origin.starts_with("--");
  allocation::Notice notice{origin + " has no effect" + (typed ? ": " + why : ""), typed ? hint : why};
  (typed ? draft.warnings : draft.notices).push_back(std::move(notice));
}

constexpr const char* k_no_restarts = "no restarts are asked for (--max-restarts)";
constexpr const char* k_ask_for_restarts = "add --max-restarts N";

// Settles the restarts. --restart-policy never is --max-restarts 0: the workers, the other agents and the
// plan see that number.
void settle_restarts(Draft& draft) {
  options::Options& options = draft;
  const Sourced<options::RestartRule>& rule = options.restarts.rule;
  if (rule.value == options::RestartRule::never) options.max_restarts = sourced(0, rule.origin);
  const bool none = options.max_restarts.value == 0;
  for (const char* name : {"restart-policy", "min-progress", "no-restart-on", "restart-backoff"}) {
    const auto given = draft.origins.find(name);
    if (given == draft.origins.end() || given->second == options.max_restarts.origin) continue;
    if (none) note_no_effect(draft, given->second, k_no_restarts, k_ask_for_restarts);
  }
  if (options.restarts.standby.value && none && !options::outlives_nodes(options)) {
    note_no_effect(draft, options.restarts.standby.origin, k_no_restarts, k_ask_for_restarts);
  } else if (options.restarts.standby.value && !options.hang.inspect.value) {
    note(draft, options.restarts.standby.origin + " has no effect",
         "it requires the inspection module, which " + options.hang.inspect.origin + " leaves out");
  }
  const auto progress = draft.origins.find("min-progress");
  if (!none && rule.value == options::RestartRule::always && progress != draft.origins.end())
    note(draft, progress->second + " has no effect", rule.origin + " always restarts without progress too");
}

// Settles the options of output; torchrun has a variable of its own for its template.
void settle_output(Draft& draft, const facts::Environment& environment) {
  refuse_together(draft, "logs", "log-dir");
  for (const char* name : {"log-rotate", "timestamps", "log-compress"}) {
    if (!is_typed(draft, name) || output::wants_files(draft.output)) continue;
    throw UsageError(fmt::format("--{} requires log files, but none are written", name),
                     "add --logs FOLDER, or leave it out");
  }
  const auto variable = environment.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (variable == environment.end() || draft.origins.count("log-line-prefix-template") != 0) return;
  draft.output.prefix_template = sourced(variable->second, variable->first);
}

void settle(Draft& draft, const facts::Environment& environment) {
  refuse_together(draft, "verbose", "quiet");
  refuse_together(draft, "restart", "drain");
  refuse_together(draft, "capture", "snapshot");
  refuse_together(draft, "use-env", "no-use-env");
  refuse_together(draft, "gpus-per-worker", "workers-per-gpu");
  refuse_together(draft, "hosts", "hostfile");
  refuse_together(draft, "hosts", "node-rank");
  refuse_together(draft, "hostfile", "node-rank");
  settle_standalone(draft);
  settle_address(draft);
  follow_master_variables(draft, environment);
  follow_log_level(draft, environment);
  settle_conf(draft);
  settle_elastic(draft);
  settle_shutdown(draft, environment);
  settle_store(draft, environment);
  settle_unused(draft, environment);
  settle_restarts(draft);
  settle_output(draft, environment);
  settle_binding(draft);
  check_requirements(draft);
  warn_of_no_effect(draft);
  if (!draft.snapshot_file.empty() && draft.dry_run == options::DryRun::off) {
    draft.dry_run = options::DryRun::text;
  }
  settle_program(draft);
}

// One word names the job. Options stand before it; more words are a script of who means --max-restarts.
void judge_job_words(const Draft& draft) {
  if (draft.command.size() < 2) return;
  const bool restarts = draft.restart || !draft.drain.empty();
  const char* const option = draft.restart   ? "--restart"
                             : restarts      ? "--drain"
                             : draft.profile ? "--profile"
                             : draft.stacks  ? "--stacks"
                                             : "--status";
  throw UsageError(
      fmt::format("unexpected argument {} after {} {}", printable(draft.command[1]), option,
                  printable(draft.command.front())),
      restarts ? "give one job id or process id; --max-restarts N sets how often a failed job is restarted"
               : "give one job id or process id, and options before it");
}

// The words after the options are a script, but for options that use them otherwise.
void judge_command(Draft& draft, const TypedWords& typed) {
  if (draft.command.empty()) return;
  if (!draft.timeline_file.empty()) {
    throw UsageError(fmt::format("unexpected argument {} after --timeline {}",
                                 printable(draft.command.front()), printable(draft.timeline_file)),
                     fmt::format("the file to write follows -o: -o {}", printable(draft.command.front())));
  }
  if (draft.restart || !draft.drain.empty() || draft.status || draft.stacks || draft.profile)
    return judge_job_words(draft);
  refuse_mistaken_command(draft, typed);
  if (auto notice = find_behind_script(draft, typed)) draft.warnings.push_back(std::move(*notice));
}

// Returns the advice for this launch. If another ddprun started this one, that has shown the warnings.
Advice make_advice(const Draft& draft, const TypedWords& typed, const facts::Environment& environment) {
  const bool is_started = environment.contains(allocation::k_started_hosts_variable);
  return {is_started ? std::vector<allocation::Notice>{} : draft.warnings,
          draft.command.empty() ? std::string() : hint_where_missing(draft, typed)};
}

}  // namespace

std::variant<options::Options, Printed> parse_command_line(const std::vector<std::string>& arguments,
                                                           const facts::Environment& environment,
                                                           const OptionLayers& layers, Advice* advice) {
  Arguments normalised = normalise_arguments(arguments, option_table());
  Draft draft;
  const TypedWords typed = split_typed(arguments, normalised.options, normalised.command.size());
  apply_command_line(draft, std::move(normalised.options));
  if (draft.help) return Printed{render_help()};
  if (draft.help_all) return Printed{render_help_all()};
  if (draft.version) return Printed{render_version(os::find_optional_libraries(), os::hwloc_version())};
  if (!draft.completion.empty()) return Printed{render_completion(draft.completion)};
  draft.command = std::move(normalised.command);
  apply_variables(draft, environment);
  apply_layers(draft, environment, layers);
  refuse_unsupported(draft.unsupported);
  warn_of_unknown_variables(draft, environment);
  settle(draft, environment);
  judge_command(draft, typed);
  if (advice != nullptr) *advice = make_advice(draft, typed, environment);
  return std::move(static_cast<options::Options&>(draft));
}

}  // namespace ddprun::command_line
