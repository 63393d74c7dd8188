// A child that answers one request after the other by calling into a library that may hang or crash.
// Against a child for each call (os/process/child_call.hpp) it saves the fork and the loading of the library.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "os/process/child_call.hpp"

namespace ddprun::os {

class ServingChild {
 public:
  static constexpr std::size_t k_limit = 65536;  // size of a request and of an answer, in bytes

  using Serve = std::function<std::string(const std::string& request)>;
  // Makes a child whose answers come from `prepare`, which runs in it, once. The child is started by the
  // first request, and leaves by itself when none comes for `idle`; the next one starts another.
  explicit ServingChild(std::function<Serve()> prepare, Milliseconds idle = Milliseconds{1000});
  ~ServingChild() { end(); }
  ServingChild(const ServingChild&) = delete;
  ServingChild& operator=(const ServingChild&) = delete;

  // Blocks until there is an answer or `deadline` has passed; then the child is ended, and whatever it is
  // stuck in with it.
  ChildAnswer ask(const std::string& request, Milliseconds deadline);
  pid_t child() const { return child_; }  // -1: none now

 private:
  std::string start(const std::string& request);
  void end();

  std::function<Serve()> prepare_;
  Milliseconds idle_;
  Fd socket_;
  Fd process_;  // its pidfd; empty before Linux 5.3
  pid_t child_ = -1;
};

}  // namespace ddprun::os
