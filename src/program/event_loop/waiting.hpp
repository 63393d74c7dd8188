// Failures in the handlers of the event loop, in words.
#pragma once

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <string>

#include "os/system_failure.hpp"

namespace ddprun::event_loop {

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

}  // namespace ddprun::event_loop
