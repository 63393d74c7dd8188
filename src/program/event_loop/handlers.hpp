// Parts of handlers of the event loop: failures in words, and frames to and from a helper process.
#pragma once

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "os/system_failure.hpp"
#include "staging/manifest.hpp"

namespace ddprun::event_loop {

// Failures in the handlers of the event loop, in words.

// Reports whether the wait was cancelled. Throws Error, "cannot wait for <what>: ...", if the system refused
// it: a wait that silently ended would be waited for as long as the job runs.
inline bool is_cancelled(const boost::system::error_code& error, const char* what) {
  if (!error) return false;
  namespace e = boost::asio::error;
  if (error == e::operation_aborted || error == e::bad_descriptor) return true;
  throw os::system_failure(std::string("cannot wait for ") + what, error.value());
}

// Returns a sentence for the reader of the report.
inline std::string describe_exception(const std::exception& exception) {
  if (dynamic_cast<const Error*>(&exception) != nullptr) return exception.what();
  if (const auto* refused = dynamic_cast<const boost::system::system_error*>(&exception))
    return "the system refused a resource that ddprun needs: " + os::describe_errno(refused->code().value());
  return std::string("internal error: ") + exception.what();
}

// Frames between an agent and a helper process beside it: a letter for the kind, and a text with its length.

struct ChildFrame {
  char kind = 0;
  std::string text;
};

inline std::string make_child_frame(char kind, std::string_view text = {}) {
  std::string frame(1, kind);
  staging::put_text(frame, text);
  return frame;
}

// Takes the next whole frame out of what was received; nullopt: more is needed.
inline std::optional<ChildFrame> take_child_frame(std::string& received) {
  constexpr std::size_t k_head = 9;
  if (received.size() < k_head) return std::nullopt;
  const std::uint64_t size = staging::Parts(std::string_view(received).substr(1)).number();
  if (received.size() - k_head < size) return std::nullopt;
  ChildFrame frame{received.front(), received.substr(k_head, size)};
  received.erase(0, k_head + size);
  return frame;
}

}  // namespace ddprun::event_loop
