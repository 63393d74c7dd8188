#include "agent/job_end_watch.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <cstdlib>
#include <utility>

#include "allocation/schedulers/job_end.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "lifecycle/end_watch.hpp"
#include "net/timers.hpp"
#include "options/options.hpp"
#include "os/clock.hpp"
#include "os/path_walk.hpp"
#include "os/process/child_call.hpp"
#include "os/read_file.hpp"
#include "probes/launch_facts.hpp"
#include "report/report.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_program_limit{2000}, k_answer_limit{3000};
constexpr std::size_t k_most_shown = allocation::k_most_shown;

std::string ask(const allocation::Allocation& allocation) {
  const auto question = allocation::time_question(allocation);
  return question.empty() ? std::string() : os::ask_program(question, k_program_limit, k_most_shown);
}

}  // namespace

JobEndWatch::JobEndWatch(boost::asio::io_context& context, const Plans& plans, Hooks hooks)
    : context_(context),
      plans_(plans),
      hooks_(std::move(hooks)),
      watch_(plans.node->options.time_limit),
      timer_(context) {}

void JobEndWatch::begin() {
  std::optional<Milliseconds> left;
  if (const auto& end = plans_.node->allocation.end_time)
    left = Milliseconds{end->value * 1000 - os::unix_milliseconds()};
  carry_out(watch_.on_start(left, os::now()));
}

void JobEndWatch::end() {
  timer_.cancel();
  query_.reset();
}

void JobEndWatch::carry_out(const lifecycle::EndWatch::Actions& actions) {
  for (const auto& action : actions) std::visit([this](const auto& each) { carry_out(each); }, action);
  arm_timer();
}

void JobEndWatch::carry_out(const lifecycle::EndWatch::Ask&) {
  const allocation::Allocation& allocation = plans_.node->allocation;
  if (allocation.job_id.value.empty())
    return boost::asio::post(context_, [this] { note_answer(std::nullopt); });
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_,
        os::AnsweringChild([allocation] { return ask(allocation); },
                           "ask the scheduler for the job's time limit"),
        k_most_shown, k_answer_limit, [this](const std::string& shown, bool) {
          query_.reset();
          const auto left = allocation::parse_time_left(plans_.node->allocation, shown, probes::age_of_date);
          note_answer(left ? std::optional(Milliseconds{*left * 1000}) : std::nullopt);
        });
  } catch (const Error& error) {
    console::say_detail(error.what());
    boost::asio::post(context_, [this] { note_answer(std::nullopt); });
  }
}

void JobEndWatch::carry_out(const lifecycle::EndWatch::Know& action) {
  console::say_detail("the job ends in " +
                      lifecycle::describe_left(std::chrono::floor<Milliseconds>(action.end - os::now())));
  hooks_.know(action.end);
}

void JobEndWatch::carry_out(const lifecycle::EndWatch::Warn& action) {
  const auto& signal = plans_.node->options.time_limit.signal;
  if (!signal) return;
  console::say(fmt::format("sending {} to all ranks: job {} ends in {} (its time limit)",
                           options::signal_name(signal->value.signal), plans_.node->allocation.job_id.value,
                           lifecycle::describe_left(action.left)));
  hooks_.warn(signal->value.signal);
}

void JobEndWatch::carry_out(const lifecycle::EndWatch::SayUnknown&) {
  const options::TimeLimitOptions& options = plans_.node->options.time_limit;
  const std::string& option = options.signal ? options.signal->origin : options.min_attempt.origin;
  const std::string& job = plans_.node->allocation.job_id.value;
  console::say_notice(
      job.empty() ? fmt::format("{} has no effect: ddprun does not run in a scheduler's job", option)
                  : fmt::format("{} has no effect: the scheduler shows no time limit of job {}", option, job),
      {});
}

void JobEndWatch::note_answer(std::optional<Milliseconds> left) {
  carry_out(watch_.on_answer(left, os::now()));
}

void JobEndWatch::arm_timer() {
  net::call_at(timer_, watch_.deadline(), [this] { carry_out(watch_.on_time(os::now())); });
}

namespace {

constexpr Milliseconds k_limit{10000};
constexpr std::size_t k_refusal_width = 300;

// Runs the program. Returns the error that it printed; empty if the request was made.
std::string run_program(const std::vector<std::string>& words) {
  const char* const path = std::getenv("PATH");
  const auto found =
      os::capture_program(words.front(), path == nullptr ? std::nullopt : std::optional<std::string>(path));
  if (found.kind == facts::ProgramKind::missing) return fmt::format("no {} on PATH", words.front());
  return printable(trim(os::ask_program(words, k_limit)), k_refusal_width);
}

}  // namespace

void Requeue::decide(const rendezvous::Finish& finish, const Plans& plans, bool warned) {
  const allocation::Allocation& allocation = plans.node->allocation;
  const options::TimeLimitOptions& options = plans.node->options.time_limit;
  restarts_ = allocation.restart_count.value;
  if (!options.requeue) return;
  const auto shown = probes::ask_for_job(allocation);
  job_ = shown ? shown->name : allocation.job_id.value;
  if (shown) restarts_ = shown->restarts.value_or(restarts_);
  lifecycle::RequeueFacts facts;
  facts.scheduler = allocation.scheduler.value;
  facts.job = job_;
  facts.shown = shown.has_value();
  facts.restarts = restarts_;
  facts.warned = warned;
  facts.at_time_limit = allocation::names_time_limit(finish.cause.detail);
  const lifecycle::RequeueDecision decision = lifecycle::decide_requeue(options, finish.cause, facts);
  if (decision.what.empty()) return;
  state_ = {decision.ask, decision.what, {}};
  hint_ = decision.hint;
  finish_ = finish;
}

