#include "commands/status_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/print_files.hpp"
#include "console/console.hpp"
#include "os/read_file.hpp"
#include "os/status_socket.hpp"
#include "os/terminal/terminal.hpp"
#include "profile/rank_profile.hpp"
#include "rendezvous/codec.hpp"
#include "status/job_status.hpp"
#include "status/moment.hpp"
#include "status/verdict.hpp"

namespace ddprun::commands {

namespace {

constexpr Milliseconds k_answer_limit{8000};    // above an agent's for its coordinator
constexpr Milliseconds k_restart_limit{11000};  // above the server's for a client
constexpr Milliseconds k_look{1000};            // between the two looks that CPU use is measured by
constexpr const char* k_clear = "\x1b[H\x1b[J";

using Jobs = std::vector<status::JobStatus>;

// Reports whether the job has that name. A job of Slurm is known with its step, 29.0, and one of PBS with its
// server, 29.ctl; people type 29.
bool is_named(const status::JobStatus& job, const std::string& name) {
  return name.empty() || job.job == name || job.job.starts_with(name + ".") ||
         std::to_string(job.pid) == name;
}

// Leaves out the ddprun processes of a job that another one on this host shows whole, since it has asked its
// coordinator.
Jobs without_covered(const Jobs& jobs) {
  Jobs kept;
  for (const status::JobStatus& job : jobs) {
    const auto whole = std::ranges::find_if(jobs, [&](const status::JobStatus& other) {
      return other.coordinator.empty() && other.launch_id == job.launch_id;
    });
    if (whole == jobs.end() || &*whole == &job) kept.push_back(job);
  }
  return kept;
}

struct Found {
  Jobs jobs;
  std::vector<std::string> silent;  // process numbers
};

Found ask(const std::vector<std::string>& sockets, const std::string& name) {
  Found found;
  const os::StatusAnswers answers = os::ask_status_sockets(sockets, k_answer_limit);
  for (const std::string& answer : answers.texts) {
    if (auto job = status::parse_job_status(answer)) found.jobs.push_back(std::move(*job));
  }
  for (const std::string& each : answers.silent) found.silent.push_back(os::process_of_status_socket(each));
  std::erase_if(found.jobs, [&](const status::JobStatus& job) { return !is_named(job, name); });
  std::ranges::sort(found.jobs, {}, &status::JobStatus::pid);
  if (name.empty()) found.jobs = without_covered(found.jobs);
  return found;
}

// Returns the earlier status of each job, in the order of `now`; drops jobs that have none.
Jobs matching(const Jobs& before, Jobs& now) {
  Jobs found;
  std::erase_if(now, [&](const status::JobStatus& job) {
    const auto earlier = std::ranges::find(before, job.pid, &status::JobStatus::pid);
    if (earlier != before.end()) found.push_back(*earlier);
    return earlier == before.end();
  });
  return found;
}

std::string describe(const Jobs& now, const Jobs& before, options::StatusForm form) {
  if (form == options::StatusForm::json) return status::render_status_json(now, before);
  std::string text;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (i > 0) text += "\n";
    text += status::render_status_table(now[i], before[i]);
  }
  return text;
}

Found ask_for_status(const std::string& name) { return ask(os::list_status_sockets(), name); }

// Asks only the jobs that are meant: to take stacks stops a process for a moment, and is noted in its job's
// files.
Found ask_for_stacks(const std::string& name) {
  if (name.empty()) return ask(os::list_status_sockets(os::Asks::stacks), name);
  const Found named = ask_for_status(name);
  if (named.jobs.empty()) return named;
  std::vector<std::string> sockets = os::list_status_sockets(os::Asks::stacks);
  std::erase_if(sockets, [&](const std::string& socket) {
    return std::ranges::none_of(named.jobs, [&](const status::JobStatus& job) {
      return std::to_string(job.pid) == os::process_of_status_socket(socket);
    });
  });
  return ask(sockets, name);
}

Error error_of_silence(const std::vector<std::string>& silent, const std::string& host) {
  return Error(fmt::format("ddprun {} on {} did not answer within {}", join(silent, ", "), host,
                           describe_duration(k_answer_limit)),
               "if it is stopped, continue it: kill -CONT " + join(silent, " ") + "; if not, ask again");
}

// Reports the silent processes, if all jobs are asked for.
void tell_silent(const std::string& name, const std::vector<std::string>& silent, const std::string& host) {
  if (!name.empty() || silent.empty()) return;
  const Error silence = error_of_silence(silent, host);
  console::say_notice(silence.what(), silence.hint());
}

// Fails with the silent processes, if there are any: the job of a silent one is not known, so that it may be
// the one that is asked for.
[[noreturn]] void fail_to_find(const std::string& name, const std::vector<std::string>& silent,
                               const std::string& host) {
  if (!silent.empty()) throw error_of_silence(silent, host);
  if (name.empty()) {
    throw Error(fmt::format("no ddprun process of this user runs on {}", host),
                "run it on a node of the job: srun --overlap --jobid JOB -w NODE ddprun --status, or ssh "
                "NODE ddprun --status");
  }
  throw Error(fmt::format("no ddprun process of this user on {} has the job id or process id {}", host,
                          printable(name, 128)),
              "ddprun --status alone shows all of them");
}

// Returns the one job; several processes here may belong to it.
const status::JobStatus& find_only_job(const Jobs& jobs, const std::string& host) {
  std::vector<std::string> named{fmt::format("{} (pid {})", printable(jobs.front().job), jobs.front().pid)};
  for (const status::JobStatus& job : jobs) {
    if (job.launch_id != jobs.front().launch_id)
      named.push_back(fmt::format("{} (pid {})", printable(job.job), job.pid));
  }
  if (named.size() == 1) return jobs.front();
  throw Error(fmt::format("several jobs on {} could be meant: {}", host, join(named, ", ")),
              "name one of them by its process id");
}

// Sends the message in the frame to the process of the job.
os::StatusAnswers ask_process(int pid, os::Asks asks, const std::string& frame, Milliseconds limit) {
  std::vector<std::string> sockets = os::list_status_sockets(asks);
  std::erase_if(sockets, [pid](const std::string& each) {
    return os::process_of_status_socket(each) != std::to_string(pid);
  });
  return os::ask_status_sockets(sockets, limit, frame.substr(rendezvous::k_frame_header));
}

std::optional<rendezvous::RestartReply> parse_reply(const std::string& text) {
  const auto decoded = rendezvous::decode_coordinator_message(text);
  const auto* const message = std::get_if<rendezvous::CoordinatorMessage>(&decoded);
  const auto* const reply = message ? std::get_if<rendezvous::RestartReply>(message) : nullptr;
  return reply ? std::optional(*reply) : std::nullopt;
}

}  // namespace

