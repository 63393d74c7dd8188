#include "command_line/option_setters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "allocation/detection/detect.hpp"
#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "output/log_layout.hpp"
#include "selflaunch/remote_launcher.hpp"

namespace ddprun::command_line::setters {

namespace {

constexpr std::int64_t k_most = std::numeric_limits<int>::max();

UsageError not_a(const Given& given, std::string_view thing, std::string hint) {
  return UsageError(fmt::format("{} is not {}: '{}'", given.origin, thing, printable(given.value)),
                    std::move(hint));
}

Sourced<int> number_from(const Given& given, std::int64_t most, std::string_view thing, const char* hint) {
  const auto number = parse_integer(given.value);
  if (!number || *number < 0 || *number > most) throw not_a(given, thing, hint);
  return {static_cast<int>(*number), given.origin};
}

Sourced<Milliseconds> time_from(const Given& given) {
  const auto time = parse_duration(given.value);
  if (!time) throw not_a(given, "a time", "give seconds, or a number with ms, s, m or h, as in 90s");
  return {*time, given.origin};
}

std::string file_from(const Given& given) {
  if (given.value.empty()) throw UsageError(given.origin + " names no file", "give the path of a file");
  return given.value;
}

// The position of the value among the words.
std::size_t choice_from(const Given& given, const std::vector<std::string>& words) {
  const auto word = std::find(words.begin(), words.end(), given.value);
  const std::string choices = join(words, ", ");
  if (word == words.end()) {
    const auto match = closest_match(given.value, words);
    throw not_a(given, "one of " + choices,
                match ? fmt::format("did you mean {}?", *match) : "give one of them");
  }
  return static_cast<std::size_t>(word - words.begin());
}

void note(Draft& draft, const Given& given, std::string why) {
  draft.options.notices.push_back({given.origin + " has no effect", std::move(why)});
}

Unsupported not_supported(const Given& given, std::string instead) {
  return Unsupported(given.origin, given.origin + " is not supported yet", std::move(instead));
}

}  // namespace

void module(Draft& draft, const Given&) { draft.options.module = true; }
void no_python(Draft& draft, const Given&) { draft.options.no_python = true; }
void run_path(Draft& draft, const Given&) { draft.options.run_path = true; }
void container(Draft& draft, const Given& given) {
  draft.options.container = options::parse_container(given.value, given.origin);
}
void stage(Draft& draft, const Given& given) { draft.options.stage.paths.push_back(file_from(given)); }
void stage_to(Draft& draft, const Given& given) {
  if (!given.value.starts_with('/'))
    throw UsageError(given.origin + " needs an absolute path",
                     "name a folder that every node has for itself");
  draft.options.stage.to = given.value;
}
void stage_keep(Draft& draft, const Given&) { draft.options.stage.keep = true; }
void no_use_env(Draft& draft, const Given&) { draft.options.local_rank_argument = true; }

void workers_per_node(Draft& draft, const Given& given) {
  draft.options.workers = options::parse_workers_per_node(given.value, given.origin);
  if (draft.options.workers.kind == options::WorkersKind::number) {
    draft.options.place.workers_per_node = sourced(draft.options.workers.number, given.origin);
  }
}

void nodes(Draft& draft, const Given& given) {
  const options::NodeRange range = options::parse_node_range(given.value, given.origin);
  draft.options.place.nodes = sourced(range.most, given.origin);
  draft.options.least_nodes.reset();
  if (range.least < range.most) draft.options.least_nodes = sourced(range.least, given.origin);
}

void grow(Draft& draft, const Given& given) {
  constexpr options::Grow k_values[] = {options::Grow::now, options::Grow::at_restart, options::Grow::never};
  draft.options.grow = sourced(k_values[choice_from(given, {"now", "at-restart", "never"})], given.origin);
}

void spares(Draft& draft, const Given& given) {
  draft.options.spares = number_from(given, k_most, "a number of nodes", "0 means that none waits");
}

void node_rank(Draft& draft, const Given& given) {
  draft.options.place.node_rank = number_from(given, k_most, "a node rank", "node ranks start at 0");
}

void master_address(Draft& draft, const Given& given) {
  draft.options.place.address = sourced(options::parse_host(given.value, given.origin), given.origin);
}

void master_port(Draft& draft, const Given& given) {
  draft.options.place.port =
      number_from(given, 65535, "a port", "give a number up to 65535; 0 means a free port");
}

void local_address(Draft& draft, const Given& given) {
  draft.options.local_address = sourced(options::parse_host(given.value, given.origin), given.origin);
}

void standalone(Draft& draft, const Given&) { draft.options.place.standalone = true; }
void hosts(Draft& draft, const Given& given) {
  draft.options.place.hosts = sourced(allocation::parse_hosts(given.value, given.origin), given.origin);
}

void hostfile(Draft& draft, const Given& given) { draft.options.hostfile = file_from(given); }

void launcher(Draft& draft, const Given& given) {
  draft.options.remote_launcher =
      sourced(selflaunch::remote_launcher_names()[choice_from(given, selflaunch::remote_launcher_names())],
              given.origin);
}

void scheduler(Draft& draft, const Given& given) {
  choice_from(given, allocation::scheduler_names());
  draft.options.place.scheduler = given;
}

void role(Draft& draft, const Given& given) { draft.options.role = given; }
void virtual_local_rank(Draft& draft, const Given&) { draft.options.virtual_local_rank = true; }

void rendezvous_backend(Draft& draft, const Given& given) {
  if (given.value == "etcd" || given.value == "etcd-v2") {
    throw Unsupported(given.origin, fmt::format("{} {} is not supported", given.origin, given.value),
                      "leave it out: ddprun has its own rendezvous and needs no etcd server");
  }
  if (given.value != "static" && given.value != "c10d") {
    throw not_a(given, "known", "leave it out, or give static or c10d; both mean ddprun's own rendezvous");
  }
  note(draft, given, "static and c10d both mean ddprun's own rendezvous");
}

void rendezvous_endpoint(Draft& draft, const Given& given) {
  if (given.value.empty()) return;
  draft.endpoint = sourced(options::parse_endpoint(given.value, given.origin), given.origin);
}

void rendezvous_id(Draft& draft, const Given& given) { draft.options.place.run_id = given; }

void rendezvous_conf(Draft& draft, const Given& given) {
  draft.conf = sourced(options::parse_rendezvous_conf(given.value, given.origin), given.origin);
}

void join_timeout(Draft& draft, const Given& given) {
  draft.options.join_timeout = time_from(given);
  if (draft.options.join_timeout.value == Milliseconds{0}) {
    throw UsageError(given.origin + " leaves no time to join", "give a time above 0, as in 10m");
  }
}

void rendezvous(Draft& draft, const Given& given) {
  constexpr options::Discovery k_ways[] = {options::Discovery::automatic, options::Discovery::pmi,
                                           options::Discovery::file};
  draft.options.discovery = k_ways[choice_from(given, {"auto", "pmi", "file"})];
}

void rendezvous_directory(Draft& draft, const Given& given) {
  if (given.value.empty()) throw UsageError(given.origin + " names no folder", "give the path of a folder");
  draft.options.rendezvous_directory = given.value;
}

void key_file(Draft& draft, const Given& given) { draft.options.key_file = file_from(given); }

void store(Draft& draft, const Given& given) {
  using Form = options::StoreTree::Form;
  options::StoreTree tree;
  Given form = given;
  if (const std::size_t colon = given.value.find(':'); given.value.starts_with("tree:")) {
    const auto fan_out = parse_integer(given.value.substr(colon + 1));
    if (!fan_out || *fan_out < 2 || *fan_out > options::k_max_fan_out)
      throw UsageError(fmt::format("{} is no store: '{}'", given.origin, given.value),
                       fmt::format("give tree or tree:N with N from 2 to {}", options::k_max_fan_out));
    tree.fan_out = static_cast<int>(*fan_out);
    form.value = "tree";
  }
  const auto choice = choice_from(form, {"agent", "worker", "flat", "tree"});
  draft.options.store = choice == 1 ? options::StoreHost::worker : options::StoreHost::agent;
  if (choice >= 2) tree.form = choice == 2 ? Form::flat : Form::tree;
  draft.options.store_tree = tree;
}

void store_access(Draft& draft, const Given& given) {
  draft.options.store_access =
      choice_from(given, {"user", "host"}) == 0 ? options::StoreAccess::user : options::StoreAccess::host;
}

void store_memory(Draft& draft, const Given& given) {
  draft.options.store_memory = sourced(output::parse_memory(given.value, given.origin), given.origin);
}

void site(Draft& draft, const Given& given) {
  if (given.value.empty()) {
    throw UsageError(given.origin + " names no site", "give a profile's name, the path of its file, or none");
  }
  draft.options.site = given.value;
}

void bind(Draft& draft, const Given& given) {
  draft.options.bind = options::parse_bind(given.value, given.origin);
}

void numa_binding(Draft& draft, const Given& given) {
  choice_from(given, {"node", "socket", "exclusive", "core-complex"});
  bind(draft, given);
}

void memory_bind(Draft& draft, const Given& given) {
  constexpr options::MemoryBind k_ways[] = {options::MemoryBind::automatic, options::MemoryBind::preferred,
                                            options::MemoryBind::bind, options::MemoryBind::none};
  draft.options.memory_bind =
      sourced(k_ways[choice_from(given, {"auto", "preferred", "bind", "none"})], given.origin);
}

void gpus_per_worker(Draft& draft, const Given& given) {
  draft.options.gpus_per_worker =
      number_from(given, options::k_max_workers, "a number of GPUs", "give 1 or more");
  if (draft.options.gpus_per_worker.value < 1) throw not_a(given, "a number of GPUs", "give 1 or more");
}

void nic(Draft& draft, const Given& given) {
  draft.options.nic = sourced(choice_from(given, {"auto", "none"}) == 0, given.origin);
}

void omp_places(Draft& draft, const Given&) { draft.options.omp_places = true; }
void show_binding(Draft& draft, const Given&) { draft.options.show_binding = true; }

void topology(Draft& draft, const Given& given) {
  if (given.value.empty())
    throw UsageError(given.origin + " describes no node",
                     "give a file, or hwloc's synthetic text such as 'pack:2 numa:1 core:16 pu:2'");
  draft.options.topology = given.value;
}

void gpus(Draft& draft, const Given& given) {
  draft.options.gpus = number_from(given, options::k_max_workers, "a number of GPUs", "give 0 or more");
}

void max_restarts(Draft& draft, const Given& given) {
  draft.options.max_restarts = number_from(given, k_most, "a number of restarts", "give 0 or more");
}

void restart_policy(Draft& draft, const Given& given) {
  constexpr options::RestartRule k_rules[] = {options::RestartRule::always, options::RestartRule::progress,
                                              options::RestartRule::never};
  draft.options.restarts.rule =
      sourced(k_rules[choice_from(given, {"always", "progress", "never"})], given.origin);
}

void min_progress(Draft& draft, const Given& given) {
  draft.options.restarts.min_progress = time_from(given);
  if (draft.options.restarts.min_progress.value == Milliseconds{0}) {
    throw UsageError(given.origin + " of 0 counts every attempt as progress",
                     "give a time above 0, as in 10m, or --restart-policy always");
  }
}

void no_restart_on(Draft& draft, const Given& given) {
  draft.options.restarts.no_restart_on =
      sourced(options::parse_exit_codes(given.value, given.origin), given.origin);
}

void restart_backoff(Draft& draft, const Given& given) {
  draft.options.restarts.backoff = time_from(given);
  if (draft.options.restarts.backoff.value > options::k_longest_backoff) {
    throw UsageError(given.origin + " is above 1m, the longest wait before a restart",
                     "give the first wait, which doubles up to 1m, as in 5s");
  }
}

void host_timeout(Draft& draft, const Given& given) {
  draft.options.host_timeout = time_from(given);
  if (draft.options.host_timeout.value < std::chrono::seconds(1)) {
    throw UsageError(given.origin + " is below one second", "give 1s or more, as in 60s");
  }
}

void standby(Draft& draft, const Given& given) {
  const auto number = parse_integer(given.value);
  if (number && *number < 1)
    throw UsageError(fmt::format("{} is no number of interpreters: '{}'", given.origin, given.value),
                     "give on, off, or how many on each node, 1 or more");
  const bool on = number || given.value.empty() || choice_from(given, {"on", "off"}) == 0;
  draft.options.restarts.standby = sourced(on, given.origin);
  draft.options.restarts.standbys = number ? static_cast<std::size_t>(*number) : SIZE_MAX;
}

void standby_memory(Draft& draft, const Given& given) {
  draft.options.restarts.standby_memory =
      sourced(output::parse_memory(given.value, given.origin), given.origin);
}

void shutdown_timeout(Draft& draft, const Given& given) { draft.options.shutdown_timeout = time_from(given); }

void signals_to_handle(Draft& draft, const Given& given) {
  draft.options.stop_signals = sourced(options::parse_signals(given.value, given.origin), given.origin);
}

void no_inspect(Draft& draft, const Given& given) {
  draft.options.hang.inspect = sourced(false, given.origin);
}

void hang_timeout(Draft& draft, const Given& given) {
  if (given.value == "auto") {
    draft.options.hang.timeout = sourced(options::HangTimeout{true, {}}, given.origin);
    return;
  }
  const Sourced<Milliseconds> time = time_from(given);
  if (time.value < options::k_shortest_hang_timeout)
    throw UsageError(given.origin + " is below one second",
                     "give auto, or a time above the longest pause of the training, as in 10m");
  draft.options.hang.timeout = sourced(options::HangTimeout{false, time.value}, given.origin);
}

void on_hang(Draft& draft, const Given& given) {
  constexpr options::OnHang k_actions[] = {options::OnHang::restart, options::OnHang::stop,
                                           options::OnHang::report};
  draft.options.hang.action =
      sourced(k_actions[choice_from(given, {"restart", "stop", "report"})], given.origin);
}

void exit_barrier_timeout(Draft& draft, const Given& given) {
  draft.options.hang.exit_barrier = time_from(given);
  if (draft.options.hang.exit_barrier->value < options::k_shortest_hang_timeout)
    throw UsageError(given.origin + " is below one second", "give 1s or more, as in 5m");
}

void signal_before_end(Draft& draft, const Given& given) {
  draft.options.time_limit.signal =
      sourced(options::parse_signal_before_end(given.value, given.origin), given.origin);
}

void requeue(Draft& draft, const Given& given) {
  draft.options.time_limit.requeue =
      given.value.empty() ? sourced(0, given.origin)
                          : number_from(given, k_most, "a number of times", "leave it out for no limit");
}

void requeue_on(Draft& draft, const Given& given) {
  draft.options.time_limit.requeue_on =
      sourced(options::parse_exit_codes(given.value, given.origin), given.origin);
}

void min_attempt_time(Draft& draft, const Given& given) {
  draft.options.time_limit.min_attempt = time_from(given);
}

void dry_run(Draft& draft, const Given& given) {
  static constexpr options::DryRun k_forms[] = {options::DryRun::text, options::DryRun::json,
                                                options::DryRun::env, options::DryRun::svg};
  draft.options.dry_run = k_forms[choice_from(given, {"text", "json", "env", "svg"})];
}

void check(Draft& draft, const Given& given) {
  const options::CheckOptions before = draft.options.check;
  draft.options.check = options::parse_check(given.value, given.origin);
  draft.options.check.strict = before.strict;
  draft.options.check.exclude_file = before.exclude_file;
}
void strict(Draft& draft, const Given&) { draft.options.check.strict = true; }
void exclude_file(Draft& draft, const Given& given) { draft.options.check.exclude_file = file_from(given); }

void capture(Draft& draft, const Given& given) { draft.options.capture_file = file_from(given); }
void snapshot(Draft& draft, const Given& given) { draft.options.snapshot_file = file_from(given); }
void report(Draft& draft, const Given& given) { draft.options.report_file = file_from(given); }
void events(Draft& draft, const Given& given) { draft.options.events_file = file_from(given); }
void timeline(Draft& draft, const Given& given) { draft.options.timeline_file = file_from(given); }
void timeline_output(Draft& draft, const Given& given) { draft.options.output_file = file_from(given); }

void status(Draft& draft, const Given& given) {
  static constexpr options::StatusForm k_forms[] = {options::StatusForm::table, options::StatusForm::json};
  draft.options.status = k_forms[choice_from(given, {"table", "json"})];
}

void stacks(Draft& draft, const Given&) { draft.options.stacks = true; }

void watch(Draft& draft, const Given& given) {
  constexpr Milliseconds k_usual{2000}, k_shortest{100};
  draft.options.watch = given.value.empty() ? k_usual : time_from(given).value;
  if (*draft.options.watch < k_shortest)
    throw UsageError(given.origin + " is below 100ms", "give 100ms or more, as in --watch=5s");
}

void metrics(Draft& draft, const Given& given) { draft.options.metrics_file = file_from(given); }
void verbose(Draft& draft, const Given&) { draft.options.verbose = true; }
void print_config(Draft& draft, const Given&) { draft.options.print_config = true; }
void quiet(Draft& draft, const Given&) { draft.options.quiet = true; }
void help(Draft& draft, const Given&) { draft.help = true; }
void help_all(Draft& draft, const Given&) { draft.help_all = true; }
void version(Draft& draft, const Given&) { draft.version = true; }

void print_completion(Draft& draft, const Given& given) {
  choice_from(given, {"bash", "zsh", "fish", "tcsh"});
  draft.completion = given.value;
}

void monitor_interval(Draft& draft, const Given& given) {
  const auto seconds = parse_number(given.value);
  if (!seconds || !(*seconds >= 0)) throw not_a(given, "a number of seconds", "leave it out, or give one");
  note(draft, given, "ddprun is notified when a worker ends and does not poll");
}

void use_env(Draft& draft, const Given& given) {
  note(draft, given, "LOCAL_RANK is always set in the environment of the workers");
}

void start_method(Draft& draft, const Given& given) {
  if (choice_from(given, {"spawn", "fork", "forkserver"}) == 0) return;
  note(draft, given, "every worker is a separate process");
}

void event_log_handler(Draft& draft, const Given& given) {
  const auto chosen = choice_from(given, {"null", "console", "dynamic_rendezvous"});
  std::string& file = draft.options.events_file;
  if (chosen == 1 && file.empty()) file = "/dev/stderr";
  if (chosen == 2) note(draft, given, "--events records the steps of the rendezvous");
}

void logs_specs(Draft& draft, const Given& given) {
  if (given.value == "default") return note(draft, given, "default is what torchrun does without it");
  throw not_supported(given, "leave it out: ddprun loads no Python plug-ins");
}

}  // namespace ddprun::command_line::setters
