// Carries the workers' output to ddprun's own: pipes in, whole lines out.
//
// One pump for each of stdout and stderr. A reader that is slow (less, ^S) makes the pump stop reading, and
// the workers wait in their writes as they would without us; memory stays bounded. An output that fails
// (EPIPE, disk full) costs what it does not take, never the job: reading goes on and error() says why.
//
// Has to live until the io_context has stopped running.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/os/output_sink.hpp"
#include "ddprun/supervise/line_merger.hpp"

namespace ddprun {

class OutputPump {
 public:
  // `output`: 1 or 2; its open file's flags are left as they are.
  OutputPump(boost::asio::io_context& context, int output, const LineMerger::Settings& settings = {});

  // The read end of a worker's pipe. `interactive`: unfinished lines (prompts) are shown too.
  StreamId add(Fd reader, bool interactive = false);
  // The worker has ended. `ended` is called once the last byte was read: at the end of the pipe, or after
  // `grace` when a descendant of the worker keeps it open; time in which we could not write does not count.
  void finish(StreamId stream, Milliseconds grace, std::function<void()> ended);
  // Whole lines of ddprun itself, in order with the workers'.
  void insert(std::string_view lines);
  // Calls once when no stream is left and all is written (true), or after `limit` (false).
  void when_drained(Milliseconds limit, std::function<void(bool complete)> handler);

  std::vector<std::string> last_lines(StreamId stream) const { return merger_.last_lines(stream); }
  void forget(StreamId stream) { merger_.forget(stream); }
  int error() const noexcept { return sink_.error(); }  // errno of the last failed write; 0: none
  // Calls once, with that errno, when the first write fails.
  void when_failing(std::function<void(int error)> handler) { failing_ = std::move(handler); }

 private:
  struct Source;
  using SourcePointer = std::shared_ptr<Source>;

  bool may_read(const Source& source) const;
  void arm(const SourcePointer& source);
  void arm_all();
  void read_once(const SourcePointer& source);
  void wait_for_grace(const SourcePointer& source, Milliseconds grace);
  void end(const SourcePointer& source);
  void advance();
  void write_out();
  void schedule_tick();
  void check_drained();

  boost::asio::io_context& context_;
  OutputSink sink_;
  boost::asio::posix::stream_descriptor sink_watch_;
  boost::asio::steady_timer tick_timer_;
  boost::asio::steady_timer drain_timer_;
  std::optional<TimePoint> tick_at_;  // what tick_timer_ is set to
  LineMerger merger_;
  std::map<StreamId, SourcePointer> sources_;
  std::vector<char> buffer_;  // for one read; sources share it
  std::string pending_;       // merged, partly written
  std::size_t written_ = 0;   // of pending_
  bool waiting_ = false;      // for sink_watch_
  std::function<void(bool)> drained_;
  std::function<void(int)> failing_;
};

}  // namespace ddprun
