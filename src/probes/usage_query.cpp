#include "probes/usage_query.hpp"

#include <utility>

#include "base/duration.hpp"
#include "os/capture/node_usage.hpp"

namespace ddprun::probes {

namespace {

// Below StatusRound's: without an answer the workers are told all the same.
constexpr Milliseconds k_usage_limit{2000}, k_stacks_limit{2800};

}  // namespace

UsageQuery::UsageQuery(boost::asio::io_context& context, status::NodeStatus status, os::WorkerPlaces places,
                       os::Depth depth, OnAnswer on_answer)
    : child_(os::measure_node_in_child(status, std::move(places), depth)),
      answer_(std::make_shared<net::WholeAnswer>(
          context, child_.descriptor(), status::k_max_node_status,
          depth == os::Depth::stacks ? k_stacks_limit : k_usage_limit,
          [status, on_answer = std::move(on_answer)](const std::string& answer, bool) {
            const auto measured = status::parse_node_status(answer);
            on_answer(measured ? *measured : status);
          })) {
  answer_->start();
}

}  // namespace ddprun::probes
