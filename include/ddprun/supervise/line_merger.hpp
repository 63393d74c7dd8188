// Several streams of text into one output, a line at a time.
//
// Every byte of every stream comes out once and in the order of its stream. A piece of text is passed on when
// it ends with '\n' or '\r' (so that a progress bar stays alive), and never in the middle of another stream's
// line. What does not fit this simple picture:
//
//   overlong line     past `long_line` it is passed on in portions, and the others wait for its end, but
//                     no longer than `patience` after a portion: a worker that writes dots for hours, or
//                     half a line and then nothing, would else block all others at their next print.
//   last line without end   is passed on when its stream closes.
//   interactive stream      passes an unfinished line on (a prompt) once nothing was added for `idle`.
//
// After any of these the output stands in the middle of a line. If somebody else writes next, a '\n' that no
// stream wrote is put between; it is the only byte ever added.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/base/duration.hpp"
#include "ddprun/base/ids.hpp"
#include "ddprun/supervise/line_tail.hpp"

namespace ddprun {

using StreamId = Id<struct StreamIdTag>;

class LineMerger {
 public:
  struct Settings {
    std::size_t long_line = std::size_t{64} * 1024;  // bytes
    Milliseconds patience{1000};
    Milliseconds idle{100};
    std::size_t remembered_lines = LineTail::k_lines;
  };

  LineMerger() = default;
  explicit LineMerger(const Settings& settings) : settings_(settings) {}

  StreamId open(bool interactive = false);
  void add(StreamId stream, std::string_view text, TimePoint now);
  // The stream has ended; its last lines are remembered until forget().
  void close(StreamId stream, TimePoint now);
  void forget(StreamId stream);
  // The launcher's own whole lines: waits for nobody.
  void insert(std::string_view lines);

  // When tick() has something to do; nothing: not before more text comes.
  std::optional<TimePoint> next_tick() const;
  void tick(TimePoint now);

  // What may be written now; gone from here afterwards.
  std::string take_output();
  std::size_t output_size() const { return output_.size(); }
  // Whether a stream should be read further: one that waits for another keeps at most a few portions here.
  bool has_room(StreamId stream) const;
  std::vector<std::string> last_lines(StreamId stream) const;

 private:
  struct Stream {
    bool interactive = false;
    bool closed = false;
    std::string held;     // not passed on yet
    TimePoint changed{};  // when text was added last
    LineTail tail;
  };

  bool must_wait(StreamId stream, TimePoint now) const;
  std::size_t ready_length(const Stream& stream) const;
  void pass_on(StreamId id, Stream& stream, TimePoint now);
  void pass_on_all(TimePoint now);
  void write(std::optional<StreamId> from, std::string_view text);

  Settings settings_;
  std::map<StreamId, Stream> streams_;
  StreamId next_{0};
  std::string output_;
  // Where the output stands: in the middle of a line of this stream, which may have it to itself until then.
  bool mid_line_ = false;
  std::optional<StreamId> writer_;
  TimePoint reserved_until_ = TimePoint::min();
};

}  // namespace ddprun
