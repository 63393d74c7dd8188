#include "probes/usage_query.hpp"

#include <utility>

#include "base/duration.hpp"
#include "os/capture/node_usage.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"

namespace ddprun::probes {

namespace {

// Below StatusRound's: without an answer the workers are told all the same.
constexpr Milliseconds k_usage_limit{2000}, k_stacks_limit{2800};
constexpr Milliseconds k_write_limit{60'000};  // for a disk that hangs
constexpr std::size_t k_most_problem = 8192;

os::AnsweringChild start_measuring(const status::NodeStatus& status, os::WorkerPlaces places, os::Depth depth,
                                   os::Fd& problem) {
  os::Pipe pipe = os::make_pipe();
  problem = std::move(pipe.reader);
  return os::measure_node_in_child(status, std::move(places), depth, pipe.writer.get());
}

}  // namespace

UsageQuery::UsageQuery(boost::asio::io_context& context, status::NodeStatus status, os::WorkerPlaces places,
                       os::Depth depth, OnAnswer on_answer, OnWritten on_written)
    : writes_(depth == os::Depth::stacks && !places.records.empty()),
      context_(context),
      child_(start_measuring(status, std::move(places), depth, problem_)),
      on_written_(std::move(on_written)),
      answer_(std::make_shared<net::WholeAnswer>(
          context, child_.descriptor(), status::k_max_node_status,
          depth == os::Depth::stacks ? k_stacks_limit : k_usage_limit,
          [this, status, on_answer = std::move(on_answer)](const std::string& answer, bool late) {
            const auto measured = status::parse_node_status(answer);
            writes_ = writes_ && !late;
            if (writes_) watch_records();
            on_answer(measured ? *measured : status);
          })) {
  answer_->start();
}

UsageQuery::~UsageQuery() {
  answer_->cancel();
  if (written_) written_->cancel();
}

void UsageQuery::watch_records() {
  written_ = std::make_shared<net::WholeAnswer>(
      context_, problem_.get(), k_most_problem, k_write_limit, [this](const std::string& text, bool late) {
        const OnWritten tell = std::move(on_written_);  // who may end this
        tell(late ? "not written within " + describe_duration(k_write_limit) : text);
      });
  written_->start();
}

void UsageQuery::wait(Milliseconds limit) const { os::wait_until_ready(problem_.get(), os::now() + limit); }

}  // namespace ddprun::probes
