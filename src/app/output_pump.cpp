#include "ddprun/app/output_pump.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "ddprun/os/descriptors.hpp"

namespace ddprun {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t k_read_size = std::size_t{64} * 1024;  // a pipe's usual capacity
// How often a stream whose worker has ended looks whether it may be read again.
constexpr Milliseconds k_blocked_retry{50};
constexpr std::size_t k_pending_limit = std::size_t{256} * 1024;

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

struct OutputPump::Source {
  Source(asio::io_context& context, int descriptor) : reader(context, descriptor), grace_timer(context) {}

  StreamId id;
  asio::posix::stream_descriptor reader;
  asio::steady_timer grace_timer;
  bool waiting = false;  // for something to read
  std::function<void()> ended;
};

OutputPump::OutputPump(asio::io_context& context, int output, const LineMerger::Settings& settings)
    : context_(context),
      sink_(output),
      sink_watch_(context),
      tick_timer_(context),
      drain_timer_(context),
      merger_(settings),
      buffer_(k_read_size) {
  if (sink_.watch()) sink_watch_.assign(duplicate(sink_.watch().get()).release());
}

StreamId OutputPump::add(Fd reader, bool interactive) {
  // The pipe is ours alone, so it may be non-blocking; the worker's end is another open file and stays as it
  // is.
  auto source = std::make_shared<Source>(context_, reader.release());
  source->reader.non_blocking(true);
  source->id = merger_.open(interactive);
  sources_.emplace(source->id, source);
  arm(source);
  return source->id;
}

void OutputPump::finish(StreamId stream, Milliseconds grace, std::function<void()> ended) {
  const auto found = sources_.find(stream);
  if (found == sources_.end()) {
    asio::post(context_, std::move(ended));
    return;
  }
  found->second->ended = std::move(ended);
  wait_for_grace(found->second, grace);
}

void OutputPump::insert(std::string_view lines) {
  merger_.insert(lines);
  advance();
}

void OutputPump::when_drained(Milliseconds limit, std::function<void(bool)> handler) {
  drained_ = std::move(handler);
  drain_timer_.expires_after(limit);
  drain_timer_.async_wait([this](const error_code& error) {
    if (!error && drained_) std::exchange(drained_, nullptr)(false);
  });
  asio::post(context_, [this] { check_drained(); });
}

bool OutputPump::may_read(const Source& source) const {
  return pending_.size() - written_ < k_pending_limit && merger_.has_room(source.id);
}

void OutputPump::arm(const SourcePointer& source) {
  if (source->waiting || !source->reader.is_open() || !may_read(*source)) return;
  source->waiting = true;
  source->reader.async_wait(asio::posix::descriptor_base::wait_read, [this, source](const error_code& error) {
    source->waiting = false;
    if (error || !source->reader.is_open()) return;
    read_once(source);
    arm(source);
  });
}

void OutputPump::arm_all() {
  for (const auto& [id, source] : sources_) arm(source);
}

void OutputPump::read_once(const SourcePointer& source) {
  error_code error;
  const std::size_t length = source->reader.read_some(asio::buffer(buffer_), error);
  if (error == asio::error::would_block) return;
  if (error) {
    end(source);
    return;
  }
  merger_.add(source->id, {buffer_.data(), length}, now());
  advance();
}

void OutputPump::wait_for_grace(const SourcePointer& source, Milliseconds grace) {
  source->grace_timer.expires_after(grace);
  source->grace_timer.async_wait([this, source, grace](const error_code& error) {
    if (error || !source->reader.is_open()) return;
    if (!may_read(*source)) {
      wait_for_grace(source, std::max(grace, k_blocked_retry));
      return;
    }
    read_once(source);
    if (source->reader.is_open()) end(source);
  });
}

void OutputPump::end(const SourcePointer& source) {
  source->reader.close();
  source->grace_timer.cancel();
  sources_.erase(source->id);
  merger_.close(source->id, now());
  if (source->ended) asio::post(context_, std::move(source->ended));
  advance();
}

void OutputPump::advance() {
  write_out();
  schedule_tick();
  check_drained();
}

void OutputPump::write_out() {
  pending_ += merger_.take_output();
  if (waiting_ || pending_.empty()) return;
  written_ += sink_.write(std::string_view(pending_).substr(written_));
  if (sink_.error() != 0 && failing_) {
    asio::post(context_,
               [handler = std::exchange(failing_, nullptr), error = sink_.error()] { handler(error); });
  }
  if (written_ == pending_.size()) {
    pending_.clear();
    written_ = 0;
    return;
  }
  if (written_ > k_pending_limit) pending_.erase(0, std::exchange(written_, 0));
  waiting_ = true;
  sink_watch_.async_wait(asio::posix::descriptor_base::wait_read, [this](const error_code& error) {
    waiting_ = false;
    if (error) return;
    advance();
    arm_all();
  });
}

void OutputPump::schedule_tick() {
  const auto next = merger_.next_tick();
  if (next == tick_at_) return;
  tick_at_ = next;
  tick_timer_.cancel();
  if (!next) return;
  tick_timer_.expires_at(*next);
  tick_timer_.async_wait([this](const error_code& error) {
    if (error) return;
    tick_at_.reset();
    merger_.tick(now());
    advance();
    arm_all();
  });
}

void OutputPump::check_drained() {
  if (!drained_ || !sources_.empty() || !pending_.empty()) return;
  drain_timer_.cancel();
  asio::post(context_, [handler = std::exchange(drained_, nullptr)] { handler(true); });
}

}  // namespace ddprun
