#include "os/process/serving_child.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/process/helper_child.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

// Receives one message, since the sockets keep their borders; nullopt at the other side's end.
std::optional<std::string> receive(int socket) {
  std::string message(ServingChild::k_limit, '\0');
  ssize_t size = 0;
  do size = ::recv(socket, message.data(), message.size(), 0);
  while (size < 0 && errno == EINTR);
  if (size <= 0) return std::nullopt;
  message.resize(static_cast<std::size_t>(size));
  return message;
}

bool send(int socket, const std::string& message) {
  ssize_t sent = 0;
  do sent = ::send(socket, message.data(), message.size(), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(message.size());
}

// Serves in the child. A message is never empty: its first byte says nothing.
int serve_until_idle(int socket, const std::function<ServingChild::Serve()>& prepare, Milliseconds idle) {
  socket = close_all_but(socket);
  const ServingChild::Serve serve = prepare();
  while (wait_until_ready(socket, now() + idle)) {
    const auto request = receive(socket);
    if (!request || !send(socket, '.' + serve(request->substr(1)))) break;
  }
  return 0;
}

}  // namespace

ServingChild::ServingChild(std::function<Serve()> prepare, Milliseconds idle)
    : prepare_(std::move(prepare)), idle_(idle) {}

// Starts the child. The request is there before it, so that it finds the request however long it takes to
// begin. Returns why there is no child; empty: there is.
std::string ServingChild::start(const std::string& request) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return describe_errno(errno);
  socket_ = Fd(ends[0]);
  const Fd other(ends[1]);
  if (!send(socket_.get(), request)) return describe_errno(errno);
  child_ = fork_helper([&] { return serve_until_idle(other.get(), prepare_, idle_); });
  if (child_ < 0) return describe_errno(errno);
  process_ = open_pidfd(child_);
  return {};
}

void ServingChild::end() {
  if (child_ > 0) end_helper(child_, process_);
  child_ = -1;
  process_ = Fd();
  socket_ = Fd();
}

ChildAnswer ServingChild::ask(const std::string& request, Milliseconds deadline) {
  if (request.size() >= k_limit) return {std::nullopt, fmt::format("more than {} bytes", k_limit), false};
  const std::string message = '.' + request;
  const TimePoint until = now() + deadline;
  // A child that has left for want of requests shows only now.
  for (bool fresh = child_ < 0;; fresh = true) {
    if (const std::string problem = fresh ? start(message) : ""; !problem.empty()) {
      end();
      return {std::nullopt, problem, false};
    }
    const bool sent = fresh || send(socket_.get(), message);
    if (sent && !wait_until_ready(socket_.get(), until)) {
      end();
      return {std::nullopt, fmt::format("no answer within {}", describe_duration(deadline)), true};
    }
    if (auto answer = sent ? receive(socket_.get()) : std::nullopt) return {answer->substr(1), "", false};
    end();
    if (fresh) return {std::nullopt, "the process that asks has ended", false};
  }
}

}  // namespace ddprun::os
