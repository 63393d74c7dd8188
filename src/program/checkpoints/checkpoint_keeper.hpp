// Checkpoints in memory in an agent: the process that keeps them, as the agent's event loop sees it.
//
// The driver calls, in this order:
//   the constructor, before the first thread; then door() for the announcement
//   when_first_known(), before it announces itself: held() then has what was kept for a requeued job, and
//     folder() and socket() what the workers are told
//   begin_attempt() on each Start, before it starts workers: what is newer has gone when it returns
//   take() on each CheckpointOrder, at any time
//   when_settled() once all workers of an attempt have ended, before it says Stopped with held()
//   end() once the job has ended; the destructor does the same, and keeps nothing
// Without CheckpointSettings::memory, or where the folder cannot be used (a notice says so), nothing of this
// does anything, and what is waited for is called at once.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_process.hpp"

namespace ddprun::checkpoints {

class CheckpointKeeper {
 public:
  struct Hooks {
    std::function<void(const checkpoint::Held&)> held;                             // it has changed
    std::function<void(const std::string& what, const std::string& hint)> notice;  // each is told once
  };
  CheckpointKeeper(boost::asio::io_context& context, CheckpointSettings settings, Hooks hooks);
  CheckpointKeeper(const CheckpointKeeper&) = delete;
  CheckpointKeeper& operator=(const CheckpointKeeper&) = delete;
  ~CheckpointKeeper() { end(false); }

  // Returns "PORT/SECRET", for the announcement; empty: none.
  const std::string& door() const { return door_; }
  // Values of DDPRUN_CHECKPOINTS and DDPRUN_CHECKPOINT_SOCKET; empty: off.
  const std::string& folder() const { return folder_; }
  const std::string& socket() const { return socket_path_; }
  const checkpoint::Held& held() const { return held_; }

  void when_first_known(std::function<void()> then);  // after five seconds at most
  void when_settled(std::function<void()> then);      // after five seconds at most, too
  // False: parts of the ranks are on their way from other nodes; once they are here, or cannot be had, it
  // calls `then`, and the same call returns true.
  bool begin_attempt(const Begin& begin, std::function<void()> then);
  void take(const checkpoint::Order& order);
  // Waits until the folder is removed; with `keep` it stays for the job's next ddprun on this host.
  void end(bool keep);

 private:
  bool is_on() const { return process_ > 0 && !folder_.empty(); }
  // Event that is waited for, with a limit.
  struct Waiting {
    explicit Waiting(boost::asio::io_context& context) : limit(context) {}
    boost::asio::steady_timer limit;
    std::function<void()> then;
  };
  void wait(Waiting& waiting, std::function<void()> then, Milliseconds limit);
  bool has_parts(const Begin& begin) const;
  static void finish(Waiting& waiting);
  void send(Frame kind, std::string_view text = {});
  void read();
  void take_frames();
  void take_frame(Frame kind, const std::string& text);
  void give_up(const std::string& why);

  CheckpointSettings settings_;
  Hooks hooks_;
  boost::asio::local::stream_protocol::socket socket_;
  std::string door_, folder_, socket_path_;
  checkpoint::Held held_;
  Waiting first_, settled_, fetched_;
  int attempt_ = -1;  // the latest one that was begun
  pid_t process_ = -1;
  std::string received_;
  std::array<char, 65536> buffer_{};
  bool is_known_ = false, is_begun_ = false, is_fetched_ = false;
};

}  // namespace ddprun::checkpoints
