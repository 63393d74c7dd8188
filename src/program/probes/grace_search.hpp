// Asks, after a stop signal, whether the workers get more time to stop than --shutdown-timeout.
// The scheduler grants it at a preemption, for example.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "probes/child_query.hpp"

namespace ddprun::probes {

class GraceSearch {
 public:
  struct Hooks {
    std::function<void(Milliseconds grace)> found;
  };
  explicit GraceSearch(boost::asio::io_context& context) : context_(context) {}

  // Returns the sentence that -v prints when the workers start. `timeout`: --shutdown-timeout; if the user
  // has set it the scheduler is not asked.
  static std::string describe(const allocation::Allocation& allocation, const Sourced<Milliseconds>& timeout);
  // Starts the question; later calls do nothing.
  void begin(const allocation::Allocation& allocation, const Sourced<Milliseconds>& timeout, Hooks hooks);
  void end();

 private:
  boost::asio::io_context& context_;
  Hooks hooks_;
  bool begun_ = false;
  std::unique_ptr<ChildQuery> query_;  // under way
};

}  // namespace ddprun::probes
