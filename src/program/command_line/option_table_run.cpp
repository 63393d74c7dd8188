// The rows of what happens in a run, of output, and of looking first.
#include "command_line/option_rows.hpp"
#include "output/line_label.hpp"
#include "output/log_layout.hpp"

namespace ddprun::command_line::rows {

namespace {

constexpr OptionEntry k_failures[] = {
    value("max-restarts", "N", torchrun, failures, "restarts of all workers after a failure (default: 0)",
          [](Draft& draft, const Given& given) {
            draft.max_restarts = number_from(given, k_most, "a number of restarts", "give 0 or more");
          }),
    word_value("restart-policy", "RULE", "progress always never", own, failures,
               "failures that lead to a restart: progress (not the same one twice in a row without "
               "progress), always or never (default: progress)",
               [](Draft& draft, const Given& given) {
                 constexpr options::RestartRule k_rules[] = {options::RestartRule::always,
                                                             options::RestartRule::progress,
                                                             options::RestartRule::never};
                 draft.restarts.rule =
                     sourced(k_rules[choice_from(given, {"always", "progress", "never"})], given.origin);
               }),
    value("min-progress", "TIME", own, failures,
          "a worker made progress if it ran longer than this or created the file $DDPRUN_PROGRESS_FILE "
          "(default: 5m)",
          [](Draft& draft, const Given& given) {
            draft.restarts.min_progress = time_from(given);
            require(draft.restarts.min_progress.value != Milliseconds{0}, given,
                    "of 0 counts every attempt as progress",
                    "give a time above 0, as in 10m, or --restart-policy always");
          }),
    value("no-restart-on", "CODES", own, failures,
          "exit codes that end the job without a restart, as in 3,64; 128+n for signal n (default: none)",
          [](Draft& draft, const Given& given) {
            draft.restarts.no_restart_on = parsed(given, options::parse_exit_codes);
          }),
    value("restart-backoff", "TIME", own, failures,
          "wait before a restart if the attempt lasted up to 10s; doubles with each such attempt in a row, "
          "up to 1m (default: 0)",
          [](Draft& draft, const Given& given) {
            draft.restarts.backoff = time_from(given);
            require(draft.restarts.backoff.value <= options::k_longest_backoff, given,
                    "is above 1m, the longest wait before a restart",
                    "give the first wait, which doubles up to 1m, as in 5s");
          }),
    optional_value("standby", "on|off|N", "on off", own, failures,
                   "keep a standby Python for each worker, or N on each node, with the worker's modules "
                   "imported, to shorten restarts (default: off)",
                   [](Draft& draft, const Given& given) {
                     const auto number = parse_integer(given.value);
                     if (number && *number < 1)
                       throw UsageError(
                           fmt::format("{} is not a number of interpreters: '{}'", given.origin, given.value),
                           "give on, off, or how many on each node, 1 or more");
                     const bool on = number || given.value.empty() || choice_from(given) == 0;
                     draft.restarts.standby = sourced(on, given.origin);
                     draft.restarts.standbys = number ? static_cast<std::size_t>(*number) : SIZE_MAX;
                   }),
    value("standby-memory", "SIZE", own, failures,
          "host memory that each --standby Python may use, as in 4G (default: 2G)",
          [](Draft& draft, const Given& given) {
            draft.restarts.standby_memory = parsed(given, output::parse_memory);
          }),
    value("checkpoint-memory", "SIZE", own, failures,
          "keep what the workers save by ddprun.checkpoint in so much memory of each node, and a copy on "
          "another node, as in 40G (default: off)",
          [](Draft& draft, const Given& given) {
            draft.checkpoint.memory = parsed(given, output::parse_memory);
          }),
    file_value("checkpoint-folder", "FOLDER", own, failures,
               "local folder of each node for these checkpoints (default: /dev/shm)",
               [](Draft& draft, const Given& given) {
                 draft.checkpoint.folder = absolute_from(given, k_own_folder);
               }),
    value("checkpoint-rate", "SIZE", own, failures,
          "bytes a second that each node copies from another one, as in 500M (default: no limit)",
          [](Draft& draft, const Given& given) {
            draft.checkpoint.rate = output::parse_memory(given.value, given.origin);
          }),
    file_value("checkpoint-flush", "FOLDER", own, failures,
               "write the newest checkpoint to this shared folder when the job ends (default: none)",
               [](Draft& draft, const Given& given) {
                 draft.checkpoint.flush = absolute_from(given, "name a folder that all nodes share");
                 draft.time_limit.resumes = true;
               }),
    value("checkpoint-flush-every", "TIME", own, failures,
          "write the newest checkpoint there also while the job runs, as in 30m (default: off)",
          [](Draft& draft, const Given& given) {
            draft.checkpoint.flush_every = time_from(given, options::k_shortest_flush_pause,
                                                     "is below one second", "give 1s or more, as in 30m")
                                               .value;
          }),
    flag("checkpoint-keep", own, failures,
         "keep the checkpoints in memory after the end, for the requeued job on the same nodes",
         [](Draft& draft, const Given&) { draft.checkpoint.keep = true; }),
    value("shutdown-timeout", "TIME", torchrun, failures,
          "time between the stop signal and SIGKILL (default: 30s; 25s under Slurm; 5s under PBS)",
          [](Draft& draft, const Given& given) { draft.shutdown_timeout = time_from(given); }),
    value("host-timeout", "TIME", own, failures,
          "how long a node may be unreachable before it is lost (default: 20s; 10s with --spares or MIN:MAX)",
          [](Draft& draft, const Given& given) {
            draft.host_timeout =
                time_from(given, Milliseconds{1000}, "is below one second", "give 1s or more, as in 60s");
          }),
    value("spares", "K", own, failures, "spare nodes, which wait to replace lost nodes (default: 0)",
          [](Draft& draft, const Given& given) {
            draft.spares = number_from(given, k_most, "a number of nodes", "0 means that none waits");
          }),
    word_value("grow", "WHEN", "now at-restart never", own, failures,
               "with --nnodes MIN:MAX or --spares, when a node that arrives late joins: now, at-restart or "
               "never (default: now)",
               [](Draft& draft, const Given& given) { draft.grow = enum_from<options::Grow>(given); }),
    value(
        "domain-size", "N", own, failures,
        "with --order and --spares or MIN:MAX, take N nodes, or a multiple, of each NVLink domain or switch",
        [](Draft& draft, const Given& given) {
          draft.domain_size = number_from(given, k_most, "a number of nodes", "give the nodes of one domain");
        }),
    value("replace-after", "N", own, failures,
          "with --spares or MIN:MAX, replace a node whose workers failed first in N attempts in a row, or in "
          "any N "
          "by their hardware; 0: never (default: 2)",
          [](Draft& draft, const Given& given) {
            draft.check.replace_after =
                number_from(given, k_most, "a number of failures", "0 means that no node is replaced");
          }),
    value(
        "signals-to-handle", "LIST", torchrun, failures,
        "signals that are forwarded to the workers and stop the job",
        [](Draft& draft, const Given& given) { draft.stop_signals = parsed(given, options::parse_signals); }),
    word_value("hang-timeout", "TIME|auto", "auto", own, failures,
               "report ranks that hang once no rank has made progress for this long; auto derives the time "
               "from the run (default: off)",
               [](Draft& draft, const Given& given) {
                 if (given.value == "auto") {
                   draft.hang.timeout = sourced(options::HangTimeout{true, {}}, given.origin);
                   return;
                 }
                 const Sourced<Milliseconds> time =
                     time_from(given, options::k_shortest_hang_timeout, "is below one second",
                               "give auto, or a time above the longest pause of the training, as in 10m");
                 draft.hang.timeout = sourced(options::HangTimeout{false, time.value}, given.origin);
               }),
    word_value(
        "on-hang", "ACTION", "restart stop report", own, failures,
        "action after a hang: restart, stop or report (default: restart where restarts are left, else stop)",
        [](Draft& draft, const Given& given) { draft.hang.action = enum_from<options::OnHang>(given); }),
    word_value(
        "slow-notice", "PERCENT[/TIME]|off", "off", own, failures,
        "report a rank for which the others have waited this share of the last 5 minutes, or of TIME, as in "
        "10% (default: off)",
        [](Draft& draft, const Given& given) {
          draft.hang.slow = options::parse_slow_notice(given.value);
          require(draft.hang.slow || given.value == "off", given, "is no share of a time",
                  "give a share from 1% to 99%, as in 15% or 15%/10m, or off");
        }),
    word_value(
        "on-slow", "ACTION", "report replace replace-at-restart", own, failures,
        "action after --slow-notice: report, or replace the rank's node by a spare, with a restart at once "
        "or at "
        "the next one (default: report)",
        [](Draft& draft, const Given& given) { draft.hang.on_slow = enum_from<options::OnSlow>(given); }),
    value(
        "exit-barrier-timeout", "TIME", own, failures,
        "how long the other ranks may run after one has exited with 0; then --on-hang applies (default: off)",
        [](Draft& draft, const Given& given) {
          draft.hang.exit_barrier = time_from(given, options::k_shortest_hang_timeout, "is below one second",
                                              "give 1s or more, as in 5m");
        }),
    value("stacks-every", "TIME", own, failures,
          "write where every rank is to FOLDER/JOB/stacks of --logs, for --stacks FOLDER (default: off)",
          [](Draft& draft, const Given& given) {
            draft.hang.stacks_every = time_from(given, options::k_shortest_hang_timeout,
                                                "is below one second", "give 1s or more, as in 10m");
          }),
    value("profile-every", "TIME", own, failures,
          "write a profile of all ranks, as of --profile, to FOLDER/JOB/profiles of --logs (default: off)",
          [](Draft& draft, const Given& given) {
            draft.hang.profile_every = time_from(given, options::k_shortest_profile_every,
                                                 "is below 10 seconds", "give 10s or more, as in 1h");
          }),
    flag("no-inspect", own, failures, "do not load ddprun's inspection module into the workers",
         [](Draft& draft, const Given& given) { draft.hang.inspect = sourced(false, given.origin); }),
    value("signal-before-end", "SIGNAL@TIME", own, failures,
          "signal for the workers, and how long before the job's time limit, as in USR1@120 (default: none)",
          [](Draft& draft, const Given& given) {
            draft.time_limit.signal = parsed(given, options::parse_signal_before_end);
          }),
    optional_value("requeue", "N", "", own, failures,
                   "ask the scheduler to run the job again, at most N times, when workers end after "
                   "--signal-before-end's signal, with a code of --requeue-on, or at the time limit with "
                   "--checkpoint-flush (default: off)",
                   [](Draft& draft, const Given& given) {
                     if (given.value.empty()) {
                       draft.time_limit.requeue = sourced(0, given.origin);
                       return;
                     }
                     draft.time_limit.requeue =
                         number_from(given, k_most, "a number of times", "leave it out for no limit");
                     if (draft.time_limit.requeue->value == 0) draft.time_limit.requeue.reset();
                   }),
    value(
        "check-command", "COMMAND", own, failures,
        "run COMMAND on each node before the first attempt and before each restart; exit code 1: the node is "
        "unfit (default: none)",
        [](Draft& draft, const Given& given) { draft.check.command = program_from(given); }),
    value("check-timeout", "TIME", own, failures, "limit of --check-command (default: 30s)",
          [](Draft& draft, const Given& given) {
            draft.check.limit = time_from(given, Milliseconds{1000}, "is below one second",
                                          "give the longest time that a sound check takes, as in 30s");
          }),
    value(
        "on-failure", "COMMAND", own, failures,
        "run COMMAND once when an attempt fails or the job ends badly, with the report on its standard input "
        "(default: none)",
        [](Draft& draft, const Given& given) { draft.check.on_failure = program_from(given); }),
    value("requeue-on", "CODES", own, failures, "exit codes that requeue the job, as in 85 (default: none)",
          [](Draft& draft, const Given& given) {
            draft.time_limit.requeue_on = parsed(given, options::parse_exit_codes);
          }),
    value("no-requeue-on", "CODES", own, failures,
          "exit codes that keep the job from being requeued, as in 77 (default: none)",
          [](Draft& draft, const Given& given) {
            draft.time_limit.no_requeue_on = parsed(given, options::parse_exit_codes);
          }),
    value("min-attempt-time", "TIME", own, failures,
          "start no attempt when less than this is left of the job's time limit (default: 0)",
          [](Draft& draft, const Given& given) { draft.time_limit.min_attempt = time_from(given); })};

constexpr OptionEntry k_output[] = {
    with_letter('r', value("redirects", "CHOICE", torchrun, output,
                           "streams written to files only: 0 (none), 1 (stdout), 2 (stderr), 3 (both), or by "
                           "local rank as in 0:3,1:2",
                           [](Draft& draft, const Given& given) {
                             draft.output.redirects = output::parse_stream_choice(given.value, given.origin);
                           })),
    with_letter('t',
                value("tee", "CHOICE", torchrun, output,
                      "streams written to files and, with the local rank before each line, to the console",
                      [](Draft& draft, const Given& given) {
                        draft.output.tee = output::parse_stream_choice(given.value, given.origin);
                      })),
    file_value("log-dir", "FOLDER", torchrun, output, "folder for these files (default: a new one in TMPDIR)",
               [](Draft& draft, const Given& given) { draft.output.log_dir = given; }),
    value("local-ranks-filter", "RANKS", torchrun, output, "local ranks shown on the console, as in 0,1",
          [](Draft& draft, const Given& given) {
            if (given.value.empty()) return;
            draft.output.local_ranks = output::parse_rank_list(given.value, given.origin);
          }),
    value("duplicate-stdout-filters", "LIST", torchrun, output,
          "texts; stdout lines of --tee that contain one also go to filtered_stdout.log",
          [](Draft& draft, const Given& given) {
            draft.output.output_filters = output::parse_line_filters(given.value);
          }),
    value("duplicate-stderr-filters", "LIST", torchrun, output,
          "texts; stderr lines of --tee that contain one also go to filtered_stderr.log",
          [](Draft& draft, const Given& given) {
            draft.output.error_filters = output::parse_line_filters(given.value);
          }),
    value("log-line-prefix-template", "TEXT", torchrun, output,
          "prefix of each --tee line, with $rank, $local_rank, $role_name, $hostname",
          [](Draft& draft, const Given& given) { draft.output.prefix_template = given; }),
    file_value("logs", "FOLDER", own, output,
               "write both streams of every rank to FOLDER/JOB/attempt-N/rank-00005.{out,err}",
               [](Draft& draft, const Given& given) {
                 draft.output.logs = sourced(folder_from(given), given.origin);
               }),
    optional_value("label", "TEXT", "", own, output,
                   "put the rank before each line on the console; TEXT may hold {rank}, {local_rank}, "
                   "{host}, {attempt}, {time} (default: [{rank}])",
                   [](Draft& draft, const Given& given) {
                     output::make_label(given.value, {}, false, given.origin);
                     draft.output.label = given;
                   }),
    value("ranks", "RANKS", own, output,
          "ranks whose output is shown on the console: 0,8-15, all or none (default: all)",
          [](Draft& draft, const Given& given) {
            draft.output.ranks = output::parse_rank_ranges(given.value, given.origin);
          }),
    optional_value("fold", "on|off", "on off", own, output,
                   "show lines that three or more ranks write at the same time once, as in [0-15] ... "
                   "(default: on stderr only, where the repeats are counted)",
                   [](Draft& draft, const Given& given) {
                     if (given.value != "on" && given.value != "off")
                       throw UsageError(fmt::format("{} is neither on nor off: '{}'", given.origin,
                                                    printable(given.value)),
                                        "--fold alone means on");
                     draft.output.fold = given.value == "on" ? output::Folding::on : output::Folding::off;
                   }),
    flag("gather", own, output, "print the output of all hosts on the coordinator, in whole lines",
         [](Draft& draft, const Given&) { draft.output.gather = true; }),
    value("output-rate", "SIZE", own, output,
          "console limit of each stream in bytes per second, as in 1M; lines above it are counted",
          [](Draft& draft, const Given& given) {
            draft.output.rate = output::parse_rate(given.value, given.origin);
          }),
    value("log-rotate", "SIZE[:N]", own, output,
          "start a new log file at SIZE bytes, as in 100M:5, and keep N older ones (default: 5)",
          [](Draft& draft, const Given& given) {
            draft.output.rotation = output::parse_rotation(given.value, given.origin);
          }),
    word_value("log-compress", "HOW", "zstd none", own, output,
               "compress finished log files: zstd or none (default: none)",
               [](Draft& draft, const Given& given) {
                 if (given.value != "zstd" && given.value != "none")
                   throw UsageError(
                       fmt::format("{} is neither zstd nor none: '{}'", given.origin, printable(given.value)),
                       "zstd is the only format");
                 draft.output.compress = given.value == "zstd";
               }),
    flag("timestamps", own, output, "put the time (UTC) before each line of the log files",
         [](Draft& draft, const Given&) { draft.output.timestamps = true; })};

constexpr OptionEntry k_looking_and_about[] = {
  optional_value("dry-run", "text|json|env|svg", "text json env svg", own, looking,
              "print the plan and where every value came from; start nothing",
              [](Draft& draft, const Given& given) {
  draft.dry_run = static_cast<options::DryRun>(choice_from(given) + 1);  // after DryRun::off
              }),
      optional_value("check", "table|json|deep|auto", "table json deep auto", own, looking,
          "check all nodes and the connections between them, then exit; auto checks before the first "
          "attempt, then runs the job",
          [](Draft& draft, const Given& given) {
  const options::CheckOptions asked = options::parse_check(given.value, given.origin);
  draft.check.wanted = asked.wanted;
  draft.check.json = asked.json;
  draft.check.deep = asked.deep;
  draft.check.automatic = asked.automatic;
          }),
      flag("strict", own, looking, "with --check: exit with 1 for warnings too",
           [](Draft& draft, const Given&) {
  draft.check.strict = true; }),
      file_value("exclude-file", "FILE", own, looking,
                 "with --check: write the names of nodes with errors to FILE, one per line",
                 [](Draft& draft, const Given& given) {
  draft.check.exclude_file = file_from(given); }),
      value("gpu-release-timeout", "TIME", own, looking,
            "with --check=auto: how long an attempt waits for GPU memory that other processes hold (default: "
            "50s; 0: not)",
            [](Draft& draft, const Given& given) {
  draft.check.release_timeout = time_from(given).value; }),
      file_value("capture", "FILE", own, looking,
                 "write all that ddprun reads on this host to FILE, without secrets, and exit",
                 [](Draft& draft, const Given& given) {
  draft.capture_file = file_from(given); }),
      file_value("snapshot", "FILE", own, looking,
                 "plan from a captured FILE instead of this machine; implies --dry-run",
                 [](Draft& draft, const Given& given) {
  draft.snapshot_file = file_from(given); }),
      file_value("report", "FILE", own, looking, "write how the job ended, and why, to FILE as JSON",
                 [](Draft& draft, const Given& given) {
  draft.report_file = file_from(given); }),
      file_value("events", "FILE", own, looking,
                 "append the events of the job to FILE, one JSON object per line",
                 [](Draft& draft, const Given& given) {
  draft.events_file = file_from(given); }),
      file_value("metrics", "FILE", own, looking, "keep metrics in FILE for Prometheus' textfile collector",
                 [](Draft& draft, const Given& given) {
  draft.metrics_file = file_from(given); }),
      word_value("event-log-handler", "NAME", "null console dynamic_rendezvous", torchrun, looking,
                 "console is --events /dev/stderr; the others write nothing",
                 [](Draft& draft, const Given& given) {
  const auto chosen = choice_from(given);
  std::string& file = draft.events_file;
  if (chosen == 1 && file.empty()) file = "/dev/stderr";
  if (chosen == 2) note(draft, given, "--events records the steps of the rendezvous");
                 }),
      file_value("timeline", "FILE", own, looking,
                 "draw the events in FILE as text, or as HTML with -o, and exit",
                 [](Draft& draft, const Given& given) {
  draft.timeline_file = file_from(given); }),
      with_letter('o', file_value("output", "FILE", own, looking,
                             "HTML file that --timeline writes, or - for text (default: -); FILE.speedscope.json and "
                             "FILE.collapsed of --profile",
                             [](Draft& draft, const Given& given) {
  draft.output_file = file_from(given); })),
      optional_value("status", "table|json", "table json", own, looking,
          "show the hosts, ranks and resource use of your jobs on this host, or of one JOB or PID",
          [](Draft& draft, const Given& given) {
  draft.status = enum_from<options::StatusForm>(given).value; }),
      flag("stacks", own, looking,
           "show where every rank of your jobs on this host is, or of one JOB or PID: collective and Python stack; "
           "or was, by a FOLDER of --logs or of torch's flight records",
           [](Draft& draft, const Given&) {
  draft.stacks = true; }),
      value("profile", "TIME", own, looking,
            "sample the Python stacks of all ranks of a job for TIME, and show where they spend it",
            [](Draft& draft, const Given& given) {
  constexpr Milliseconds k_shortest{1000}, k_longest{300'000};
  draft.profile = time_from(given).value;
  require(*draft.profile >= k_shortest && *draft.profile <= k_longest, given, "is not between 1s and 5m",
          "give a time such as 10s");
            }),
      flag("restart", own, looking, "start all workers again of your job on this host, or of one JOB or PID",
           [](Draft& draft, const Given&) {
  draft.restart = true; }),
      value("drain", "NODE", own, looking,
            "do the same without NODE: a spare, or the other nodes of MIN:MAX, take its place",
            [](Draft& draft, const Given& given) {
  draft.drain = text_from(given, "names no node", "give the name of a host of the job"); }),
      optional_value("watch", "TIME", "", own, looking,
                  "with --status: repeat every TIME (default: 2s) until the job ends",
                  [](Draft& draft, const Given& given) {
  constexpr Milliseconds k_usual{2000}, k_shortest{100};
  draft.watch = given.value.empty() ? k_usual : time_from(given).value;
  require(*draft.watch >= k_shortest, given, "is below 100ms", "give 100ms or more, as in --watch=5s");
                  }),
                  flag("print-config", own, looking,
                       "print every option that is set, its value and its origin",
                       [](Draft& draft, const Given&) {
  draft.print_config = true; }),
                  with_letter('v', flag("verbose", own, looking, "print what ddprun does and why",
                       [](Draft& draft, const Given&) {
  draft.verbose = true; })),
                  with_letter('q', flag("quiet", own, looking, "print errors only",
                       [](Draft& draft, const Given&) {
  draft.quiet = true; })),
                  with_letter('h', flag("help", torchrun_plain, about, "print the common options",
                       [](Draft& draft, const Given&) {
  draft.help = true; })),
                  flag("help-all", own, about, "print all options",
                       [](Draft& draft, const Given&) {
  draft.help_all = true; }),
                  flag("version", own, about,
                       "print the version, the build and the optional libraries that are found",
                       [](Draft& draft, const Given&) {
  draft.version = true; }),
                  word_value("print-completion", "SHELL", "bash zsh fish tcsh", torchrun_plain, about,
                             "print the completion script for bash, zsh, fish or tcsh",
                             [](Draft& draft, const Given& given) {
  choice_from(given);
  draft.completion = given.value;
                             }),

      value("monitor-interval", "SECONDS", torchrun, without_effect, "nothing is polled",
            [](Draft& draft, const Given& given) {
  const auto seconds = parse_number(given.value);
  if (!seconds || !(*seconds >= 0)) throw not_a(given, "a number of seconds", "leave it out, or give one");
  note(draft, given, "ddprun is notified when a worker ends and does not poll");
            }),
      flag("use-env", torchrun_plain, without_effect,
           "LOCAL_RANK is always set (torch.distributed.launch)",
           [](Draft& draft, const Given& given) {
  note(draft, given, "LOCAL_RANK is always set in the environment of the workers");
           }),
      word_value("start-method", "NAME", "spawn fork forkserver", torchrun, without_effect,
                 "every worker is a separate program",
                 [](Draft& draft, const Given& given) {
  if (choice_from(given) == 0) return;
  note(draft, given, "every worker is a separate process");
                 }),
      value("logs-specs", "NAME", torchrun_plain, unsupported, "a Python plug-in for logs",
            [](Draft& draft, const Given& given) {
  if (given.value == "default") return note(draft, given, "default is what torchrun does without it");
  throw Unsupported(given.origin, given.origin + " is not supported yet",
                    "leave it out: ddprun loads no Python plug-ins");
            })};

}  // namespace

std::span<const OptionEntry> of_failures() { return k_failures; }
std::span<const OptionEntry> of_output() { return k_output; }
std::span<const OptionEntry> of_looking() { return k_looking_and_about; }

}  // namespace ddprun::command_line::rows
