// Folding of the same lines from several ranks within a moment into one block.
// Sixteen ranks that fail on one import show one traceback.
//
// What a stream writes is held until it is quiet (`quiet`), or for `moment` at most, and then is a block: the
// lines up to the last line end. Equal blocks of different streams within `moment` form a group; a group is
// passed on `moment` after its first block, or once every stream is in it. With fewer than `least` members
// each block comes out as it was written.
//
// For each stream its text comes out in its order, once, alone or as the text of a group. Torch's own mark of
// a rank ("[rank3]: ") does not make blocks differ, and is left out of a block that is shown once.
//
// Not held, after everything of its stream that was: a line that is rewritten with '\r' (a progress bar), an
// unfinished line (a prompt) after `quiet`, and blocks longer than `longest`.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"

namespace ddprun::output {

class LineFolder {
 public:
  struct Settings {
    Milliseconds quiet{100};
    Milliseconds moment{300};
    std::size_t longest = std::size_t{64} << 10;  // bytes
    std::size_t least = 3;                        // streams
  };
  struct Piece {
    int stream = 0;          // stream of the text, unless it is of several
    std::vector<int> ranks;  // ranks that wrote it, ascending; empty: one stream's text, as it was
    std::string text;
    bool ended = false;       // no text: nothing more comes of this stream
    std::string differing{};  // output/difference.hpp: describe_kinds() of their texts
    // Copies only: hosts whose ranks are not known, and whose text was shown ("rank 0", "n1").
    std::vector<std::string> hosts{};
    std::string first{};
  };

  LineFolder() = default;
  explicit LineFolder(const Settings& settings) : settings_(settings) {}

  void open(int stream, GlobalRank rank);
  bool has(int stream) const { return streams_.contains(stream); }
  void add(int stream, std::string_view text, TimePoint now);
  void close(int stream, TimePoint now);
  std::optional<TimePoint> next_tick() const;
  void tick(TimePoint now);
  std::vector<Piece> take() { return std::exchange(ready_, {}); }

 private:
  struct Stream {
    GlobalRank rank;
    std::string held{};
    TimePoint first{};  // arrival of the held text
    TimePoint changed{};
    bool closed = false;
    int groups = 0;  // groups that it is in
  };
  struct Member {
    int stream;
    std::string text;
  };
  struct Group {
    std::string key;
    TimePoint due;
    std::vector<Member> members;
    bool has(int stream) const;
  };

  TimePoint cut_at(const Stream& stream) const;
  void cut(int id, TimePoint now);
  void pass_through(int id);
  void join(int id, std::string text, TimePoint now);
  void release_first();
  void release_due(TimePoint now);
  void forget_ended(int id);

  Settings settings_;
  std::map<int, Stream> streams_;
  std::deque<Group> groups_;  // the oldest first
  std::vector<Piece> ready_;
};

// Returns a text without torch's "[rank3]: " in front of its lines.
std::string without_rank(const std::string& text, GlobalRank rank);
bool is_rewritten(std::string_view text);  // has a '\r' that is no part of a line end

// Returns the lines of a text that these ranks have written: "[0-15] ...", whole.
std::string describe_alike(const std::vector<int>& ranks, std::string_view text);

// Returns "0-15", "0, 2-3".
std::string describe_rank_list(const std::vector<int>& ascending);

}  // namespace ddprun::output
