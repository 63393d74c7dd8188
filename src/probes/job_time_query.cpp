#include "probes/job_time_query.hpp"

#include <utility>

#include "allocation/schedulers/job_time.hpp"
#include "os/process/ask_program.hpp"
#include "probes/launch_facts.hpp"

namespace ddprun::probes {

namespace {

constexpr Milliseconds k_program_limit{2000};
constexpr Milliseconds k_limit{3000};
constexpr std::size_t k_most = std::size_t{32} << 10;

std::string ask(const allocation::Allocation& allocation) {
  const auto question = allocation::time_question(allocation.scheduler.value, allocation.job_id.value);
  return question.empty() ? std::string() : os::ask_program(question, k_program_limit);
}

}  // namespace

std::unique_ptr<ChildQuery> ask_job_time(boost::asio::io_context& context,
                                         const allocation::Allocation& allocation,
                                         std::function<void(std::optional<Milliseconds> left)> on_answer) {
  os::AnsweringChild child([allocation] { return ask(allocation); },
                           "ask the scheduler for the job's time limit");
  return std::make_unique<ChildQuery>(
      context, std::move(child), k_most, k_limit,
      [scheduler = allocation.scheduler.value, on_answer = std::move(on_answer)](const std::string& shown) {
        const auto left = allocation::parse_time_left(scheduler, shown, age_of_date);
        on_answer(left ? std::optional(Milliseconds{*left * 1000}) : std::nullopt);
      });
}

}  // namespace ddprun::probes
