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

ChildQuery::Rest ChildQuery::wait_for_more(std::size_t most, Milliseconds limit) {
  answer_->cancel();
  std::string text = answer_->text() + os::read_by(os::now() + limit, more_.get(), most);
  return {std::move(text), !os::is_hung_up(more_.get())};
}

}  // namespace ddprun::probes
