// Random schedules of writers, pipes, a sink and time around a LineMerger, as the pump drives it.
//
// DDPRUN_TEST_SEED repeats one schedule, DDPRUN_TEST_SCHEDULES sets how many there are.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "catch.hpp"
#include "output/line_merger.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

constexpr std::size_t k_long_line = 8;
constexpr std::size_t k_longest_line = 64;
constexpr std::size_t k_pipe = 24;
constexpr std::size_t k_read = 16;
constexpr int k_most_steps = 100'000;

LineMerger::Settings small_sizes() {
  LineMerger::Settings settings;
  settings.long_line = k_long_line;
  settings.longest_line = k_longest_line;
  settings.backlog = 40;
  return settings;
}

bool is_end(char c) { return c == '\n' || c == '\r'; }

struct Writer {
  StreamId id{};
  bool interactive = false;
  bool ends = true;  // else it stays open and silent after its last byte
  std::string text;
  std::size_t written = 0;
  std::string pipe;
  bool closed = false;  // the merger was told of its end

  bool can_write() const { return written < text.size() && pipe.size() < k_pipe; }
  bool has_ended() const { return ends && written == text.size(); }
};

// `calm`: whatever a writer may do it does at once, every line has an end and ddprun says nothing. Then no
// line may be torn, however slowly the output is taken.
class Schedule {
 public:
  Schedule(std::uint64_t seed, bool calm) : random_(seed), calm_(calm), merger_(small_sizes()) {
    const int writers = 1 + below(4);
    for (int i = 0; i < writers; ++i) writers_.push_back(make_writer(i));
  }

  void run() {
    while (steps_ < k_most_steps && step()) ++steps_;
    REQUIRE(steps_ < k_most_steps);
    check_everything_came();
  }

