#include "output/line_merger.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::output {

namespace {

constexpr std::size_t k_held_portions = 2;
constexpr std::string_view k_erase_line = "\r\x1b[K";
constexpr std::string_view k_cut_at_width = "\x1b[?7l", k_wrap_at_width = "\x1b[?7h";  // DECAWM

bool ends_piece(char c) { return c == '\n' || c == '\r'; }

// Returns the length up to the last line end, searched from the back, as it is usually there.
std::size_t ended_length(std::string_view text) {
  return static_cast<std::size_t>(text.rend() - std::find_if(text.rbegin(), text.rend(), ends_piece));
}

// Returns the length up to the last '\r' that is not part of the line's end.
std::size_t length_of_frames(std::string_view line, bool whole) {
  const std::size_t end = line.size() - (whole ? (line.ends_with("\r\n") ? 2 : 1) : 0);
  return line.substr(0, end).rfind('\r') + 1;  // npos + 1 is 0
}

}  // namespace

StreamId LineMerger::open(bool interactive, output::LineLabel label) {
  const StreamId id = next_;
  ++next_.value;
  streams_[id].interactive = interactive;
  streams_[id].label = std::move(label);
  return id;
}

void LineMerger::add(StreamId stream, std::string_view text, TimePoint now) {
  Stream& source = streams_.at(stream);
  const std::size_t ended = ended_length(text);
  if (ended > 0 && goes_on_at_once(stream, source, text.size() - ended, now)) {
    write(stream, source.held, 0, now);
    write(stream, text.substr(0, ended), ended, now);
    source.held = text.substr(ended);
    source.changed = now;
    return;
  }
  if (ended > 0) source.ended = source.held.size() + ended;
  source.held += text;
  source.changed = now;
  settle(stream, now);
}

void LineMerger::close(StreamId stream, TimePoint now) {
  streams_.at(stream).closed = true;
  settle(stream, now);
}

void LineMerger::insert(std::string_view lines, TimePoint now) {
  write(std::nullopt, lines, lines.size(), now);
  pass_on_waiting(now);
}

std::optional<TimePoint> LineMerger::next_tick() const {
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint time) { next = next ? std::min(*next, time) : time; };
  const bool stands_still = time_stands_still();
  if (!waiting_.empty() && !stands_still) consider(*reserved_until_);
  for (const auto& [id, stream] : streams_) {
    if (!stream.interactive || stream.held.empty() || stream.waiting) continue;
    const TimePoint idle = stream.changed + settings_.idle;
    if (!reserved_until_ || writer_ == id) {
      consider(idle);
    } else if (!stands_still) {
      consider(std::max(idle, *reserved_until_));
    }
  }
  return next;
}

void LineMerger::tick(TimePoint now) {
  pass_on_waiting(now);
  for (auto& [id, stream] : streams_) {
    const bool idle = stream.interactive && now - stream.changed >= settings_.idle;
    if (!idle || must_wait(id, now)) continue;
    write(id, std::exchange(stream.held, {}), std::exchange(stream.ended, 0), now);
  }
}

void LineMerger::take(std::size_t length, TimePoint now) {
  const bool stood_still = time_stands_still();
  taken_ += length;
  if (taken_ == output_.size()) {
    output_.clear();
    taken_ = 0;
  } else if (taken_ > settings_.backlog) {
    output_.erase(0, std::exchange(taken_, 0));
  }
  if (stood_still && !full() && reserved_until_) {
    reserved_until_ = std::max(*reserved_until_, now + settings_.patience);
  }
  pass_on_waiting(now);
}

bool LineMerger::has_room(StreamId stream) const {
  const auto found = streams_.find(stream);
  return found != streams_.end() && !found->second.closed && !full() &&
         found->second.held.size() < k_held_portions * settings_.long_line;
}

// Reports whether the writer cannot end its line: it is not read while the backlog is full.
bool LineMerger::time_stands_still() const { return full() && line_length_ <= settings_.longest_line; }

bool LineMerger::must_wait(StreamId stream, TimePoint now) const {
  if (!reserved_until_ || writer_ == stream) return false;
  return time_stands_still() || now < *reserved_until_;
}

std::size_t LineMerger::ready_length(const Stream& stream) const {
  const std::size_t unfinished = stream.held.size() - stream.ended;
  return stream.closed || unfinished > settings_.long_line ? stream.held.size() : stream.ended;
}

