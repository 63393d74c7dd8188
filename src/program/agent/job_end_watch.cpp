#include "agent/job_end_watch.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "allocation/schedulers/job_time.hpp"
#include "base/error.hpp"
#include "console/log.hpp"
#include "net/timers.hpp"
#include "options/options.hpp"
#include "os/clock.hpp"
#include "os/process/ask_program.hpp"
#include "probes/launch_facts.hpp"

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

}  // namespace ddprun::agent
