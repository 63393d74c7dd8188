// Staging (--stage) in an agent.
// A process beside it makes the copies of this host. The workers are held back until it has reported where
// the copies are; it ends last.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <string>
#include <vector>

#include "agent/link_settings.hpp"
#include "agent/stage_process.hpp"
#include "facts/snapshot.hpp"
#include "net/tcp_tools.hpp"

namespace ddprun::agent {

class StageKeeper {
 public:
  // Makes a keeper that calls `settled` once its work is done.
  StageKeeper(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
              std::function<void()> settled);
  StageKeeper(const StageKeeper&) = delete;
  StageKeeper& operator=(const StageKeeper&) = delete;
  ~StageKeeper() { end(); }

  // Returns "PORT/SECRET", for the announcement: the door where this host passes copies on; empty: none.
  const std::string& door() const { return door_; }
  // Reports whether the copies are there, or none are wanted.
  bool is_settled() const { return settled_; }
  // Does nothing but the first time.
  void begin(const std::vector<staging::Server>& sources);
  // Returns for each path, in the order of the options, where its copy is; the path itself if there is no
  // copy.
  const std::vector<staging::Mapping>& mappings() const { return mappings_; }
  void end();  // waits until the copies are removed

 private:
  void open_door();
  void read();
  void take_frames();
  void take(StageNews kind, const std::string& text);
  void settle(const std::vector<Staged>& staged);
  void tell(const Staged& staged) const;
  void give_up(const std::string& why);

  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  std::function<void()> on_settled_;
  std::string door_;
  net::BoundSocket listener_;
  boost::asio::local::stream_protocol::socket socket_;
  pid_t process_ = -1;
  std::string received_;
  std::array<char, 4096> buffer_{};
  bool settled_ = true;
  std::vector<staging::Mapping> mappings_;
};

}  // namespace ddprun::agent
