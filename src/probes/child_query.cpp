#include "probes/child_query.hpp"

#include <utility>

#include "os/clock.hpp"
#include "os/descriptors.hpp"

namespace ddprun::probes {

ChildQuery::ChildQuery(boost::asio::io_context& context, os::AnsweringChild child, std::size_t most,
                       Milliseconds limit, OnAnswer on_answer)
    : context_(context), child_(std::move(child)) {
  read(child_.descriptor(), most, limit, std::move(on_answer));
}

void ChildQuery::read(int descriptor, std::size_t most, Milliseconds limit, OnAnswer on_answer) {
  answer_ = std::make_shared<net::WholeAnswer>(context_, descriptor, most, limit, std::move(on_answer));
  answer_->start();
}

void ChildQuery::read_more(os::Fd pipe, std::size_t most, Milliseconds limit, OnAnswer on_answer) {
  more_ = std::move(pipe);
  read(more_.get(), most, limit, std::move(on_answer));
}

void ChildQuery::wait_for_more(Milliseconds limit) const {
  os::wait_until_ready(more_.get(), os::now() + limit);
}

}  // namespace ddprun::probes
