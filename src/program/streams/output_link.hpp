// Output of an agent over connections of its own, to its front end or, with --gather, to the coordinator.
//
// Remote launchers treat lines in ways of their own: pbsdsh tears them every 256 bytes and loses the last of
// them, srun tears long ones. So standard output and standard error become sockets to the front end, one for
// both if both lead to one file there. Each side merges whole lines (output_pump.hpp); a reader that stands
// still fills TCP's window, and the workers wait in their writes as they would on one host.
//
// The remote launcher's own channel carries earlier output, and all of it if the front end cannot be reached.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/duration.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "os/descriptors.hpp"

namespace ddprun::streams {

class OutputLink {
 public:
  // Returns whether standard output and standard error lead to the front end now. Waits for its answer, or
  // for the limits of a dial; without a front end it does nothing.
  bool connect(const facts::Snapshot& snapshot, const options::Options& options);

  // Does the same over sockets that lead there already: one for both standard outputs, or one for each.
  void lead(const std::vector<os::Fd>& sockets);
  bool linked() const { return !linked_.empty(); }
  // Restores the outputs of before lead(), since the connections have no reader any more. Reports whether
  // anything changed.
  bool restore();

  // Ends the output: nothing is written any more. `done` is called once the front end has read all of it,
  // after `limit`, or after give_up(); at once if there is no connection. Until then this process has to
  // live: a kernel does not keep bytes for hours that no process reads or owns.
  void finish(boost::asio::io_context& context, std::optional<Milliseconds> limit,
              std::function<void()> done);
  void give_up();
  // Cancels all waits, as the context is about to end: calls no handler.
  void cancel();

 private:
  using Watch = boost::asio::posix::stream_descriptor;

  void link(const std::vector<os::Fd>& sockets);
  void note_read();
  // Returns nullptr if the system refuses it.
  static std::unique_ptr<Watch> try_watch(boost::asio::io_context& context, int standard);

  std::vector<int> linked_;     // 1 and 2, or both are one
  std::vector<os::Fd> before_;  // targets of 1 and 2 before lead()
  std::vector<std::unique_ptr<Watch>> watches_;
  std::unique_ptr<boost::asio::steady_timer> limit_;
  std::size_t unread_ = 0;
  std::function<void()> done_;
};

}  // namespace ddprun::streams
