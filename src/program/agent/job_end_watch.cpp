#include "agent/job_end_watch.hpp"

#include <fmt/format.h>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <utility>

#include "agent/job_report.hpp"
#include "allocation/schedulers/job_end.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/log.hpp"
#include "lifecycle/requeue.hpp"
#include "net/timers.hpp"
#include "options/options.hpp"
#include "os/clock.hpp"
#include "os/find_program.hpp"
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

}  // namespace ddprun::agent
