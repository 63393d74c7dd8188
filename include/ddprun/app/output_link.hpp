// The output of an agent that another ddprun started: over connections of its own to that front end.
//
// What remote launchers do with lines is their own affair: pbsdsh tears them every 256 bytes and loses the
// last of them, srun tears long ones. So standard output and standard error become sockets to the front end,
// one for both where both lead to one file there. Each side merges whole lines (output_pump.hpp); a reader
// that stands still fills TCP's window, and the workers wait in their writes as they would on one host.
//
// The remote launcher's own channel carries what comes before, and everything where the front end cannot be
// reached.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ddprun/base/duration.hpp"
#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/options.hpp"

namespace ddprun {

class OutputLink {
 public:
  // Returns whether standard output and standard error lead to the front end now. Waits for its answer, or
  // for the limits of a dial; without a front end it does nothing.
  bool connect(const Snapshot& snapshot, const Options& options);

  // Nothing is written any more. `done` is called once the front end has read all of it, after `limit`, or
  // after give_up(); at once where there is no connection. Until then this process has to live: a kernel
  // does not keep for hours what nobody reads and nobody owns.
  void finish(boost::asio::io_context& context, std::optional<Milliseconds> limit,
              std::function<void()> done);
  void give_up();
  // The context is about to end: nothing is waited for, and nobody called.
  void cancel();

 private:
  using Watch = boost::asio::posix::stream_descriptor;

  void note_read();

  std::vector<int> linked_;  // 1 and 2, or both are one
  std::vector<std::unique_ptr<Watch>> watches_;
  std::unique_ptr<boost::asio::steady_timer> limit_;
  std::size_t unread_ = 0;
  std::function<void()> done_;
};

}  // namespace ddprun
