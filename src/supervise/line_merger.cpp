#include "ddprun/supervise/line_merger.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

constexpr std::size_t k_held_portions = 2;

bool ends_piece(char c) { return c == '\n' || c == '\r'; }

}  // namespace

StreamId LineMerger::open(bool interactive) {
  const StreamId id = next_;
  ++next_.value;
  Stream stream;
  stream.interactive = interactive;
  stream.tail = LineTail(settings_.remembered_lines);
  streams_.emplace(id, std::move(stream));
  return id;
}

void LineMerger::add(StreamId stream, std::string_view text, TimePoint now) {
  Stream& source = streams_.at(stream);
  source.held += text;
  source.changed = now;
  source.tail.add(text);
  pass_on_all(now);
}

void LineMerger::close(StreamId stream, TimePoint now) {
  streams_.at(stream).closed = true;
  if (writer_ == stream) reserved_until_ = TimePoint::min();
  pass_on_all(now);
}

void LineMerger::forget(StreamId stream) { streams_.erase(stream); }

void LineMerger::insert(std::string_view lines) { write(std::nullopt, lines); }

std::optional<TimePoint> LineMerger::next_tick() const {
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [id, stream] : streams_) {
    if (stream.held.empty()) continue;
    if (stream.interactive) consider(stream.changed + settings_.idle);
    if (mid_line_ && writer_ != id && ready_length(stream) > 0) consider(reserved_until_);
  }
  return next;
}

void LineMerger::tick(TimePoint now) {
  pass_on_all(now);
  for (auto& [id, stream] : streams_) {
    const bool idle = stream.interactive && now - stream.changed >= settings_.idle;
    if (!idle || stream.held.empty() || must_wait(id, now)) continue;
    write(id, std::exchange(stream.held, {}));
  }
}

std::string LineMerger::take_output() { return std::exchange(output_, {}); }

bool LineMerger::has_room(StreamId stream) const {
  return streams_.at(stream).held.size() < k_held_portions * settings_.long_line;
}

std::vector<std::string> LineMerger::last_lines(StreamId stream) const {
  return streams_.at(stream).tail.lines();
}

bool LineMerger::must_wait(StreamId stream, TimePoint now) const {
  return mid_line_ && writer_ != stream && now < reserved_until_;
}

std::size_t LineMerger::ready_length(const Stream& stream) const {
  const auto last = std::find_if(stream.held.rbegin(), stream.held.rend(), ends_piece);
  const auto pieces = static_cast<std::size_t>(stream.held.rend() - last);
  const std::size_t rest = stream.held.size() - pieces;
  return stream.closed || rest > settings_.long_line ? stream.held.size() : pieces;
}

void LineMerger::pass_on(StreamId id, Stream& stream, TimePoint now) {
  const std::size_t length = ready_length(stream);
  if (length == 0 || must_wait(id, now)) return;
  write(id, std::string_view(stream.held).substr(0, length));
  stream.held.erase(0, length);
  reserved_until_ = mid_line_ && !stream.closed ? now + settings_.patience : TimePoint::min();
}

void LineMerger::pass_on_all(TimePoint now) {
  // Whoever is in the middle of a line goes first: its end lets the others go on.
  if (const auto writer = writer_ ? streams_.find(*writer_) : streams_.end(); writer != streams_.end()) {
    pass_on(writer->first, writer->second, now);
  }
  for (auto& [id, stream] : streams_) pass_on(id, stream, now);
}

void LineMerger::write(std::optional<StreamId> from, std::string_view text) {
  if (text.empty()) return;
  if (mid_line_ && writer_ != from) output_ += '\n';
  output_ += text;
  writer_ = from;
  mid_line_ = !ends_piece(text.back());
}

}  // namespace ddprun
