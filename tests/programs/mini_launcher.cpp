// A launcher without a plan, for what only shows when the parent dies or has a terminal of its own.
//   mini_launcher keep|no_reaper WORKER...   starts the worker, says its pid, waits to be killed
//   mini_launcher connected PORT WORKER...   the same as keep, with a connection to PORT of this host
//   mini_launcher lend WORKER...             gives its terminal to the worker, through ^Z and back
//   mini_launcher keep_terminal WORKER...    does not: the worker is stopped when it reads
//   mini_launcher type_for WORKER...         reads the terminal for the worker
//   mini_launcher type_for_next WORKER...    the same, after one that has read nothing of three lines
//   mini_launcher pour BYTES                 writes to a pipe that it may not open anew, as far as root can
//   arrange that mini_launcher shell_with_bg LAUNCHER...  reads a line itself before the launcher comes to
//   the foreground mini_launcher shell LAUNCHER...          a session leader with job control on the terminal
//   that is its stdin
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/process/reaper.hpp"
#include "os/process/signals.hpp"
#include "os/process/spawn.hpp"
#include "os/terminal/terminal.hpp"
#include "streams/input_pump.hpp"

extern char** environ;

namespace {

using namespace ddprun;
using Arguments = std::vector<std::string>;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

os::SpawnRequest request_for(const Arguments& arguments) {
  os::SpawnRequest request;
  request.arguments = arguments;
  for (char** variable = environ; *variable != nullptr; ++variable)
    request.environment.emplace_back(*variable);
  return request;
}

os::Child start(const os::SpawnRequest& request) {
  auto started = os::spawn(request);
  if (auto* child = std::get_if<os::Child>(&started)) return std::move(*child);
  say("cannot start: " + std::string(stage_name(std::get<os::SpawnFailure>(started).stage)));
  ::_exit(1);
}

[[noreturn]] void wait_to_be_killed() {
  while (true) ::pause();
}

os::Fd connect_to(const std::string& port) {
  os::Fd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = static_cast<sockaddr*>(static_cast<void*>(&address));
  if (::connect(connection.get(), generic, sizeof address) != 0) ::_exit(1);
  return connection;
}

[[noreturn]] void keep(const Arguments& arguments, const std::string& id, os::Reaper* reaper) {
  os::SpawnRequest request = request_for(arguments);
  if (reaper != nullptr) request.environment.push_back(std::string(os::k_agent_variable) + "=" + id);
  // Only the reaper is to reach the worker where one is tested.
  request.die_with_parent = reaper == nullptr;
  os::Child worker = start(request);
  if (reaper != nullptr) reaper->watch(worker.pid());
  say("worker " + std::to_string(worker.pid()));
  if (reaper != nullptr) say("reaper " + std::to_string(reaper->pid()));
  wait_to_be_killed();
}

[[noreturn]] void keep_with_reaper(const Arguments& arguments) {
  const std::string id = os::make_random_id();
  os::Reaper reaper(id, {.holding = Milliseconds{20000}});
  keep(arguments, id, &reaper);
}

// With more descriptors than it had been allowed before it had its reaper.
[[noreturn]] void keep_connected(const Arguments& arguments) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 64;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const std::string id = os::make_random_id();
  os::Reaper reaper(id, {.holding = Milliseconds{20000}});
  os::raise_open_files_limit();
  std::vector<os::Fd> open;
  for (int descriptors = 0; descriptors < 100; ++descriptors) open.push_back(os::open_null());
  const os::Fd connection = connect_to(arguments.at(0));
  keep({arguments.begin() + 1, arguments.end()}, id, &reaper);
}

// Follows a job through stops until it ends, as the driver and a shell do.
template <class OnStop>
ExitStatus follow(os::Child& child, os::SignalSource& signals, const OnStop& on_stop) {
  while (true) {
    if (const auto status = child.reap()) return *status;
    if (const auto stop = child.take_stop()) on_stop(*stop);
    pollfd ready{signals.descriptor().get(), POLLIN, 0};
    ::poll(&ready, 1, -1);
    while (signals.read()) continue;
  }
}

int lend(const Arguments& arguments) {
  os::SignalSource signals({SIGCHLD});
  auto terminal = os::Terminal::open_controlling();
  if (!terminal) return 1;
  os::SpawnRequest request = request_for(arguments);
  request.terminal = terminal->descriptor();
  os::Child worker = start(request);
  follow(worker, signals, [&](int) {
    terminal->take_back(worker.pid());
    say("launcher stops");
    os::stop_own_group();
    say(std::string("launcher continues ") + (terminal->in_foreground() ? "in front" : "behind"));
    terminal->give_to(worker.pid());
    worker.send_signal_to_group(SIGCONT);
  });
  terminal->take_back(worker.pid());
  say(std::string("terminal ") + (terminal->in_foreground() ? "is back" : "is lost"));
  return 0;
}

