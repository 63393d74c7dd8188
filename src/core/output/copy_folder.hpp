// Folding of equal text of several streams.
// The first stream's text is shown at once, and copies of it within a moment are one line that names their
// ranks.
//
// A block is what a stream writes until it is quiet and its last line is whole (Python's print() writes the
// end of a line by itself), or longer while it is a traceback without its last line, which a loaded machine
// writes with pauses. Text that begins like a block that another stream has written within `recent` is
// held while it may still become the same, for `held` at most; at the block's end it is a copy, or is shown
// as it was written. Nothing else is held, so a rank that writes what nobody else does is never late. Copies
// are told of `moment` after the last, or when no stream is left. A block that fewer than `least` streams
// have written, the first one counted, is shown as often as it was written; but a traceback that was shown
// within `recent` is never shown again where there are so many streams, as late as its copies may come.
//
// A stream may be all that a host's ranks write (open_host). Its blocks are tracebacks, of the rank whose
// mark they bear, else of a rank of that host.
//
// What differs by nature (difference.hpp) does not make blocks differ. Never held: a line that is rewritten
// with '\r', and more than `longest` bytes.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "output/difference.hpp"
#include "output/line_folder.hpp"
#include "output/traceback.hpp"

namespace ddprun::output {

class CopyFolder {
 public:
  // Kinds of blocks that may be copies: all, or those that begin with a traceback of Python, if a stream has
  // its rank's standard output as well.
  enum class Blocks { all, tracebacks };
  struct Settings {
    Milliseconds quiet{100};
    Milliseconds held{300};
    Milliseconds unfinished{3000};  // `quiet` and `held` of a traceback that lacks its last line
    Milliseconds recent{10000};     // ranks that fail alike differ by what a loaded machine makes of it
    Milliseconds moment{500};
    std::size_t longest = std::size_t{16} << 10;  // bytes
    std::size_t least = 3;
  };

  void open(int stream, GlobalRank rank, Blocks blocks = Blocks::all);
  void open_host(int stream, const std::string& host);
  bool has(int stream) const { return streams_.contains(stream); }
  void add(int stream, std::string_view text, TimePoint now);
  void close(int stream, TimePoint now);
  std::optional<TimePoint> next_tick() const;
  void tick(TimePoint now);
  // Takes the pieces. One with `ranks` is the text that they have written after another, except for
  // `differing`.
  std::vector<LineFolder::Piece> take() { return std::exchange(ready_, {}); }

 private:
  struct Copy {
    int stream;
    GlobalRank rank;
    std::string text;
    std::vector<Difference> parts;
  };
  struct Block {  // a block that is shown
    int stream;
    GlobalRank rank;
    std::string host{};
    std::string text{};
    Comparable lines{};     // comparable form of its whole lines
    std::size_t whole = 0;  // bytes of `text` that these are
    TimePoint changed;
    std::vector<Copy> copies{};
    TimePoint first_copy{};
    TimePoint due{};     // time to report the copies
    bool told = false;   // copies were reported
    bool ended = false;  // text that its stream writes next is no part of it
  };
  struct Stream {
    GlobalRank rank;
    Blocks blocks;
    std::string host{};            // empty: the stream is of one rank
    TracebackSplitter splitter{};  // parts of a host's stream
    std::string held{};
    TimePoint first{};  // arrival of the held text
    TimePoint changed{};
    TimePoint not_before{};  // it is cut: the first of its kind is not whole yet
    bool fresh = true;       // its next text begins a line
    bool closed = false;
    int copies = 0;  // its copies in blocks
  };

  void add_part(int id, std::string_view text, TimePoint now);
  void end_block(int id, TimePoint now);
  TimePoint cut_at(const Stream& stream) const;
  bool is_told(const Block& block) const;
  bool is_ahead(int id, const Stream& stream) const;
  bool may_be_copy(int id, const Stream& stream, TimePoint now) const;
  static bool is_like(const Stream& stream, const std::string& key, const Block& block);
  void cut(int id, TimePoint now);
  void show(int id, TimePoint now);
  void note_shown(int id, std::string_view text, TimePoint now);
  void add_copy(Block& block, int id, std::vector<Difference> parts, TimePoint now);
  static void append(Block& block, std::string_view text);
  void release(Block& block);
  void release_if_last(TimePoint now);
  void cut_all(const std::function<bool(const Stream&)>& due, TimePoint now);
  void release_own(int id);
  void forget_old(TimePoint now);
  void forget_ended(int id);

  Settings settings_;
  std::map<int, Stream> streams_;
  std::size_t opened_ = 0;    // streams, so far
  std::deque<Block> blocks_;  // the oldest first
  std::vector<LineFolder::Piece> ready_;
};

// One line: "[1-15] the same 12 lines as rank 0: ModuleNotFoundError: No module named 'torch'", "[1,3-7] the
// same 9 lines as rank 0 but for the port: ...".
std::string describe_copies(const LineFolder::Piece& copies);

}  // namespace ddprun::output
