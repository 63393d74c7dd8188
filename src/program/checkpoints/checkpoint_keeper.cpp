#include "checkpoints/checkpoint_keeper.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "copies/checkpoint_folder.hpp"
#include "event_loop/handlers.hpp"
#include "net/staging/sealed_door.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/private_files.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/reaper.hpp"
#include "os/process/serving_child.hpp"
#include "os/system_failure.hpp"

namespace ddprun::checkpoints {

namespace {

constexpr Milliseconds k_limit{5000};          // limit of what the driver waits for
constexpr Milliseconds k_begin_limit{2000};    // the removal of what is newer
constexpr Milliseconds k_fetch_limit{600000};  // each piece of what is fetched has a limit of its own
constexpr int k_removal_limit = 60000;         // ms; what is left then, the next ddprun removes

}  // namespace

CheckpointKeeper::CheckpointKeeper(boost::asio::io_context& context, CheckpointSettings settings, Hooks hooks)
    : settings_(std::move(settings)),
      hooks_(std::move(hooks)),
      socket_(context),
      first_(context),
      settled_(context),
      fetched_(context) {
  if (settings_.memory == 0) return;
  folder_ = copies::CheckpointFolder(settings_.place, settings_.job, settings_.agent).path();
  socket_path_ = folder_ + "/.socket";
  const std::string secret = os::make_random_id();
  const net::Door door = net::open_door(settings_.ports, secret);
  door_ = door.text;
  os::SocketPair pair = os::make_socket_pair();
  std::vector<int> kept{pair.theirs.get()};
  if (!door_.empty()) kept.push_back(door.listener.descriptor);
  process_ = os::fork_outliving_helper("ddprun-checkpts", kept, [&](const std::vector<int>& own) -> int {
    run_checkpoint_process(settings_, secret, own[0], own.size() > 1 ? own[1] : -1);
  });
  const int error = errno;
  if (!door_.empty()) ::close(door.listener.descriptor);
  if (process_ < 0) {
    folder_.clear();
    socket_path_.clear();
    hooks_.notice("checkpoints are not kept in memory: cannot start a process: " + os::describe_errno(error),
                  "");
    return;
  }
  socket_.assign(boost::asio::local::stream_protocol(), pair.ours.release());
  read();
}

void CheckpointKeeper::wait(Waiting& waiting, std::function<void()> then, Milliseconds limit) {
  waiting.then = std::move(then);
  waiting.limit.expires_after(limit);
  waiting.limit.async_wait([&waiting](const boost::system::error_code& error) {
    if (!error) finish(waiting);
  });
}

void CheckpointKeeper::finish(Waiting& waiting) {
  waiting.limit.cancel();
  if (const auto then = std::exchange(waiting.then, nullptr)) then();
}

void CheckpointKeeper::when_first_known(std::function<void()> then) {
  if (!is_on() || is_known_) return then();
  wait(first_, std::move(then), k_limit);
}

void CheckpointKeeper::when_settled(std::function<void()> then) {
  if (!is_on()) return then();
  wait(settled_, std::move(then), k_limit);
  send(Frame::settle);
}

bool CheckpointKeeper::begin_attempt(const Begin& begin, std::function<void()> then) {
  if (!is_on() || std::exchange(attempt_, begin.attempt) == begin.attempt) return true;
  is_begun_ = is_fetched_ = false;
  send(Frame::begin, write_record(begin, describe_begin));
  for (const TimePoint limit = os::now() + k_begin_limit; is_on() && !is_begun_;) {
    if (!os::wait_until_ready(socket_.native_handle(), limit)) return true;
    const ssize_t count = ::read(socket_.native_handle(), buffer_.data(), buffer_.size());
    if (count == 0 || (count < 0 && errno != EAGAIN)) return true;  // read() notices it
    received_.append(buffer_.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    take_frames();
  }
  if (is_fetched_ || has_parts(begin)) return true;
  wait(fetched_, std::move(then), k_fetch_limit);
  return false;
}

// Reports whether the ranks' own parts of the step are here.
bool CheckpointKeeper::has_parts(const Begin& begin) const {
  if (!begin.restore) return true;
  return std::ranges::all_of(begin.ranks, [&](int rank) {
    return rank >= begin.restore->world ||
           std::ranges::any_of(held_.parts, [&](const checkpoint::Part& part) {
             return !part.replica && part.rank == rank && part.step == begin.restore->step;
           });
  });
}

void CheckpointKeeper::take(const checkpoint::Order& order) {
  send(Frame::order, write_record(order, rendezvous::describe_order));
}

void CheckpointKeeper::send(Frame kind, std::string_view text) {
  if (process_ <= 0) return;
  const std::string frame = event_loop::make_child_frame(static_cast<char>(kind), text);
  os::send_whole(socket_.native_handle(), frame, {}, os::now() + k_limit);
}

void CheckpointKeeper::read() {
  socket_.async_read_some(boost::asio::buffer(buffer_),
                          [this](const boost::system::error_code& error, std::size_t count) {
                            if (error == boost::asio::error::operation_aborted) return;
                            if (error) return give_up("the process that keeps them has ended");
                            received_.append(buffer_.data(), count);
                            take_frames();
                            if (process_ > 0) read();
                          });
}

void CheckpointKeeper::take_frames() {
  while (const auto frame = event_loop::take_child_frame(received_))
    take_frame(static_cast<Frame>(frame->kind), frame->text);
}

void CheckpointKeeper::take_frame(Frame kind, const std::string& text) {
  if (kind == Frame::held) {
    held_ = read_record<checkpoint::Held>(text, rendezvous::describe_held);
    hooks_.held(held_);
  } else if (kind == Frame::known) {
    is_known_ = true;
    if (!text.empty()) folder_.clear(), socket_path_.clear();
    finish(first_);
  } else if (kind == Frame::settle) {
    finish(settled_);
  } else if (kind == Frame::fetched && text == std::to_string(attempt_)) {  // else of one that has ended
    is_fetched_ = true;
    finish(fetched_);
  } else if (kind == Frame::begin) {
    is_begun_ = true;
  } else if (kind == Frame::notice) {
    staging::Parts parts(text);
    const std::string what = parts.text();
    hooks_.notice(what, parts.text());
  }
}

void CheckpointKeeper::give_up(const std::string& why) {
  process_ = -1;
  if (!settings_.keep && !folder_.empty()) os::remove_below(folder_, true);
  held_ = {};
  hooks_.notice("checkpoints are not kept in memory any more: " + why, "");
  hooks_.held(held_);
  finish(first_);
  finish(settled_);
  finish(fetched_);
}

void CheckpointKeeper::end(bool keep) {
  if (process_ <= 0) return;
  send(Frame::end, keep ? "keep" : "");
  process_ = -1;
  os::end_by_socket(socket_.release(), k_removal_limit);
}

}  // namespace ddprun::checkpoints
