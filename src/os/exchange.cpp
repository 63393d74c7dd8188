#include "ddprun/os/exchange.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/pmi_client.hpp"
#include "ddprun/os/pmix_client.hpp"
#include "ddprun/os/system_failure.hpp"

namespace ddprun {

namespace {

struct PmiServer {
  int descriptor = -1;  // PMI_FD
  std::string port;     // or PMI_PORT, with
  std::string id;       // PMI_ID
  int size = 1;
};

std::string variable_of(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

PmiServer find_server(const Environment& environment) {
  PmiServer server;
  server.size = static_cast<int>(parse_integer(variable_of(environment, "PMI_SIZE")).value_or(1));
  const std::string number = variable_of(environment, "PMI_FD");
  if (number.empty()) {
    server.port = variable_of(environment, "PMI_PORT");
    server.id = variable_of(environment, "PMI_ID");
    if (server.port.empty() || server.id.empty())
      throw Error("there is no PMI_FD and no PMI_PORT with PMI_ID");
    return server;
  }
  const auto descriptor = parse_integer(number);
  if (!descriptor || *descriptor < 3 || *descriptor > 1 << 20 ||
      ::fcntl(static_cast<int>(*descriptor), F_GETFD) < 0) {
    throw Error(fmt::format("PMI_FD={} is no descriptor of this process", printable(number, 40)));
  }
  server.descriptor = static_cast<int>(*descriptor);
  return server;
}

ExchangeAnswer speak_pmi(int descriptor, const PmiServer& server, const ExchangeRequest& request) {
  if (!server.port.empty()) {
    const std::string problem = connect_to_pmi(descriptor, server.port);
    if (!problem.empty()) return {ExchangeAnswer::Kind::failed, problem};
  }
  return exchange_over_pmi(descriptor, {request.value, server.size, request.all_take_part, server.id},
                           {request.answer_limit, request.barrier_limit});
}

// A fork of a process with one thread may go on using the C library.
template <class Exchange>
[[noreturn]] void serve_answer(const Exchange& exchange, pid_t parent, int descriptor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  try {
    const std::string text = render_answer(exchange());
    for (std::string_view rest = text; !rest.empty();) {
      const ssize_t count = ::write(descriptor, rest.data(), rest.size());
      if (count <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

// Signals stay blocked in the child: our handlers must not run there.
template <class Exchange>
pid_t fork_exchange(const Exchange& exchange, int descriptor) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  const int error = errno;
  if (child == 0) serve_answer(exchange, parent, descriptor);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) throw system_failure("cannot start a process for the launcher's exchange", error);
  return child;
}

}  // namespace

LauncherExchange::LauncherExchange(const Environment& environment, const ExchangeRequest& request) {
  Pipe pipe = make_pipe();
  answer_ = std::move(pipe.reader);
  if (request.service == ExchangeRequest::Service::pmix) {
    const auto exchange = [&] {
      return exchange_over_pmix(request.library, request.value, request.all_take_part);
    };
    child_ = fork_exchange(exchange, pipe.writer.get());
    return;
  }
  const PmiServer server = find_server(environment);
  pmi_ = server.descriptor;
  if (pmi_ < 0) {
    // Made here and connected there, so that the connection outlives the child.
    connection_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!connection_) throw system_failure("cannot make a socket for PMI", errno);
    pmi_ = connection_.get();
  }
  child_ = fork_exchange([&] { return speak_pmi(pmi_, server, request); }, pipe.writer.get());
}

LauncherExchange::~LauncherExchange() { end_child(); }

void LauncherExchange::end_child() {
  const pid_t child = std::exchange(child_, -1);
  int status = 0;
  // Where it has ended, or a sweep has reaped it, its number may be another process' by now.
  if (child <= 0 || ::waitpid(child, &status, WNOHANG) != 0) return;
  ::kill(child, SIGKILL);
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

void LauncherExchange::finish(Milliseconds limit) {
  end_child();
  if (pmi_ >= 0) finish_pmi(pmi_, limit);
}

}  // namespace ddprun
