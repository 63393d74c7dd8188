// Carries what is typed at the terminal to one worker's standard input, while we are in the foreground.
// A restart gives it another worker; what the one before left unread comes first.
//
// For several workers on a terminal: none of them may read it (their groups are in the background), so local
// rank 0 gets a pipe and we read for it. A single worker gets the terminal itself (os/terminal/terminal.hpp),
// and an input that is no terminal is handed to local rank 0 as it is; neither needs a pump.
//
// Has to live until the io_context has stopped running: handlers of a worker that is gone may still be
// queued, and find by their number that they are outdated.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <string>

#include "os/terminal/terminal.hpp"

namespace ddprun::streams {

class InputPump {
 public:
  // Makes a pump. `terminal`: usually 0. It is left alone while no worker is connected.
  InputPump(boost::asio::io_context& context, int terminal);

  // Connects a worker. `writer`: the worker's pipe. Reading ends with the input (^D) or when no process is
  // left to read the pipe.
  void connect(os::Fd writer);
  // Disconnects a worker that has ended. What it has not read of its pipe is kept for the next one.
  void disconnect();

 private:
  template <class Handler>
  auto while_connected(Handler handler);
  void stop_reading();
  void wait_for_input();
  void look();
  void pass_on();

  os::TerminalInput input_;
  boost::asio::posix::stream_descriptor watch_;
  boost::asio::posix::stream_descriptor writer_;
  boost::asio::steady_timer retry_timer_;
  std::string text_;         // typed, and not yet in the pipe from written_ on
  std::size_t written_ = 0;  // bytes of text_
  unsigned connection_ = 0;  // counts on whenever what is under way is void
};

}  // namespace ddprun::streams
