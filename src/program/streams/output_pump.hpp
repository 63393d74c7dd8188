// Carries the workers' output to ddprun's own: pipes in, whole lines out.
//
// One pump for each of stdout and stderr. A reader that is slow (less, ^S) makes the pump stop reading, and
// the workers wait in their writes as they would without us; memory stays bounded. What a worker leaves in
// its pipe at its end is read in any case: it is known at once, and no more than the pipe holds. An output
// that fails (EPIPE, disk full) costs what it does not take, never the job: reading goes on and error() says
// why.
//
// Every event ends in settle(), after which
//   - what is merged is written, or we wait for the sink;
//   - every stream with room (LineMerger::has_room) is waited for;
//   - the timer is set to LineMerger::next_tick().
// By the merger's own invariant something then always happens, unless every worker is silent.
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

#include "os/terminal/terminal.hpp"
#include "output/copy_folder.hpp"
#include "output/line_folder.hpp"
#include "output/line_limits.hpp"
#include "output/line_merger.hpp"

namespace ddprun::streams {

// Treatment of a stream.
struct StreamTreatment {
  // LineFolder's; CopyFolder's
  enum class Fold { nothing, alike, copies, copied_tracebacks, host_tracebacks };
  output::LineLabel label{};  // in front of each line
  GlobalRank rank{};
  std::string name{};                            // "rank 3 on n2"; host_tracebacks: "n2"
  Fold fold = Fold::nothing;                     // with what other ranks write at the same time
  std::uint64_t rate = 0;                        // bytes a second that are shown; 0: all
  bool shown = true;                             // on our output; else it is read all the same
  std::function<void(std::string_view)> copy{};  // gets each piece, and an empty one at the end
  std::function<bool()> is_behind{};             // the copy: the stream is not read meanwhile
};

class OutputPump {
 public:
  // Makes a pump. `output`: 1 or 2; its open file's flags are left as they are.
  OutputPump(boost::asio::io_context& context, int output, const output::LineMerger::Settings& settings = {});

  // Adds the read end of a worker's pipe. `interactive`: unfinished lines (prompts) are shown too.
  // `remembered`: how many of its last_lines() are kept. `begun`: what was read of it already.
  output::StreamId add(os::Fd reader, bool interactive = false,
                       std::size_t remembered = output::LineTail::k_lines, StreamTreatment treatment = {},
                       std::string_view begun = {});
  // Finishes the stream of a worker that has ended. `known` is called once its last_lines() are: at the end
  // of the pipe, or after `grace` when a descendant of the worker keeps it open, whether or not anything can
  // be written. The stream stays, for the descendants, until it ends or is closed.
  void finish(output::StreamId stream, Milliseconds grace, std::function<void()> known);
  // Closes a stream that has no writer any more whose output counts: it ends with its pipe, or after `grace`
  // with what is in the pipe then. `closed` is called afterwards, and those of finish() before it.
  void close(output::StreamId stream, Milliseconds grace, std::function<void()> closed = {});
  // Forgets a stream whose last_lines() are not needed any more; calls that are due come first.
  void forget(output::StreamId stream);
  // Ends the streams that are still open, with what is in them, once nothing has come for `patience` and
  // nothing waits for the reader of our output; `in_any_case`: after that time.
  void end_silent(Milliseconds patience, bool in_any_case);
  // Reopens `output`, which leads elsewhere now: what is still to be written goes there.
  void reopen(int output);
  // Inserts whole lines of ddprun itself, in order with the workers'.
  void insert(std::string_view lines);

  // Sets a handler called once, when no stream is left to be read: what is inserted then comes after all of
  // them.
  void when_read(std::function<void()> handler);
  // Sets a handler called once, when no stream is left and all is written (true), or after `limit` (false).
  // Without a limit it waits for the reader as long as that takes.
  void when_drained(std::optional<Milliseconds> limit, std::function<void(bool complete)> handler);

  std::vector<std::string> last_lines(output::StreamId stream) const;  // empty when forgotten
  // Streams that are open or whose last_lines() are kept.
  std::size_t streams() const noexcept { return sources_.size(); }
  // Reports whether something was read within this time, or waits for the reader of our output.
  bool is_busy(Milliseconds within) const;
  int error() const noexcept { return sink_.error(); }  // errno of the last failed write; 0: none
  // Returns when something was read of it last; nullopt: never yet, or it is forgotten.
  std::optional<TimePoint> last_read(output::StreamId stream) const;
  // Calls once for each stream, when it is read from for the first time.
  void when_heard(std::function<void(output::StreamId stream)> handler) { heard_ = std::move(handler); }
  // Calls each time before something is written.
  void before_writing(std::function<void()> handler) { before_writing_ = std::move(handler); }
  // Reports whether the last output ended with a line end, or there was none yet.
  bool at_line_start() const noexcept { return at_line_start_; }
  // Calls once, with that errno, when the first write fails.
  void when_failing(std::function<void(int error)> handler) { failing_ = std::move(handler); }
  // Notes that the job continues without a host that is lost, and so without the rest of its output.
  void allow_lost_hosts() { may_lose_hosts_ = true; }
  // Returns the reason why the output is not all that the workers wrote, if it ended now; empty: it is, or
  // its reader has left.
  std::string why_incomplete() const;

 private:
  struct Source;
  using SourcePointer = std::shared_ptr<Source>;

  void settle();
  void write_out();
  bool is_behind(const Source& source) const;
  bool wants(const Source& source) const;
  void arm_all();
  void arm(const SourcePointer& source);
  void show(Source& source, std::string_view text);
  void open_fold(const Source& source);
  void fold(const Source& source, std::string_view text);
  void pass_on_folded();
  void tell_left_out(Source& source, TimePoint now);
  std::optional<TimePoint> next_tick() const;
  void schedule_tick();
  void tick();
  void check_ended();

  std::size_t read_once(const SourcePointer& source);
  void take(const SourcePointer& source, std::string_view text);
  void read_rest(const SourcePointer& source);
  void wait_for_grace(const SourcePointer& source, Milliseconds grace);
  void end(const SourcePointer& source);
  void tell(const SourcePointer& source);

  boost::asio::io_context& context_;
  os::OutputSink sink_;
  boost::asio::posix::stream_descriptor sink_watch_;
  boost::asio::steady_timer tick_timer_;
  boost::asio::steady_timer drain_timer_;
  boost::asio::steady_timer silence_timer_;
  std::optional<TimePoint> tick_at_;  // time that tick_timer_ is set to
  output::LineMerger merger_;
  output::LineFolder folder_;
  output::CopyFolder copies_;
  std::map<output::StreamId, SourcePointer> sources_;  // until they have ended and are forgotten
  std::size_t open_ = 0;                               // number of open sources_
  std::unique_ptr<char[]> buffer_;                     // for one read; sources share it
  bool waiting_ = false;                               // for sink_watch_
  std::size_t opened_ = 0;                             // times that sink_ was opened
  std::size_t cut_off_ = 0;                            // streams that end_silent() ended
  bool may_lose_hosts_ = false;
  int unreadable_ = 0;  // errno of a stream that was not read to its end
  bool at_line_start_ = true;
  TimePoint last_read_;
  std::function<void()> read_;
  std::function<void(bool)> drained_;
  std::function<void()> before_writing_;
  std::function<void(int)> failing_;
  std::function<void(output::StreamId)> heard_;
};

// Returns a sentence for each of them that is incomplete; both may be the same pump.
std::vector<std::string> describe_losses(const OutputPump& output, const OutputPump& error,
                                         const std::string& host);

}  // namespace ddprun::streams