int show_jobs(const options::Options& options, const std::string& host) {
  const std::string name = options.command.empty() ? "" : options.command.front();
  auto [before, silent] = ask_for_status(name);
  if (before.empty()) fail_to_find(name, silent, host);
  tell_silent(name, silent, host);
  const bool clears = options.watch && os::is_terminal(STDOUT_FILENO);
  for (Milliseconds pause = k_look;; pause = *options.watch) {
    std::this_thread::sleep_for(pause);
    Jobs now = ask_for_status(name).jobs;
    if (now.empty()) return 0;
    const Jobs earlier = matching(before, now);
    if (clears) console::print_data(k_clear);
    const bool is_table = options.status.value() == options::StatusForm::table;
    (is_table ? console::print_text : console::print_data)(describe(now, earlier, options.status.value()));
    if (!options.watch) return 0;
    before = std::move(now);
  }
}

int show_stacks(const options::Options& options, const std::string& host) {
  const std::string name = options.command.empty() ? "" : options.command.front();
  std::error_code error;
  if (!name.empty() && std::filesystem::is_directory(name, error)) {
    console::print_text(describe_stack_folder(name));
    return 0;
  }
  const auto [jobs, silent] = ask_for_stacks(name);
  if (jobs.empty()) fail_to_find(name, silent, host);
  tell_silent(name, silent, host);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    console::print_text((i > 0 ? "\n" : "") + status::render_stacks(jobs[i]));
  }
  return 0;
}

int profile_job(const options::Options& options, const std::string& host) {
  const std::string name = options.command.empty() ? "" : options.command.front();
  const auto [jobs, silent] = ask_for_status(name);
  if (jobs.empty()) fail_to_find(name, silent, host);
  const status::JobStatus& job = find_only_job(jobs, host);
  const rendezvous::ProfileRequest request{0, 0, *options.profile, profile::answer_limit(job.workers)};
  const auto answers =
      ask_process(job.pid, os::Asks::profile, rendezvous::encode(rendezvous::AgentMessage(request)),
                  *options.profile + k_answer_limit);
  const profile::JobProfile found = profile::parse_job(answers.texts.empty() ? "" : answers.texts.front());
  if (found.ranks.empty()) {
    throw Error(fmt::format("no rank of job {} has given a profile", printable(job.job)),
                "ddprun --status shows whether its workers run");
  }
  console::print_text(status::render_heading(job) + "\n" + profile::render_table(found));
  if (options.output_file.empty()) return 0;
  constexpr const char* k_hint = "give another path with -o";
  write_file(options.output_file + ".speedscope.json", profile::render_speedscope(found, job.job), k_hint);
  write_file(options.output_file + ".collapsed", profile::render_collapsed(found), k_hint);
  return 0;
}

