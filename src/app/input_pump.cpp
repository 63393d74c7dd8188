#include "ddprun/app/input_pump.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <utility>

#include "ddprun/os/descriptors.hpp"

namespace ddprun {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Input for somebody else keeps the terminal readable; nothing tells when we are back in the foreground.
constexpr auto k_background_retry = std::chrono::milliseconds(500);

}  // namespace

InputPump::InputPump(asio::io_context& context, int terminal, Fd writer)
    : input_(terminal), watch_(context), writer_(context, writer.release()), retry_timer_(context) {
  if (!input_.watch()) {
    stop();
    return;
  }
  watch_.assign(duplicate(input_.watch().get()).release());
  // A pipe's writer is told so when nobody is left to read.
  writer_.async_wait(asio::posix::descriptor_base::wait_error, [this](const error_code& error) {
    if (!error) stop();
  });
  wait_for_input();
}

void InputPump::stop() {
  watch_.close();
  writer_.close();
  retry_timer_.cancel();
}

void InputPump::wait_for_input() {
  watch_.async_wait(asio::posix::descriptor_base::wait_read, [this](const error_code& error) {
    if (!error) look();
  });
}

void InputPump::look() {
  TerminalInput::Result result = input_.read();
  switch (result.state) {
    case TerminalInput::State::typed:
      pass_on(std::move(result.text));
      return;
    case TerminalInput::State::nothing_yet:
      wait_for_input();
      return;
    case TerminalInput::State::ended:
      stop();
      return;
    case TerminalInput::State::in_background:
      retry_timer_.expires_after(k_background_retry);
      retry_timer_.async_wait([this](const error_code& error) {
        if (!error) wait_for_input();
      });
  }
}

void InputPump::pass_on(std::string text) {
  text_ = std::move(text);
  asio::async_write(writer_, asio::buffer(text_), [this](const error_code& error, std::size_t) {
    if (error) {
      stop();
    } else {
      wait_for_input();
    }
  });
}

}  // namespace ddprun
