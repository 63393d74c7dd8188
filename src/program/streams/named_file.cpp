#include "streams/named_file.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "event_loop/handlers.hpp"
#include "os/descriptors.hpp"

namespace ddprun::streams {

namespace {

constexpr std::size_t k_most_kept = std::size_t{1} << 20U;
constexpr Milliseconds k_silence{10000};  // a file server that starts anew may take that long
constexpr const char* k_hangs = "its file system does not answer";
constexpr const char* k_hint =
    "start the reader of a named pipe before ddprun, or name a file on another file system";

}  // namespace

NamedFile::NamedFile(boost::asio::io_context& context, std::string path, Subject subject,
                     os::FileWriter::How how, Say say, os::FileWriter::Merge merge)
    : context_(context),
      path_(std::move(path)),
      subject_(std::move(subject)),
      how_(how),
      say_(std::move(say)),
      merge_(std::move(merge)),
      socket_(context),
      silence_timer_(context),
      limit_timer_(context) {}

bool NamedFile::start() {
  if (ended_ || writer_) return !ended_;
  try {
    writer_ = std::make_unique<os::FileWriter>(path_, how_, merge_);
    socket_.assign(os::duplicate(writer_->socket()).release());
  } catch (const Error& error) {
    say_once(error.what(), "");
    end();
    return false;
  }
  watch_news();
  return true;
}

void NamedFile::write(std::string_view text) {
  if (!start()) return;
  keep(os::FileWriter::frame(text));
  send();
}

// Keeps a text until it is sent. If the file is replaced by each, only the newest counts.
void NamedFile::keep(std::string frame) {
  const bool replaces = how_ == os::FileWriter::How::replace;
  while (replaces && frames_.size() > (sent_ > 0 ? 1U : 0U)) {
    kept_ -= frames_.back().size();
    frames_.pop_back();
    --unanswered_;
  }
  if (!replaces && kept_ + frame.size() > k_most_kept) {
    ++dropped_;
    return;
  }
  kept_ += frame.size();
  frames_.push_back(std::move(frame));
  if (unanswered_++ == 0) note_progress();
}

void NamedFile::send() {
  while (!frames_.empty() && !waiting_for_room_) {
    const std::string& frame = frames_.front();
    const ssize_t taken =
        ::send(writer_->socket(), frame.data() + sent_, frame.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) return errno == EAGAIN ? watch_room() : void();  // its news show that it has left
    sent_ += static_cast<std::size_t>(taken);
    if (sent_ < frame.size()) continue;
    kept_ -= frame.size();
    frames_.pop_front();
    sent_ = 0;
  }
}

void NamedFile::watch_room() {
  waiting_for_room_ = true;
  socket_.async_wait(boost::asio::posix::descriptor_base::wait_write,
                     [this](const boost::system::error_code& error) {
                       waiting_for_room_ = false;
                       if (!error && !ended_) send();
                     });
}

void NamedFile::watch_news() {
  socket_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (ended_ || event_loop::is_cancelled(error, "a file that is written")) return;
                       take_news();
                       if (!ended_) watch_news();
                     });
}

void NamedFile::take_news() {
  while (const auto news = writer_->news()) {
    waits_for_ = news->done ? std::string() : news->problem;
    if (!news->done) continue;
    --unanswered_;
    if (!news->problem.empty()) say_once(news->problem, "");
    note_progress();
  }
  if (!writer_->has_left()) return;
  say_once("the process that writes it has ended", "");
  end();
}

void NamedFile::note_progress() {
  silence_timer_.cancel();
  if (unanswered_ == 0) {
    if (written_) finish();
    return;
  }
  silence_timer_.expires_after(k_silence);
  silence_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !ended_) say_once(waits_for_.empty() ? k_hangs : waits_for_, "; the job continues");
  });
}

void NamedFile::say_once(const std::string& why, const char* rest) {
  if (std::exchange(told_, true)) return;
  say_(fmt::format("cannot write {} {}: {}{}", subject_.file, subject_.where, why, rest),
       *rest == '\0' ? "" : k_hint);
}

void NamedFile::end() {
  ended_ = true;
  silence_timer_.cancel();
  limit_timer_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  writer_.reset();
  if (written_) boost::asio::post(context_, std::exchange(written_, nullptr));
}

// Ends the writing: texts that are not written by now are lost.
void NamedFile::finish() {
  limit_timer_.cancel();
  say_lost();
  if (unanswered_ > 0) return end();
  boost::asio::post(context_, std::exchange(written_, nullptr));
}

void NamedFile::say_lost() {
  const std::size_t lost = unanswered_ + std::exchange(dropped_, 0);
  if (lost == 0) return;
  const std::string why = !waits_for_.empty() ? waits_for_
                          : unanswered_ > 0   ? k_hangs
                                              : "it was written too slowly";
  if (how_ == os::FileWriter::How::replace || subject_.noun.empty()) return say_once(why, "");
  const char* const hint = std::exchange(told_, true) ? "" : k_hint;
  say_(fmt::format("cannot write {} to {}: {}", count_of(static_cast<std::int64_t>(lost), subject_.noun),
                   subject_.where, why),
       hint);
}

void NamedFile::when_written(Milliseconds limit, std::function<void()> handler) {
  if (ended_) return boost::asio::post(context_, std::move(handler));
  written_ = std::move(handler);
  if (unanswered_ == 0) return finish();
  limit_timer_.expires_after(limit);
  limit_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !ended_) finish();
  });
}

using boost::system::error_code;

namespace {

constexpr Milliseconds k_copy_patience{5000};

}  // namespace

FileCopy::FileCopy(boost::asio::io_context& context, os::Fd writer, std::function<void(std::uint64_t)> lost)
    : writer_(context, writer.release()), lost_(std::move(lost)) {
  writer_.non_blocking(true);  // our end is ours alone
}

void FileCopy::add(std::string_view text) {
  if (held_.empty() && !skipping_) text.remove_prefix(write(text));
  if (text.empty()) return;
  keep(text);
  pass_on();
}

bool FileCopy::is_behind(TimePoint now) const {
  return held_.size() > k_limit / 2 && now - progress_ < k_copy_patience;
}

// Keeps text. Only whole lines are lost, except of those longer than the buffer.
void FileCopy::keep(std::string_view text) {
  if (skipping_ && held_.size() < k_limit / 2) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    skipping_ = text[end - 1] != '\n';
    lost_(end);
    text.remove_prefix(end);
  }
  std::size_t room = skipping_ ? 0 : k_limit - held_.size();
  if (room < text.size()) {
    room = text.substr(0, room).rfind('\n') + 1;  // npos + 1 is 0
    skipping_ = true;
  }
  held_ += text.substr(0, room);
  if (room < text.size()) lost_(text.size() - room);
}

std::size_t FileCopy::write(std::string_view text) {
  std::size_t taken = 0;
  error_code error;
  while (taken < text.size() && !error)
    taken += writer_.write_some(boost::asio::buffer(text.data() + taken, text.size() - taken), error);
  if (taken > 0) progress_ = std::chrono::steady_clock::now();
  if (!error || error == boost::asio::error::would_block) return taken;
  lost_(text.size() - taken);  // the log writer has been killed
  return text.size();
}

void FileCopy::pass_on() {
  if (waiting_) return;
  waiting_ = true;
  writer_.async_wait(boost::asio::posix::descriptor_base::wait_write,
                     [self = shared_from_this()](const error_code& error) {
                       self->waiting_ = false;
                       if (error) return;
                       self->held_.erase(0, self->write(self->held_));
                       if (!self->held_.empty()) self->pass_on();
                     });
}

}  // namespace ddprun::streams