int restart_job(const options::Options& options, const std::string& host) {
  const std::string name = options.command.empty() ? "" : options.command.front();
  const auto [jobs, silent] = ask_for_status(name);
  if (jobs.empty()) fail_to_find(name, silent, host);
  const status::JobStatus& job = find_only_job(jobs, host);
  const rendezvous::RestartRequest request{0, options.drain};
  const auto answers = ask_process(job.pid, os::Asks::restart, rendezvous::encode(request), k_restart_limit);
  const auto reply = answers.texts.empty() ? std::nullopt : parse_reply(answers.texts.front());
  if (!reply) {
    throw Error(fmt::format("the coordinator of job {} did not answer", printable(job.job)),
                "the job may restart nevertheless: ddprun --status shows its attempt");
  }
  if (!reply->accepted) throw Error(fmt::format("job {}: {}", printable(job.job), reply->what), reply->hint);
  console::print_text(fmt::format("job {}: {}\n", printable(job.job), reply->what));
  return 0;
}

namespace {

constexpr std::size_t k_record_limit = std::size_t{64} << 20;
constexpr std::size_t k_most_calls = 1 << 20;
constexpr std::size_t k_most_digits = 7;  // digits of a rank
constexpr const char* k_attempt = "attempt-";

std::optional<status::Moment> read_dumps(const std::string& folder) {
  std::vector<status::Moment> dumps;
  for (const std::string& name : os::list_folder(folder)) {
    const auto text =
        name.ends_with(".json") ? os::try_read_file(folder + "/" + name, status::k_max_moment) : std::nullopt;
    if (auto dump = text ? status::parse_moment(*text) : std::nullopt) dumps.push_back(std::move(*dump));
  }
  return status::join_newest(std::move(dumps));
}

// Returns the name without its rank, and the rank: "nccl_trace_rank_3", "fr_3.json".
std::optional<std::pair<std::string, int>> split_rank(std::string name) {
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  const std::size_t digits = name.size() - (name.find_last_not_of("0123456789") + 1);
  if (digits == 0 || digits > k_most_digits) return std::nullopt;
  const auto rank = parse_integer(name.substr(name.size() - digits));
  return std::pair(name.substr(0, name.size() - digits), static_cast<int>(*rank));
}

// Returns the records of the name that most of them have.
std::optional<status::Moment> read_flight_records(const std::string& folder) {
  std::map<std::string, status::Moment> found;
  for (const std::string& file : os::list_folder(folder)) {
    const auto name = split_rank(file);
    const std::string path = folder + "/" + file;
    const auto text = name ? os::try_read_file(path, k_record_limit) : std::nullopt;
    const std::int64_t time = os::last_written(path).value_or(0);
    auto history =
        text ? status::parse_history(name->second, *text, "", time * 1'000'000, k_most_calls) : std::nullopt;
    if (!history) continue;
    status::Moment& moment = found[name->first];
    moment.histories.push_back(std::move(*history));
    moment.time = std::max(moment.time, time);
  }
  const auto most =
      std::ranges::max_element(found, {}, [](const auto& each) { return each.second.histories.size(); });
  if (most == found.end()) return std::nullopt;
  std::ranges::sort(most->second.histories, {}, &status::RankHistory::rank);
  return status::make_moment(std::move(most->second.histories), most->second.time);
}

std::string last_attempt(const std::string& folder) {
  std::int64_t last = 0;
  for (const std::string& name : os::list_folder(folder)) {
    if (name.starts_with(k_attempt))
      last = std::max(last, parse_integer(name.substr(std::string_view(k_attempt).size())).value_or(0));
  }
  return fmt::format("{}/{}{}", folder, k_attempt, last);
}

}  // namespace

std::string describe_stack_folder(const std::string& folder) {
  std::string dumps, records;
  for (const std::string& run : {folder, folder + "/latest"}) {
    for (const std::string& place : {run + "/stacks", run, last_attempt(run)}) {
      if (const auto moment = dumps.empty() ? read_dumps(place) : std::nullopt)
        dumps = status::describe_moment(*moment);
      if (const auto moment = records.empty() ? read_flight_records(place) : std::nullopt)
        records = status::describe_moment(*moment);
    }
  }
  if (dumps.empty() && records.empty())
    throw UsageError(fmt::format("{} contains no dumps of --stacks-every and no flight records of torch",
                                 printable(folder)),
                     "give the folder of --logs, or of TORCH_FR_DUMP_TEMP_FILE");
  return dumps + (dumps.empty() || records.empty() ? "" : "\n") + records;
}

}  // namespace ddprun::commands
