#include "streams/input_pump.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <chrono>
#include <utility>

#include "os/descriptors.hpp"

namespace ddprun::streams {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Input for another process keeps the terminal readable; nothing tells when it is for us again.
constexpr auto k_retry = std::chrono::milliseconds(500);

}  // namespace

InputPump::InputPump(asio::io_context& context, int terminal)
    : input_(terminal), watch_(context), writer_(context), retry_timer_(context) {
  if (input_.watch()) watch_.assign(os::duplicate(input_.watch().get()).release());
}

template <class Handler>
auto InputPump::while_connected(Handler handler) {
  return [this, connection = connection_, handler](const error_code& error) {
    if (!error && connection == connection_) handler();
  };
}

void InputPump::connect(os::Fd writer) {
  disconnect();
  if (!watch_.is_open()) return;  // no input at all: the pipe ends here
  writer_.assign(writer.release());
  writer_.non_blocking(true);  // our end is an open file of its own
  // A pipe's writer gets an error when no reader is left.
  writer_.async_wait(asio::posix::descriptor_base::wait_error, while_connected([this] { stop_reading(); }));
  pass_on();
}

void InputPump::disconnect() {
  stop_reading();
  if (!writer_.is_open()) return;
  text_ = os::read_unread(writer_.native_handle()) + text_.substr(written_);
  written_ = 0;
  writer_.close();
}

// Stops reading. The pipe stays open, for the sake of what may be left in it.
void InputPump::stop_reading() {
  ++connection_;
  watch_.cancel();
  retry_timer_.cancel();
}

void InputPump::wait_for_input() {
  watch_.async_wait(asio::posix::descriptor_base::wait_read, while_connected([this] { look(); }));
}

void InputPump::look() {
  os::TerminalInput::Result result = input_.read();
  switch (result.state) {
    case os::TerminalInput::State::typed:
      text_ = std::move(result.text);
      pass_on();
      return;
    case os::TerminalInput::State::nothing_yet:
      wait_for_input();
      return;
    case os::TerminalInput::State::ended:
      stop_reading();
      writer_.close();
      return;
    case os::TerminalInput::State::for_others:
      retry_timer_.expires_after(k_retry);
      retry_timer_.async_wait(while_connected([this] { wait_for_input(); }));
  }
}

void InputPump::pass_on() {
  error_code error;
  const std::string_view rest = std::string_view(text_).substr(written_);
  if (!rest.empty()) written_ += writer_.write_some(asio::buffer(rest), error);
  if (error && error != asio::error::would_block) {
    stop_reading();
  } else if (written_ < text_.size()) {
    writer_.async_wait(asio::posix::descriptor_base::wait_write, while_connected([this] { pass_on(); }));
  } else {
    text_.clear();
    written_ = 0;
    wait_for_input();
  }
}

}  // namespace ddprun::streams
