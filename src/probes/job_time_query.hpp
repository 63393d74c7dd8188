// Asks the scheduler beside the event loop how long the job may still run.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "base/duration.hpp"
#include "net/whole_answer.hpp"
#include "os/process/answering_child.hpp"

namespace ddprun::probes {

class JobTimeQuery {
 public:
  // Called once, within three seconds; nothing where the scheduler does not say it.
  using OnAnswer = std::function<void(std::optional<Milliseconds> left)>;

  // Started. Throws Error where there can be no child.
  JobTimeQuery(boost::asio::io_context& context, const allocation::Allocation& allocation,
               OnAnswer on_answer);
  ~JobTimeQuery() { answer_->cancel(); }  // it is not wanted any more
  JobTimeQuery(const JobTimeQuery&) = delete;
  JobTimeQuery& operator=(const JobTimeQuery&) = delete;
  int child() const { return child_.pid(); }

 private:
  os::AnsweringChild child_;
  std::shared_ptr<net::WholeAnswer> answer_;
};

}  // namespace ddprun::probes