// Reports whether a text can be passed on at once, as settle() would, but without a copy. On a terminal the
// parts of a line are looked at together.
bool LineMerger::goes_on_at_once(StreamId id, const Stream& stream, std::size_t unfinished,
                                 TimePoint now) const {
  return waiting_.empty() && stream.ended == 0 && !stream.closed && !settings_.terminal &&
         unfinished <= settings_.long_line && !must_wait(id, now);
}

void LineMerger::pass_on(StreamId id, TimePoint now) {
  Stream& stream = streams_.at(id);
  const std::size_t length = ready_length(stream);
  if (length > 0 && must_wait(id, now)) {
    if (!std::exchange(stream.waiting, true)) waiting_.push_back(id);
    return;
  }
  if (length > 0) {
    write(id, std::string_view(stream.held).substr(0, length), stream.ended, now);
    stream.held.erase(0, length);
    stream.ended = 0;
    const bool renewed = !reserved_until_ || line_length_ <= settings_.longest_line;
    if (mid_line_ && renewed) reserved_until_ = now + settings_.patience;
  }
  if (!stream.closed) return;
  if (is_writing(id)) reserved_until_.reset();
  streams_.erase(id);
}

void LineMerger::pass_on_waiting(TimePoint now) {
  while (!waiting_.empty() && !must_wait(waiting_.front(), now)) {
    const StreamId first = waiting_.front();
    waiting_.pop_front();
    streams_.at(first).waiting = false;
    pass_on(first, now);
  }
}

void LineMerger::settle(StreamId changed, TimePoint now) {
  // A stream in the middle of a line goes first: its end lets the others continue.
  const bool was_writing = is_writing(changed);
  if (was_writing) pass_on(changed, now);
  pass_on_waiting(now);
  if (!was_writing && streams_.contains(changed)) pass_on(changed, now);
}

void LineMerger::append(std::optional<StreamId> from, std::string_view text, bool another, TimePoint now) {
  Stream* const stream = from ? &streams_.at(*from) : nullptr;
  if (stream == nullptr || stream->label.empty()) {
    output_ += text;
    return;
  }
  if (another) stream->labeller.interrupt();
  const auto since_1970 =
      std::chrono::duration_cast<Milliseconds>(now.time_since_epoch()) + settings_.wall_clock;
  stream->labeller.append(output_, text, stream->label.at(since_1970 % std::chrono::hours(24)));
}

// Appends frames. One that is longer than the terminal is wide would be two lines, of which '\r' rewrites
// one.
void LineMerger::append_frames(std::optional<StreamId> from, std::string_view text, bool another,
                               TimePoint now) {
  bool& rewrites = from ? streams_.at(*from).rewrites : on_frame_;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    const bool whole = line.ends_with('\n');
    const std::size_t frames = length_of_frames(line, whole);
    rewrites = !whole && (rewrites || frames > 0);
    const std::size_t cut = rewrites ? line.size() : frames;
    if (cut > 0) {
      output_ += k_cut_at_width;
      append(from, line.substr(0, cut), std::exchange(another, false), now);
      output_ += k_wrap_at_width;
    }
    if (cut < line.size()) append(from, line.substr(cut), std::exchange(another, false), now);
    text.remove_prefix(end);
  }
  on_frame_ = rewrites;
}

// Leaves the line: another stream writes next.
void LineMerger::leave_line() {
  if (on_frame_)
    output_ += k_erase_line;
  else if (mid_line_)
    output_ += '\n';
  on_frame_ = false;
}

// Writes a text. `ended`: its length up to its last line end.
void LineMerger::write(std::optional<StreamId> from, std::string_view text, std::size_t ended,
                       TimePoint now) {
  if (text.empty()) return;
  const bool another = writer_ != from;
  if (another) leave_line();
  settings_.terminal ? append_frames(from, text, another, now) : append(from, text, another, now);
  const bool continues = mid_line_ && !another && ended == 0;
  line_length_ = (continues ? line_length_ : 0) + text.size() - ended;
  mid_line_ = line_length_ > 0;
  writer_ = from;
  if (another || !mid_line_) reserved_until_.reset();
}

}  // namespace ddprun::output