void Requeue::ask(const Plans& plans, std::int64_t began, JobFiles& files) {
  if (!state_) return;
  if (!state_->asked) return console::say_error(state_->what, hint_);
  console::say(state_->what);
  const allocation::Allocation& allocation = plans.node->allocation;
  const auto words = lifecycle::requeue_command(allocation.scheduler.value, job_);
  state_->refusal = run_program(words);
  if (state_->refusal.empty()) return;
  console::say_error(fmt::format("job {} is not requeued: {}", job_, state_->refusal),
                     lifecycle::requeue_hint(allocation.scheduler.value));
  write_report(*finish_, plans, began, *this, files);
}

using lifecycle::PendingWarning;

WarnedWorkers::WarnedWorkers(boost::asio::io_context& context, const Plans& plans,
                             workers::WorkerGroup& workers, Hooks hooks)
    : plans_(plans), workers_(workers), hooks_(std::move(hooks)), timer_(context) {}

void WarnedWorkers::begin(int signal) {
  signal_ = signal;
  pending_.begin(plans_.attempt->planned.size(), os::now());
  look();
}

void WarnedWorkers::end() {
  pending_.end();
  timer_.cancel();
}

PendingWarning::Worker WarnedWorkers::state_of(std::size_t worker) const {
  if (!hooks_.runs(worker)) return PendingWarning::Worker::gone;
  const std::string path = fmt::format("/proc/{}/status", workers_.pid(worker));
  const bool handles = lifecycle::handles_signal(os::try_read_file(path).value_or(""), signal_);
  return handles ? PendingWarning::Worker::ready : PendingWarning::Worker::deaf;
}

void WarnedWorkers::look() {
  const auto step = pending_.look([this](std::size_t worker) { return state_of(worker); }, os::now());
  for (const std::size_t worker : step.send) {
    workers_.signal(worker, signal_);
    hooks_.sent(signal_);
  }
  if (!step.tell.empty()) tell_deaf(step.tell);
  net::call_at(timer_, pending_.deadline(), [this] { look(); });
}

void WarnedWorkers::tell_deaf(const std::vector<std::size_t>& workers) const {
  std::vector<int> ranks;
  for (const std::size_t worker : workers) ranks.push_back(plans_.attempt->planned[worker].rank.value);
  const std::string signal = options::signal_name(signal_);
  console::say_notice(
      fmt::format("{} on {} cannot be sent {}: {}", report::name_ranks(ranks), plans_.node->host, signal,
                  ranks.size() == 1 ? "its main process does not handle it"
                                    : "their main processes do not handle it"),
      "set a handler in the training script, and start Python by exec in a shell script");
}

namespace {

// Reports whether the failure has been printed already: a check's finding, or the end of a program of
// several.
bool is_told(const report::Cause& cause, const options::Options& options) {
  if (options.several_programs)
    return cause.kind == report::Cause::Kind::worker_failed &&
           cause.failure.status.kind == ExitStatus::Kind::exited;
  return options.check.wanted && cause.kind == report::Cause::Kind::worker_failed &&
         report::exit_code_of(cause.failure.status) == 1;
}

}  // namespace

std::string render_report_json(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                               const Requeue& requeue) {
  report::JobEnd end{finish.cause,    finish.others, finish.victims, finish.remarks, plans.node->run_id.value,
                     plans.node->host};
  end.world_size = plans.attempt->assignment.world_size;
  end.nodes = plans.attempt->assignment.node_count;
  end.attempts = plans.attempt->assignment.attempt.value + 1;
  end.restarts = finish.restarts.used;
  end.hangs = finish.hangs;
  end.max_restarts = plans.node->options.max_restarts.value;
  end.restarted = finish.restarts.causes;
  end.killed = finish.killed;
  end.began = began;
  end.ended = os::unix_milliseconds();
  end.scheduler_restarts = requeue.restarts();
  end.requeuing = requeue.state();
  return report::render_report_json(end);
}

void write_report(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                  const Requeue& requeue, JobFiles& files) {
  if (files.wanted(JobFiles::Kind::report))
    files.write(JobFiles::Kind::report, render_report_json(finish, plans, began, requeue));
}

std::string report_end(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                       const Requeue& requeue, JobFiles& files) {
  write_report(finish, plans, began, requeue, files);
  if (is_told(finish.cause, plans.node->options)) return {};
  std::string text = report::render_report(finish.cause, finish.restarts);
  if (!text.empty()) text.pop_back();
  const bool signalled = finish.cause.kind == report::Cause::Kind::stopped_by_signal;
  text += report::render_others(finish.others, signalled ? std::vector<int>() : finish.victims);
  for (const report::KilledRanks& each : finish.killed) text += "\n  " + report::describe(each);
  text += report::render_restarts(finish.restarts, finish.cause);
  if (!text.empty()) {
    for (const report::Hang& hang : finish.hangs) text += "\n  " + report::describe(hang);
  }
  for (const std::string& remark : finish.remarks) text += "\n  " + remark;
  if (!finish.cause.hint.empty()) text += "\nhint: " + finish.cause.hint;
  return text;
}

void tell_outer_launcher(const report::Cause& cause, JobFiles& files) {
  using Kind = report::Cause::Kind;
  if (cause.kind == Kind::success || cause.kind == Kind::stopped_by_signal) return;
  files.write(JobFiles::Kind::error_file, report::render_error_file(cause));
}

}  // namespace ddprun::agent