 private:
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  std::size_t size_below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }
  bool one_in(int times) { return below(times) == 0; }

  Writer make_writer(int number) {
    Writer writer;
    writer.interactive = !calm_ && one_in(3);
    writer.ends = calm_ || !one_in(3);
    writer.id = merger_.open(writer.interactive);
    const int lines = below(12);
    for (int line = 0; line < lines; ++line) {
      const int length = 1 + (one_in(3) ? below(60) : below(8));
      // Letters that are this writer's own.
      for (int i = 0; i < length; ++i) writer.text += static_cast<char>('a' + 3 * number + below(3));
      writer.text += one_in(4) ? '\r' : '\n';
    }
    if (!calm_ && one_in(2))
      writer.text += std::string(1 + size_below(20), static_cast<char>('a' + 3 * number));
    return writer;
  }

  // One event; false: nothing can ever happen any more.
  bool step() {
    for (int tries = 0; tries < 20; ++tries) {
      Writer& writer = writers_[size_below(writers_.size())];
      const int kind = below(calm_ ? 5 : 9);
      if (kind < 2 && write(writer)) return true;
      if (kind < 4 && kind >= 2 && read(writer)) return true;
      if (kind == 4 && !calm_ && finish(writer)) return true;
      if (kind == 5 && take()) return true;
      if (kind == 6 && one_in(5)) return insert();
      if (kind == 7) now_ += Milliseconds(below(700));
      if (kind == 8 && one_in(3)) tick_if_due();
    }
    for (Writer& writer : writers_) {
      if (write(writer) || read(writer)) return true;
    }
    if (calm_) now_ += Milliseconds(merger_.output().size() >= 40 ? 5000 : 0);
    return take() || wait_for_tick();
  }

  bool write(Writer& writer) {
    if (!writer.can_write()) return false;
    const std::size_t most = std::min(k_pipe - writer.pipe.size(), writer.text.size() - writer.written);
    const std::size_t length = 1 + size_below(most);
    writer.pipe += writer.text.substr(writer.written, length);
    writer.written += length;
    return true;
  }

  bool read(Writer& writer) {
    if (writer.closed || !merger_.has_room(writer.id)) return false;
    if (writer.pipe.empty()) return close(writer);
    const std::string text = writer.pipe.substr(0, k_read);
    writer.pipe.erase(0, text.size());
    merger_.add(writer.id, text, now_);
    return true;
  }

  bool close(Writer& writer) {
    if (writer.closed || !writer.has_ended()) return false;
    writer.closed = true;
    merger_.close(writer.id, now_);
    return true;
  }

  // What a worker left in its pipe is read at its end without asking for room.
  bool finish(Writer& writer) {
    if (writer.closed || !writer.has_ended()) return false;
    if (!writer.pipe.empty()) merger_.add(writer.id, std::exchange(writer.pipe, {}), now_);
    return close(writer);
  }

  bool take() {
    const std::size_t size = merger_.output().size();
    if (size == 0) return false;
    const std::size_t length = one_in(2) ? size : 1 + size_below(size);
    taken_ += merger_.output().substr(0, length);
    merger_.take(length, now_);
    return true;
  }

  bool insert() {
    merger_.insert("#\n", now_);
    return true;
  }

  void tick_if_due() {
    const auto due = merger_.next_tick();
    if (!due || *due > now_) return;
    const std::size_t before = merger_.output().size();
    merger_.tick(now_);
    CHECK(merger_.output().size() > before);  // else the timer would spin
    REQUIRE((!merger_.next_tick() || *merger_.next_tick() > now_));
  }

  bool wait_for_tick() {
    const auto due = merger_.next_tick();
    if (!due) return false;
    now_ = std::max(now_, *due);
    tick_if_due();
    return true;
  }

  void check_everything_came() {
    REQUIRE(merger_.output().empty());
    for (const Writer& writer : writers_) {
      REQUIRE(writer.written == writer.text.size());
      REQUIRE(writer.pipe.empty());
      REQUIRE(writer.closed == writer.ends);
      check_order(writer);
      calm_ ? check_lines(writer) : check_short_lines(writer);
    }
    if (calm_) CHECK(taken_.size() == total_length());
  }

  std::size_t total_length() const {
    std::size_t total = 0;
    for (const Writer& writer : writers_) total += writer.text.size();
    return total;
  }

  bool is_of(const Writer& writer, char c) const {
    const char first = static_cast<char>('a' + 3 * (&writer - writers_.data()));
    return c >= first && c < first + 3;
  }

  // Where this writer's letters are in the output.
  std::vector<std::size_t> places_of(const Writer& writer) const {
    std::vector<std::size_t> places;
    for (std::size_t at = 0; at < taken_.size(); ++at) {
      if (is_of(writer, taken_[at])) places.push_back(at);
    }
    return places;
  }

  void check_order(const Writer& writer) const {
    std::string came;
    for (const std::size_t at : places_of(writer)) came += taken_[at];
    std::string expected = writer.text;
    const std::size_t half = expected.size() - (expected.find_last_of("\r\n") + 1);
    std::erase_if(expected, is_end);
    // A part of the unfinished line of one that lives on is held until it goes on.
    const std::size_t missing = expected.size() - std::min(came.size(), expected.size());
    const bool held = !writer.ends && !writer.interactive && missing <= std::min(half, k_long_line);
    if (held) expected.resize(came.size());
    CHECK(came == expected);
  }

  // Every line that is short enough is in one piece, with its end.
  void check_short_lines(const Writer& writer) const {
    const std::vector<std::size_t> places = places_of(writer);
    std::size_t letter = 0;
    for (std::size_t begin = 0; begin < writer.text.size();) {
      const std::size_t end = writer.text.find_first_of("\r\n", begin);
      if (end == std::string::npos) return;
      const std::size_t length = end - begin;
      if (length <= k_long_line && !writer.interactive) {
        const std::size_t at = places.at(letter);
        CHECK((at == 0 || is_end(taken_[at - 1])));
        CHECK(taken_.compare(at, length + 1, writer.text, begin, length + 1) == 0);
      }
      letter += length;
      begin = end + 1;
    }
  }

  // Every line is in one piece, and nothing was added.
  void check_lines(const Writer& writer) const {
    std::string came;
    for (std::size_t begin = 0; begin < taken_.size();) {
      const std::size_t end = taken_.find_first_of("\r\n", begin) + 1;
      if (is_of(writer, taken_[begin])) came += taken_.substr(begin, end - begin);
      begin = end;
    }
    CHECK(came == writer.text);
  }

  std::mt19937_64 random_;
  bool calm_;
  LineMerger merger_;
  std::vector<Writer> writers_;
  std::string taken_;
  TimePoint now_{};
  int steps_ = 0;
};

void run_schedules(bool calm) {
  const char* fixed = std::getenv("DDPRUN_TEST_SEED");
  const char* asked = std::getenv("DDPRUN_TEST_SCHEDULES");
  const std::uint64_t first = test::seed_from_environment_or_new();
  const std::uint64_t schedules = fixed != nullptr ? 1 : asked != nullptr ? std::stoull(asked) : 400;
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
    INFO("DDPRUN_TEST_SEED=" << seed);
    Schedule(seed, calm).run();
  }
}

}  // namespace

TEST_CASE(
    "in every schedule all text comes out once and in order, short lines whole, and nothing waits for ever") {
  run_schedules(false);
}

TEST_CASE("no line is torn, however slowly the output is taken, where no writer pauses in mid-line") {
  run_schedules(true);
}
