// The carriers' processes (srun; or an ssh for every host): started, their output merged, ended.
//
// Each leads a session of its own, so that a ^C at the terminal reaches only us, and the keeper ends what we
// leave behind when we are killed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/app/input_pump.hpp"
#include "ddprun/app/output_pump.hpp"
#include "ddprun/os/child.hpp"
#include "ddprun/os/keeper.hpp"
#include "ddprun/os/meeting_file.hpp"
#include "ddprun/rendezvous/lifeline.hpp"

namespace ddprun {

class CarrierGroup {
 public:
  // Called once for each, when it has ended and all it wrote is read.
  using Ended = std::function<void(std::size_t carrier, const ExitStatus& status)>;

  CarrierGroup(boost::asio::io_context& context, std::size_t carriers, Ended ended);
  CarrierGroup(const CarrierGroup&) = delete;
  CarrierGroup& operator=(const CarrierGroup&) = delete;
  ~CarrierGroup();

  // `input`: what goes to its standard input. Without: the only carrier has ours, one of several has none. A
  // program that cannot be run ends at once, as any other.
  void start(std::size_t carrier, const std::vector<std::string>& words,
             const std::vector<std::string>& environment, const std::optional<std::string>& input);
  void signal(std::size_t carrier, int number);  // to its session; nothing where it does not run
  bool running(std::size_t carrier) const;
  std::size_t count_running() const;
  // An agent's connection for its output, from which `begun` was read already.
  void add_output(lifeline::Stream stream, Fd socket, std::string_view begun);
  bool has_one_output() const { return &error_ == &output_; }
  // Output came within this time, or waits for whoever reads ours.
  bool is_busy(Milliseconds within) const { return output_.is_busy(within) || error_.is_busy(within); }
  // The last line it wrote on standard error; empty where there is none.
  std::string last_words(std::size_t carrier) const;

  void look_for_ends();  // after SIGCHLD
  void insert_error(std::string_view lines) { error_.insert(lines); }
  // As WorkerGroup's.
  void when_drained(std::optional<Milliseconds> limit, std::function<void()> handler);
  std::vector<std::string> losses(const std::string& host) const {
    return describe_losses(output_, error_, host);
  }
  void dismiss_keeper() { keeper_.dismiss(); }
  void remove_at_end(const MeetingFile& file) { keeper_.remove_at_end(file.path(), file.text()); }

 private:
  struct Carrier;

  int open_input(Carrier& carrier, const std::optional<std::string>& input, std::vector<Fd>& owned);
  void send_input(Carrier& carrier, Fd writer, std::string text);
  void note_end(std::size_t carrier);

  boost::asio::io_context& context_;
  Ended ended_;
  std::string agent_id_;
  Keeper keeper_;
  OutputPump output_;
  std::optional<OutputPump> separate_error_;
  OutputPump& error_;  // output_ where both go to the same file, so that neither splits the other's lines
  std::optional<InputPump> terminal_;
  std::vector<int> inherited_;
  std::optional<std::uint64_t> open_files_;  // the carriers' limit
  std::vector<std::unique_ptr<Carrier>> carriers_;
};

}  // namespace ddprun
