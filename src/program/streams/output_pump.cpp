#include "streams/output_pump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "event_loop/handlers.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/system_failure.hpp"
#include "os/terminal/terminal.hpp"

namespace ddprun::streams {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr Milliseconds k_copy_pause{10};                      // pause before a look at a copy that is behind
constexpr std::size_t k_read_size = std::size_t{256} * 1024;  // a connection may have more than a pipe

bool knows_escapes(int output) {
  const char* const kind = ::getenv("TERM");
  return os::is_terminal(output) && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

output::LineMerger::Settings complete(output::LineMerger::Settings settings, int output) {
  settings.terminal = knows_escapes(output);
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  settings.wall_clock = std::chrono::duration_cast<Milliseconds>(since_1970 - os::now().time_since_epoch());
  return settings;
}

}  // namespace

struct OutputPump::Source {
  Source(asio::io_context& context, int descriptor, std::size_t remembered)
      : reader(context, descriptor), grace_timer(context), tail(remembered) {}

  output::StreamId id;
  asio::posix::stream_descriptor reader;
  asio::steady_timer grace_timer;
  output::LineTail tail;
  StreamTreatment treatment;
  std::optional<output::LineRate> rate;
  bool waiting = false;  // waits for something to read
  bool heard = false;    // something was read
  TimePoint last_read;   // time of the last read
  bool closing = false;  // at the end of the grace
  bool forgotten = false;
  std::vector<std::function<void()>> due;  // calls for when its last lines are known
};

OutputPump::OutputPump(asio::io_context& context, int output, const output::LineMerger::Settings& settings)
    : context_(context),
      sink_(output),
      sink_watch_(context),
      tick_timer_(context),
      drain_timer_(context),
      silence_timer_(context),
      merger_(complete(settings, output)),
      buffer_(std::make_unique_for_overwrite<char[]>(k_read_size)) {
  if (sink_.watch()) sink_watch_.assign(os::duplicate(sink_.watch().get()).release());
}

output::StreamId OutputPump::add(os::Fd reader, bool interactive, std::size_t remembered,
                                 StreamTreatment treatment, std::string_view begun) {
  // The pipe is ours alone, so it may be non-blocking; the worker's end is another open file and stays as it
  // is.
  auto source = std::make_shared<Source>(context_, reader.release(), remembered);
  source->reader.non_blocking(true);
  source->id = merger_.open(interactive, treatment.label);
  source->treatment = std::move(treatment);
  open_fold(*source);
  if (source->treatment.rate > 0) source->rate.emplace(source->treatment.rate);
  sources_.emplace(source->id, source);
  ++open_;
  // Arms the new source alone: settling would look at all others for each of many.
  if (begun.empty()) {
    arm(source);
  } else {
    take(source, begun);
    settle();
  }
  return source->id;
}

void OutputPump::finish(output::StreamId stream, Milliseconds grace, std::function<void()> known) {
  const auto found = sources_.find(stream);
  if (found == sources_.end()) {
    asio::post(context_, std::move(known));
    return;
  }
  const SourcePointer source = found->second;
  source->due.push_back(std::move(known));
  wait_for_grace(source, grace);
}

void OutputPump::close(output::StreamId stream, Milliseconds grace, std::function<void()> closed) {
  if (const auto found = sources_.find(stream); found != sources_.end()) found->second->closing = true;
  finish(
      stream, grace, closed ? std::move(closed) : [] {});
}

void OutputPump::forget(output::StreamId stream) {
  const auto found = sources_.find(stream);
  if (found == sources_.end()) return;
  found->second->forgotten = true;
  if (!found->second->reader.is_open()) tell(found->second);
}

void OutputPump::end_silent(Milliseconds patience, bool in_any_case) {
  silence_timer_.expires_after(patience);
  silence_timer_.async_wait([this, patience, in_any_case](const error_code& error) {
    if (error || open_ == 0) return;
    if (!in_any_case && is_busy(patience)) return end_silent(patience, false);
    if (!may_lose_hosts_) cut_off_ = open_;
    for (const auto& [id, source] : std::map(sources_)) {
      if (source->reader.is_open()) close(id, Milliseconds{0});
    }
  });
}

void OutputPump::reopen(int output) {
  ++opened_;
  waiting_ = false;
  sink_watch_.close();
  sink_ = os::OutputSink(output);
  if (sink_.watch()) sink_watch_.assign(os::duplicate(sink_.watch().get()).release());
  settle();
}

void OutputPump::insert(std::string_view lines) {
  merger_.insert(lines, os::now());
  settle();
}

void OutputPump::when_read(std::function<void()> handler) {
  read_ = std::move(handler);
  check_ended();
}

void OutputPump::when_drained(std::optional<Milliseconds> limit, std::function<void(bool)> handler) {
  drained_ = std::move(handler);
  drain_timer_.cancel();
  if (limit) {
    drain_timer_.expires_after(*limit);
    drain_timer_.async_wait([this](const error_code& error) {
      if (!error && drained_) std::exchange(drained_, nullptr)(false);
    });
  }
  check_ended();
}

std::vector<std::string> OutputPump::last_lines(output::StreamId stream) const {
  const auto found = sources_.find(stream);
  return found == sources_.end() ? std::vector<std::string>() : found->second->tail.lines();
}

std::string OutputPump::why_incomplete() const {
  if (sink_.lost() != 0) return os::describe_errno(sink_.lost());
  if (unreadable_ != 0) return "cannot read the output: " + os::describe_errno(unreadable_);
  if (cut_off_ > 0)
    return fmt::format("{} of other hosts did not end",
                       count_of(static_cast<std::int64_t>(cut_off_), "stream"));
  if (const std::size_t unwritten = merger_.output().size(); unwritten > 0) {
    return fmt::format("its last {} bytes were not read", unwritten);
  }
  return {};
}

std::optional<TimePoint> OutputPump::last_read(output::StreamId stream) const {
  const auto found = sources_.find(stream);
  if (found == sources_.end() || !found->second->heard) return std::nullopt;
  return found->second->last_read;
}

bool OutputPump::is_busy(Milliseconds within) const {
  return !merger_.output().empty() || os::now() - last_read_ < within;
}

void OutputPump::settle() {
  write_out();
  arm_all();
  schedule_tick();
  check_ended();
}

void OutputPump::write_out() {
  while (!waiting_ && !merger_.output().empty()) {
    const std::size_t offered = merger_.output().size();
    if (before_writing_) before_writing_();
    const std::size_t taken = sink_.write(merger_.output());
    if (taken > 0) at_line_start_ = merger_.output()[taken - 1] == '\n';
    merger_.take(taken, os::now());
    if (taken == offered) continue;
    waiting_ = true;
    sink_watch_.async_wait(asio::posix::descriptor_base::wait_read,
                           [this, sink = opened_](const error_code& error) {
                             if (sink != opened_) return;
                             waiting_ = false;
                             if (!event_loop::is_cancelled(error, "the reader of the output")) settle();
                           });
  }
  if (sink_.error() != 0 && failing_) {
    asio::post(context_,
               [handler = std::exchange(failing_, nullptr), error = sink_.error()] { handler(error); });
  }
}

void OutputPump::arm_all() {
  for (const auto& [id, source] : sources_) arm(source);
}

bool OutputPump::is_behind(const Source& source) const {
  return source.reader.is_open() && source.treatment.is_behind && source.treatment.is_behind();
}

bool OutputPump::wants(const Source& source) const {
  if (is_behind(source)) return false;
  return !source.treatment.shown || merger_.has_room(source.id);
}

void OutputPump::arm(const SourcePointer& source) {
  if (source->waiting || !source->reader.is_open() || !wants(*source)) return;
  source->waiting = true;
  source->reader.async_wait(asio::posix::descriptor_base::wait_read, [this, source](const error_code& error) {
    source->waiting = false;
    if (event_loop::is_cancelled(error, "what the workers write") || !source->reader.is_open()) return;
    if (wants(*source)) read_once(source);
    settle();
  });
}

void OutputPump::open_fold(const Source& source) {
  using Fold = StreamTreatment::Fold;
  const int id = source.id.value;
  const StreamTreatment& treatment = source.treatment;
  if (treatment.fold == Fold::alike) folder_.open(id, treatment.rank);
  if (treatment.fold == Fold::copies) copies_.open(id, treatment.rank);
  if (treatment.fold == Fold::copied_tracebacks)
    copies_.open(id, treatment.rank, output::CopyFolder::Blocks::tracebacks);
  if (treatment.fold == Fold::host_tracebacks) copies_.open_host(id, treatment.name);
}

void OutputPump::show(Source& source, std::string_view text) {
  if (!source.rate) return fold(source, text);
  tell_left_out(source, last_read_);
  fold(source, source.rate->add(text, last_read_));
}

void OutputPump::fold(const Source& source, std::string_view text) {
  if (text.empty()) return;
  const int id = source.id.value;
  if (folder_.has(id)) {
    folder_.add(id, text, last_read_);
  } else if (copies_.has(id)) {
    copies_.add(id, text, last_read_);
  } else {
    return merger_.add(source.id, text, last_read_);
  }
  pass_on_folded();
}

void OutputPump::pass_on_folded() {
  const TimePoint time = os::now();
  const auto pass_on = [&](const output::LineFolder::Piece& piece, const auto& describe) {
    const output::StreamId stream{piece.stream};
    if (piece.ended) {
      merger_.close(stream, time);
    } else if (piece.ranks.empty() && piece.hosts.empty()) {
      merger_.add(stream, piece.text, time);
    } else {
      merger_.insert(describe(piece), time);
    }
  };
  for (const auto& piece : folder_.take())
    pass_on(piece, [](const auto& each) { return output::describe_alike(each.ranks, each.text); });
  for (const auto& piece : copies_.take()) pass_on(piece, output::describe_copies);
}

// Inserts a line where output is missing from what is shown.
void OutputPump::tell_left_out(Source& source, TimePoint time) {
  if (!source.rate) return;
  const auto left_out = source.reader.is_open() ? source.rate->take_left_out(time) : source.rate->take_rest();
  if (!left_out || left_out->bytes == 0) return;
  merger_.insert(fmt::format("ddprun: {}\n", output::describe_left_out(*left_out, source.treatment.name)),
                 time);
}

std::optional<TimePoint> OutputPump::next_tick() const {
  std::optional<TimePoint> next;
  const auto consider = [&](std::optional<TimePoint> time) {
    if (time) next = next ? std::min(*next, *time) : *time;
  };
  consider(merger_.next_tick());
  consider(folder_.next_tick());
  consider(copies_.next_tick());
  for (const auto& [id, source] : sources_) {
    if (source->rate && source->reader.is_open()) consider(source->rate->next_tick());
    if (is_behind(*source)) consider(os::now() + k_copy_pause);
  }
  return next;
}

void OutputPump::schedule_tick() {
  const auto next = next_tick();
  if (next == tick_at_) return;
  tick_at_ = next;
  tick_timer_.cancel();
  if (!next) return;
  tick_timer_.expires_at(*next);
  tick_timer_.async_wait([this](const error_code& error) {
    if (!error) tick();
  });
}

void OutputPump::tick() {
  tick_at_.reset();
  std::vector<SourcePointer> readable;
  for (const auto& [id, source] : sources_) {
    const bool open = source->reader.is_open();  // folded lines outlive it
    if (open && source->treatment.shown && wants(*source)) readable.push_back(source);
  }
  // Bytes written in time count, even if we come late.
  for (const SourcePointer& source : readable) read_once(source);
  folder_.tick(os::now());
  copies_.tick(os::now());
  for (const auto& [id, source] : sources_) tell_left_out(*source, os::now());
  pass_on_folded();
  merger_.tick(os::now());
  settle();
}

void OutputPump::check_ended() {
  if (open_ > 0 || merger_.streams() > 0) return;
  if (read_) asio::post(context_, std::exchange(read_, nullptr));
  if (!drained_ || !merger_.output().empty()) return;
  drain_timer_.cancel();
  asio::post(context_, [handler = std::exchange(drained_, nullptr)] { handler(true); });
}

// Returns the number of bytes read; 0: nothing is there now, or the stream has ended.
std::size_t OutputPump::read_once(const SourcePointer& source) {
  error_code error;
  const std::size_t length = source->reader.read_some(asio::buffer(buffer_.get(), k_read_size), error);
  if (error == asio::error::would_block) return 0;
  if (error) {
    const bool of_lost_host = may_lose_hosts_ && source->forgotten;
    if (error != asio::error::eof && !of_lost_host) unreadable_ = error.value();
    end(source);
    return 0;
  }
  take(source, std::string_view(buffer_.get(), length));
  return length;
}

void OutputPump::take(const SourcePointer& source, std::string_view text) {
  if (text.empty()) return;
  if (!std::exchange(source->heard, true) && heard_) heard_(source->id);
  source->tail.add(text);
  source->last_read = last_read_ = os::now();
  if (source->treatment.copy) source->treatment.copy(text);
  if (source->treatment.shown) show(*source, text);
}

// Reads all that is in the pipe now; no more, since a descendant of the worker may write for ever.
void OutputPump::read_rest(const SourcePointer& source) {
  std::size_t left = os::pipe_capacity(source->reader.native_handle());
  while (left > 0) {
    const std::size_t length = read_once(source);
    if (length == 0) return;
    left -= std::min(left, length);
  }
}

void OutputPump::wait_for_grace(const SourcePointer& source, Milliseconds grace) {
  if (source->reader.is_open()) read_rest(source);
  if (!source->reader.is_open()) {
    tell(source);
    settle();
    return;
  }
  source->grace_timer.expires_after(grace);
  source->grace_timer.async_wait([this, source](const error_code& error) {
    if (error || !source->reader.is_open()) return;
    read_rest(source);
    if (source->closing && source->reader.is_open()) end(source);
    tell(source);
    settle();
  });
  settle();
}

void OutputPump::end(const SourcePointer& source) {
  source->reader.close();
  source->grace_timer.cancel();
  source->treatment.is_behind = nullptr;  // this keeps the copy open
  if (const auto copy = std::exchange(source->treatment.copy, nullptr)) copy({});
  --open_;
  tell_left_out(*source, os::now());
  const int id = source->id.value;
  if (folder_.has(id)) {
    folder_.close(id, os::now());
  } else if (copies_.has(id)) {
    copies_.close(id, os::now());
  } else {
    merger_.close(source->id, os::now());
  }
  pass_on_folded();
  tell(source);
}

void OutputPump::tell(const SourcePointer& source) {
  for (auto& call : std::exchange(source->due, {})) asio::post(context_, std::move(call));
  if (!source->forgotten || source->reader.is_open()) return;
  asio::post(context_, [this, id = source->id] { sources_.erase(id); });
}

std::vector<std::string> describe_losses(const OutputPump& output, const OutputPump& error,
                                         const std::string& host) {
  std::vector<std::string> sentences;
  const auto look = [&](const OutputPump& pump, std::string_view name) {
    if (const std::string why = pump.why_incomplete(); !why.empty()) {
      sentences.push_back(fmt::format("{} on {} is incomplete: {}", name, host, why));
    }
  };
  look(output, "standard output");
  if (&error != &output) look(error, "standard error");
  return sentences;
}

}  // namespace ddprun::streams
