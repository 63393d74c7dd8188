// The remote launchers' processes (srun; or an ssh for every host): started, their output merged, ended.
//
// Each leads a session of its own, so that a ^C at the terminal reaches only us, and the reaper ends what we
// leave behind when we are killed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "os/files/rendezvous_file.hpp"
#include "os/process/reaper.hpp"
#include "rendezvous/lifeline.hpp"
#include "streams/input_pump.hpp"
#include "streams/output_pumps.hpp"

namespace ddprun::front_end {

class RemoteLauncherGroup {
 public:
  // Handler called once for each, when it has ended and all it wrote is read.
  using Ended = std::function<void(std::size_t remote_launcher, const ExitStatus& status)>;

  // `host`: ours. `host_timeout`: how long agents that have ended may be waited for by a ddprun that does not
  // run.
  RemoteLauncherGroup(boost::asio::io_context& context, std::size_t remote_launchers, const std::string& host,
                      Milliseconds host_timeout, Ended ended);
  RemoteLauncherGroup(const RemoteLauncherGroup&) = delete;
  RemoteLauncherGroup& operator=(const RemoteLauncherGroup&) = delete;
  ~RemoteLauncherGroup();

  // Starts a remote launcher. `input`: its standard input. Without: the only remote launcher has ours, one of
  // several has none. A program that cannot be run ends at once, as any other.
  void start(std::size_t remote_launcher, const std::vector<std::string>& words,
             const std::vector<std::string>& environment, const std::optional<std::string>& input);
  void signal(std::size_t remote_launcher, int number);  // to its session; nothing where it does not run
  bool running(std::size_t remote_launcher) const;
  // Adds an agent's connection for its output, from which `begun` was read already.
  void add_output(const rendezvous::lifeline::Output& from, os::Fd socket, std::string_view begun,
                  output::Folding folding);
  bool has_one_output() const { return pumps_.are_one(); }
  // Reports whether output came within this time, or waits for the reader of ours.
  bool is_busy(Milliseconds within) const {
    return pumps_.output().is_busy(within) || pumps_.error().is_busy(within);
  }
  // Returns the last line it wrote on standard error; empty if there is none.
  std::string last_words(std::size_t remote_launcher) const;

  void look_for_ends();  // after SIGCHLD
  void insert_error(std::string_view lines) { pumps_.error().insert(lines); }
  // Does as WorkerGroup's.
  void when_drained(std::optional<Milliseconds> limit, std::function<void()> handler);
  void allow_lost_hosts() { pumps_.allow_lost_hosts(); }
  std::vector<std::string> losses(const std::string& host) const { return pumps_.losses(host); }
  void dismiss_reaper() { reaper_.dismiss(); }
  void note_link(int socket, bool open) { open ? reaper_.note_link(socket) : reaper_.forget_link(socket); }
  void remove_at_end(const os::RendezvousFile& file) { reaper_.remove_at_end(file.path(), file.text()); }

 private:
  struct RemoteLauncher;

  int open_input(RemoteLauncher& remote_launcher, const std::optional<std::string>& input,
                 std::vector<os::Fd>& owned);
  void send_input(RemoteLauncher& remote_launcher, os::Fd writer, std::string text);
  void note_end(std::size_t remote_launcher);

  boost::asio::io_context& context_;
  Ended ended_;
  std::string agent_id_;
  os::Reaper reaper_;
  streams::OutputPumps pumps_;
  std::optional<streams::InputPump> terminal_;
  std::vector<int> inherited_;
  std::optional<std::uint64_t> open_files_;  // the remote launchers' limit
  std::vector<std::unique_ptr<RemoteLauncher>> remote_launchers_;
};

}  // namespace ddprun::front_end
