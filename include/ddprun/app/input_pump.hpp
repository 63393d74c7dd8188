// Carries what is typed at the terminal to one worker's standard input, while we are in the foreground.
//
// For several workers on a terminal: none of them may read it (their groups are in the background), so local
// rank 0 gets a pipe and we read for it. A single worker gets the terminal itself (os/terminal.hpp), and an
// input that is no terminal is handed to local rank 0 as it is; neither needs a pump.
//
// Has to live until the io_context has stopped running.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>

#include "ddprun/os/terminal_input.hpp"

namespace ddprun {

class InputPump {
 public:
  // `terminal`: usually 0. `writer`: the worker's pipe. Ends with the input (^D) or with the pipe's reader.
  InputPump(boost::asio::io_context& context, int terminal, Fd writer);

  void stop();

 private:
  void wait_for_input();
  void look();
  void pass_on(std::string text);

  TerminalInput input_;
  boost::asio::posix::stream_descriptor watch_;
  boost::asio::posix::stream_descriptor writer_;
  boost::asio::steady_timer retry_timer_;
  std::string text_;
};

}  // namespace ddprun
