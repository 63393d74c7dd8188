#include "os/libraries/pmi_client.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

struct ReadLine {
  std::string text;     // without its end
  std::string problem;  // reason why there is none, as in "it ..."
};

// Reads a line byte by byte: what follows it may be for another process.
ReadLine read_line(int descriptor, TimePoint deadline) {
  ReadLine line;
  while (line.text.size() < facts::k_max_pmi_line) {
    if (!wait_until_ready(descriptor, deadline)) return {{}, "sent nothing"};
    char byte = 0;
    const ssize_t got = ::read(descriptor, &byte, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return {{}, fmt::format("closed the connection ({})", describe_errno(errno))};
    if (got == 0) return {{}, "closed the connection"};
    if (byte == '\n') return line;
    line.text.push_back(byte);
  }
  return {{}, "sent an endless line"};
}

// Sends a request of a few hundred bytes in one piece (Slurm reads init with a single read); the server has
// none before it, and takes it at once.
bool send_line(int descriptor, const std::string& line) {
  ssize_t sent = ::send(descriptor, line.data(), line.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno == ENOTSOCK) sent = ::write(descriptor, line.data(), line.size());
  return sent == static_cast<ssize_t>(line.size());
}

}  // namespace

std::string connect_to_pmi(int socket, const std::string& host_and_port) {
  const std::size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos) return "PMI_PORT is not HOST:PORT";
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = host_and_port.substr(0, colon);
  const std::string port = host_and_port.substr(colon + 1);
  const int result = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found);
  if (result != 0) return fmt::format("{} cannot be found: {}", host_and_port, ::gai_strerror(result));
  const bool connected = ::connect(socket, found->ai_addr, found->ai_addrlen) == 0;
  const int error = errno;
  ::freeaddrinfo(found);
  return connected ? std::string()
                   : fmt::format("{} cannot be reached: {}", host_and_port, describe_errno(error));
}

facts::KeyValueAnswer key_value_space_over_pmi(int descriptor, facts::PmiRequest request,
                                               const PmiLimits& limits) {
  facts::PmiConversation conversation(std::move(request));
  std::string next = conversation.start();
  while (!conversation.over()) {
    const bool barrier = conversation.asked() == "barrier_in";
    if (!next.empty() && !send_line(descriptor, next)) {
      return {facts::KeyValueAnswer::Kind::failed,
              fmt::format("it does not accept requests: {}", describe_errno(errno))};
    }
    const Milliseconds limit = barrier ? limits.barrier : limits.answer;
    const ReadLine line = read_line(descriptor, now() + limit);
    if (!line.problem.empty()) {
      const std::string waited =
          line.problem == "sent nothing" ? " for " + describe_duration(limit) : std::string();
      return {facts::KeyValueAnswer::Kind::failed,
              fmt::format("it {}{} when asked for {}", line.problem, waited, conversation.asked())};
    }
    next = conversation.take(line.text);
  }
  return conversation.answer();
}

void finish_pmi(int descriptor, Milliseconds limit) {
  const TimePoint deadline = now() + limit;
  if (!send_line(descriptor, std::string(facts::k_pmi_finalize))) return;
  while (true) {
    const ReadLine line = read_line(descriptor, deadline);
    // The answer to what a killed child asked may come first.
    if (!line.problem.empty() || line.text.starts_with(facts::k_pmi_finalized)) return;
  }
}

}  // namespace ddprun::os
