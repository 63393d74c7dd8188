// Several streams of text into one output, a line at a time.
//
// Every byte of every stream comes out once and in the order of its stream. A piece of text is passed on when
// it ends with '\n' or '\r' (so that a progress bar stays alive), and never in the middle of another stream's
// line. What does not fit this simple picture:
//
//   overlong line     past `long_line` it is passed on in portions, and the others wait for its end, but
//                     no longer than `patience` after a portion, and past `longest_line` not for another
//                     portion: a worker that writes dots for hours, half a line and then nothing, or a line
//                     without end would else block all others at their next print.
//   last line without end   is passed on when its stream closes.
//   interactive stream      passes an unfinished line on (a prompt) once nothing was added for `idle`.
//
// After any of these, and where insert() comes between, the output stands in the middle of a line. If another
// stream writes next, a '\n' that no stream wrote is put between; beside labels it is the only byte
// ever added.
//
// On a terminal a line that is rewritten with '\r' (a frame of a progress bar) is erased where another stream
// or insert() comes after it, in place of the '\n', and is cut at the terminal's width: what is shown of a
// bar is its latest frame, and none stays when it ends.
//
// Nothing waits here for ever. After every event:
//
//   a stream with room        has_room(): its owner has to read it. All others lack room because the backlog
//                             is full, which whoever takes output ends, or because they wait for a line's
//                             end.
//   text that is ready        waits only for the end of another open stream's line. That stream has room, so
//                             the line goes on or ends; or next_tick() says when the wait is over. It says
//                             nothing while the backlog is full: the line cannot go on then, so no patience
//                             is lost, and it begins anew once output was taken.
//   next_tick()               a tick() at that time or later passes something on.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "output/line_label.hpp"

namespace ddprun::output {

using StreamId = Id<struct StreamIdTag>;

class LineMerger {
 public:
  struct Settings {  // sizes in bytes
    std::size_t long_line = std::size_t{64} * 1024;
    std::size_t longest_line = std::size_t{16} * 1024 * 1024;
    std::size_t backlog = std::size_t{256} * 1024;  // output not taken yet; streams are not read beyond it
    Milliseconds patience{1000};
    Milliseconds idle{100};
    bool terminal = false;       // the output is one that knows escape sequences
    Milliseconds wall_clock{0};  // Unix time minus TimePoint, for labels
  };

  LineMerger() = default;
  explicit LineMerger(const Settings& settings) : settings_(settings) {}

  // Opens a stream; `label` stands in front of each of its lines.
  StreamId open(bool interactive = false, output::LineLabel label = {});
  void add(StreamId stream, std::string_view text, TimePoint now);  // also without room; then it is held
  // Closes a stream that has ended. It is forgotten once all of it was passed on.
  void close(StreamId stream, TimePoint now);
  // Inserts the launcher's own whole lines, without waiting.
  void insert(std::string_view lines, TimePoint now);

  // Returns when tick() has something to do; nullopt: not before another event.
  std::optional<TimePoint> next_tick() const;
  void tick(TimePoint now);

  // Returns the text that may be written now; take() removes what was written of it.
  std::string_view output() const { return std::string_view(output_).substr(taken_); }
  void take(std::size_t length, TimePoint now);
  // Reports whether the stream should be read; false for one that has ended.
  bool has_room(StreamId stream) const;
  std::size_t streams() const { return streams_.size(); }  // open, or not passed on completely

 private:
  struct Stream {
    bool interactive = false;
    output::LineLabel label{};
    output::Labeller labeller{};
    bool closed = false;
    bool rewrites = false;  // rewrites its line with '\r'
    bool waiting = false;   // is in waiting_
    std::string held;       // not passed on yet
    std::size_t ended = 0;  // bytes of `held` up to its last line end
    TimePoint changed{};    // time of the last text added
  };

  bool full() const { return output_.size() - taken_ >= settings_.backlog; }
  bool is_writing(StreamId stream) const { return mid_line_ && writer_ == stream; }
  bool must_wait(StreamId stream, TimePoint now) const;
  bool time_stands_still() const;
  std::size_t ready_length(const Stream& stream) const;
  bool goes_on_at_once(StreamId id, const Stream& stream, std::size_t unfinished, TimePoint now) const;
  void pass_on(StreamId id, TimePoint now);
  void pass_on_waiting(TimePoint now);
  void settle(StreamId changed, TimePoint now);
  void write(std::optional<StreamId> from, std::string_view text, std::size_t ended, TimePoint now);
  void append(std::optional<StreamId> from, std::string_view text, bool another, TimePoint now);
  void append_frames(std::optional<StreamId> from, std::string_view text, bool another, TimePoint now);
  void leave_line();

  Settings settings_;
  std::map<StreamId, Stream> streams_;
  std::deque<StreamId> waiting_;  // streams with text ready while another has the output; first come first
  StreamId next_{0};
  std::string output_;
  std::size_t taken_ = 0;  // bytes of output_ already written
  // State of the output: in the middle of a line of writer_.
  bool mid_line_ = false;
  bool on_frame_ = false;  // the line holds text that is rewritten with '\r'
  std::optional<StreamId> writer_;
  std::size_t line_length_ = 0;              // length of the unfinished line
  std::optional<TimePoint> reserved_until_;  // the writer has the output to itself; set only in mid-line
};

}  // namespace ddprun::output
