#include "probes/child_query.hpp"

#include <utility>

namespace ddprun::probes {

ChildQuery::ChildQuery(boost::asio::io_context& context, os::AnsweringChild child, std::size_t most,
                       Milliseconds limit, OnAnswer on_answer)
    : child_(std::move(child)),
      answer_(std::make_shared<net::WholeAnswer>(
          context, child_.descriptor(), most, limit,
          [on_answer = std::move(on_answer)](const std::string& answer, bool) { on_answer(answer); })) {
  answer_->start();
}

}  // namespace ddprun::probes
