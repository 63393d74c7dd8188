// When a stop signal has come: whether the scheduler gives the workers more time to stop than
// --shutdown-timeout, as at a preemption.
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
    // A child that is no worker's has been started, or is gone; may be unset.
    std::function<void(int child, bool runs)> note_child{};
  };
  explicit GraceSearch(boost::asio::io_context& context) : context_(context) {}

  // What is said with -v where the workers start. `timeout`: --shutdown-timeout; nothing is asked where the
  // user has given it.
  static std::string describe(const allocation::Allocation& allocation, const Sourced<Milliseconds>& timeout);
  // Once.
  void begin(const allocation::Allocation& allocation, const Sourced<Milliseconds>& timeout, Hooks hooks);
  void end();

 private:
  boost::asio::io_context& context_;
  Hooks hooks_;
  bool begun_ = false;
  std::unique_ptr<ChildQuery> query_;  // under way
  int child_ = 0;
};

}  // namespace ddprun::probes