int keep_terminal(const Arguments& arguments) {
  os::SignalSource signals({SIGCHLD});
  os::Child worker = start(request_for(arguments));
  follow(worker, signals, [&](int signal) {
    say("worker stopped by " + std::to_string(signal));
    worker.send_signal(SIGKILL);
  });
  return 0;
}

int type_for(const Arguments& arguments) {
  const os::SignalSource signals({SIGCHLD});  // SIGPIPE does not end us while it lives
  boost::asio::io_context context;
  os::Pipe pipe = os::make_pipe();
  os::SpawnRequest request = request_for(arguments);
  request.standard_input = pipe.reader.get();
  os::Child worker = start(request);
  pipe.reader.close();
  streams::InputPump pump(context, 0);
  pump.connect(std::move(pipe.writer));
  context.run();  // until the worker has closed its input, or the terminal is at its end
  pollfd ended{worker.pidfd().get(), POLLIN, 0};
  ::poll(&ended, 1, -1);
  worker.reap();
  say("launcher ends");
  return 0;
}

int unread(int descriptor) {
  int count = 0;
  return ::ioctl(descriptor, FIONREAD, &count) == 0 ? count : 0;
}

// Of 4000, 4000 and 2 bytes: one fills the pipe, one the pump cannot pass on, one is still in the terminal.
void wait_for_three_lines(boost::asio::io_context& context, int pipe) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (unread(pipe) != 4000 || unread(0) != 2) {
    if (std::chrono::steady_clock::now() > limit) ::_exit(1);
    context.run_for(std::chrono::milliseconds(10));
  }
}

int type_for_next(const Arguments& arguments) {
  const os::SignalSource signals({SIGCHLD});  // SIGPIPE does not end us while it lives
  boost::asio::io_context context;
  streams::InputPump pump(context, 0);
  os::Pipe pipe = os::make_pipe();
  ::fcntl(pipe.writer.get(), F_SETPIPE_SZ, 4096);
  const os::Fd look = os::duplicate(pipe.reader.get());
  pump.connect(std::move(pipe.writer));
  say("nobody reads");
  wait_for_three_lines(context, look.get());
  pump.disconnect();

  pipe = os::make_pipe();
  os::SpawnRequest request = request_for(arguments);
  request.standard_input = pipe.reader.get();
  os::Child worker = start(request);
  pipe.reader.close();
  pump.connect(std::move(pipe.writer));
  context.restart();
  context.run();
  pollfd ended{worker.pidfd().get(), POLLIN, 0};
  ::poll(&ended, 1, -1);
  worker.reap();
  say("launcher ends");
  return 0;
}

// Slurm's and sudo's pipes belong to another user.
int pour(const Arguments& arguments) {
  if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;
  os::OutputSink sink(1);
  std::string text(std::stoul(arguments.at(0)), 'x');
  while (!text.empty()) {
    text.erase(0, sink.write(text));
    pollfd ready{sink.watch().get(), POLLIN, 0};
    ::poll(&ready, 1, -1);
  }
  return sink.error();
}

int shell(const Arguments& arguments, bool in_background_first) {
  os::SignalSource signals({SIGCHLD});
  ::ioctl(0, TIOCSCTTY, 0);
  auto terminal = os::Terminal::open_controlling();
  if (!terminal) return 1;
  os::SpawnRequest request = request_for(arguments);
  if (!in_background_first) request.terminal = terminal->descriptor();
  os::Child job = start(request);
  if (in_background_first) {
    char line[256];
    if (std::fgets(line, sizeof line, stdin) == nullptr) return 1;
    say(std::string("shell got ") + line);
    terminal->give_to(job.pid());
  }
  const ExitStatus status = follow(job, signals, [&](int signal) {
    terminal->take_back(job.pid());
    say("job stopped by " + std::to_string(signal));
    terminal->give_to(job.pid());
    job.send_signal_to_group(SIGCONT);
  });
  terminal->take_back(job.pid());
  say("job ended with " + std::to_string(status.value));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const Arguments arguments(argv + (argc > 1 ? 2 : 1), argv + argc);
  if (verb == "keep") keep_with_reaper(arguments);
  if (verb == "no_reaper") keep(arguments, {}, nullptr);
  if (verb == "connected") keep_connected(arguments);
  if (verb == "lend") return lend(arguments);
  if (verb == "keep_terminal") return keep_terminal(arguments);
  if (verb == "type_for") return type_for(arguments);
  if (verb == "type_for_next") return type_for_next(arguments);
  if (verb == "pour") return pour(arguments);
  if (verb == "shell" || verb == "shell_with_bg") return shell(arguments, verb == "shell_with_bg");
  return 2;
}
