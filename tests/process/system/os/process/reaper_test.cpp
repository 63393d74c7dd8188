#include "os/process/reaper.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "os/descriptors.hpp"
#include "os/process/process_table.hpp"
#include "processes.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

namespace {

struct Launched {
  Child launcher;
  Fd output;
  std::string said;
};

// A launcher with one worker, which has a child in a session of its own and stays or leaves it alone.
Launched launch(const std::string& mode, const std::string& worker = "stay") {
  Pipe pipe = make_pipe();
  SpawnRequest request = launcher_request({mode, DDPRUN_TEST_WORKER, "leave_grandchild", worker});
  request.standard_output = pipe.writer.get();
  Child launcher = start(request);
  pipe.writer.close();
  std::string said;
  const std::string last = mode == "keep" ? "reaper " : "worker ";
  while (said.find("grandchild ") == std::string::npos || said.find(last) == std::string::npos) {
    said += read_until(pipe.reader.get(), "\n");
  }
  return {std::move(launcher), std::move(pipe.reader), said};
}

// On a port of this host that the kernel has chosen.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    REQUIRE(::listen(socket_.get(), 1) == 0);
    socklen_t size = sizeof address_;
    REQUIRE(::getsockname(socket_.get(), generic(), &size) == 0);
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  int port() const { return ntohs(address_.sin_port); }
  Fd accept() const {
    Fd connection(::accept(socket_.get(), nullptr, nullptr));
    REQUIRE(connection);
    return connection;
  }
  Fd connect() {
    Fd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(connection.get(), generic(), sizeof address_) == 0);
    return connection;
  }

 private:
  sockaddr* generic() { return static_cast<sockaddr*>(static_cast<void*>(&address_)); }

  Fd socket_;
  sockaddr_in address_{};
};

// The destructor waits for a second only.
void dismiss_and_wait(Reaper& reaper) {
  const Fd process = open_pidfd(reaper.pid());
  reaper.dismiss();
  wait_until_gone(process);
  reap(reaper.pid());
}

}  // namespace

TEST_CASE("a launch id is random") {
  CHECK(make_random_id().size() == 32);
  CHECK(make_random_id() != make_random_id());
}

TEST_CASE("a worker dies with its launcher") {
  Launched launched = launch("no_reaper");
  const Fd worker = open_pidfd(number_after(launched.said, "worker "));
  const int grandchild = number_after(launched.said, "grandchild ");
  launched.launcher.send_signal(SIGKILL);
  wait_for_end(launched.launcher);
  wait_until_gone(worker);
  ::kill(grandchild, SIGKILL);
}

TEST_CASE("after a launcher killed by SIGKILL the reaper kills workers and what left their session") {
  Launched launched = launch("keep");
  const Fd worker = open_pidfd(number_after(launched.said, "worker "));
  const Fd grandchild = open_pidfd(number_after(launched.said, "grandchild "));
  const Fd reaper = open_pidfd(number_after(launched.said, "reaper "));
  launched.launcher.send_signal(SIGKILL);
  wait_for_end(launched.launcher);
  wait_until_gone(worker);
  wait_until_gone(grandchild);
  wait_until_gone(reaper);
  CHECK(read_until(launched.output.get(), "").find("cannot") == std::string::npos);  // nobody holds the pipe
}

TEST_CASE("a connection of a launcher killed by SIGKILL ends when none of its workers runs any more") {
  const Listener listener;
  Pipe pipe = make_pipe();
  SpawnRequest request = launcher_request(
      {"connected", std::to_string(listener.port()), DDPRUN_TEST_WORKER, "hold_memory", "256"});
  request.standard_output = pipe.writer.get();
  Child launcher = start(request);
  pipe.writer.close();
  std::string said;
  while (said.find("ready") == std::string::npos || said.find("worker ") == std::string::npos)
    said += read_until(pipe.reader.get(), "\n");
  const Fd worker = open_pidfd(number_after(said, "worker "));
  const Fd connection = listener.accept();
  REQUIRE(::write(connection.get(), "unread", 6) == 6);
  launcher.send_signal(SIGKILL);
  CHECK(read_until(connection.get(), "").empty());  // an end, not a reset
  pollfd ended{worker.get(), POLLIN, 0};
  CHECK(::poll(&ended, 1, 0) == 1);
  wait_for_end(launcher);
}

TEST_CASE("a connection that a killed launcher was started with goes on between the others") {
  Listener listener;
  const Fd ours = listener.connect();
  const Fd theirs = listener.accept();
  SpawnRequest request = launcher_request({"keep", DDPRUN_TEST_WORKER, "sleep_forever"});
  request.standard_output = ours.get();
  Child launcher = start(request);
  std::string said;
  while (said.find("reaper ") == std::string::npos || said.find("ready") == std::string::npos)
    said += read_until(theirs.get(), "\n");
  const Fd reaper = open_pidfd(number_after(said, "reaper "));
  launcher.send_signal(SIGKILL);
  wait_for_end(launcher);
  wait_until_gone(reaper);
  REQUIRE(::send(ours.get(), "on\n", 3, MSG_NOSIGNAL) == 3);
  CHECK(read_until(theirs.get(), "\n") == "on\n");
}

TEST_CASE("the reaper finds by its marker what no longer belongs to a worker") {
  Launched launched = launch("keep", "leave");
  wait_until_gone(open_pidfd(number_after(launched.said, "worker ")));
  const Fd grandchild = open_pidfd(number_after(launched.said, "grandchild "));
  launched.launcher.send_signal(SIGKILL);
  wait_for_end(launched.launcher);
  wait_until_gone(grandchild);
}

TEST_CASE("a job that a worker submitted carries the marker and outlives the reaper") {
  const std::string id = make_random_id();
  Pipe pipe = make_pipe();
  const auto marked = [&](const std::string& more) {
    SpawnRequest request = worker_request({"sleep_forever"});
    request.environment = {std::string(k_agent_variable) + "=" + id, more};
    request.standard_output = pipe.writer.get();
    Child child = start(request);
    read_until(pipe.reader.get(), "ready");
    return child;
  };
  Child ours = marked("SLURM_STEP_ID=0");
  Child submitted = marked("SLURM_JOB_ID=7");
  int reaper_pid = 0;
  {
    Reaper reaper(id);
    reaper_pid = reaper.pid();
  }
  CHECK(wait_for_end(ours).value == SIGKILL);
  wait_until_gone(open_pidfd(reaper_pid));
  reap(reaper_pid);
  CHECK_FALSE(submitted.ending());
  submitted.send_signal(SIGKILL);
  wait_for_end(submitted);
}

TEST_CASE("a dismissed reaper ends and harms nobody") {
  const std::string id = make_random_id();
  Reaper reaper(id);
  SpawnRequest request = worker_request({"sleep_forever"});
  request.environment = {std::string(k_agent_variable) + "=" + id};
  Pipe pipe = make_pipe();
  request.standard_output = pipe.writer.get();
  Child worker = start(request);
  read_until(pipe.reader.get(), "ready");
  reaper.watch(worker.pid());
  Listener listener;
  const Fd ours = listener.connect();
  const Fd theirs = listener.accept();
  dismiss_and_wait(reaper);
  CHECK_FALSE(capture_process(reaper.pid()));
  REQUIRE(::send(ours.get(), "on\n", 3, MSG_NOSIGNAL) == 3);  // what is connected stays so
  CHECK(read_until(theirs.get(), "\n") == "on\n");
  CHECK_FALSE(worker.ending());
  worker.send_signal(SIGKILL);
  wait_for_end(worker);
}

TEST_CASE("a reaper left without a word kills what it watches, and not what it was told to forget") {
  const auto sleeper = [] { return start(worker_request({"sleep_forever"})); };
  Child watched = sleeper();
  Child forgotten = sleeper();
  int reaper_pid = 0;
  {
    Reaper reaper(make_random_id());
    reaper_pid = reaper.pid();
    reaper.watch(watched.pid());
    reaper.watch(forgotten.pid());
    reaper.forget(forgotten.pid());
  }
  CHECK(wait_for_end(watched).value == SIGKILL);
  wait_until_gone(open_pidfd(reaper_pid));
  reap(reaper_pid);
  CHECK_FALSE(forgotten.ending());
  forgotten.send_signal(SIGKILL);
  wait_for_end(forgotten);
}

TEST_CASE("the reaper removes the launch's folders when all is well and when nobody said so") {
  for (const bool well : {true, false}) {
    CAPTURE(well);
    const std::string id = make_random_id();
    const std::vector<std::string> places{"/nonexistent/ddprun-" + id, "/tmp/ddprun-" + id};
    std::optional<Reaper> reaper(std::in_place, id, ReaperDuties{.folders = places});
    const Fd process = open_pidfd(reaper->pid());
    std::filesystem::create_directories(places[1] + "/attempt_0");  // after the fork: it knows the name
    std::ofstream(places[1] + "/attempt_0/error_0.json") << "x";
    const int pid = reaper->pid();
    if (well) reaper->dismiss();
    reaper.reset();
    wait_until_gone(process);
    reap(pid);
    CHECK_FALSE(std::filesystem::exists(places[1]));
  }
}

TEST_CASE("a file goes with the launcher that made it, unless another launch has written it anew") {
  const std::string path = "/tmp/ddprun-test-" + make_random_id();
  for (const bool anew : {false, true}) {
    CAPTURE(anew);
    std::ofstream(path) << "mine\n";
    std::optional<Reaper> reaper(std::in_place, make_random_id());
    const Fd process = open_pidfd(reaper->pid());
    const int pid = reaper->pid();
    reaper->remove_at_end(path, "mine\n");
    if (anew) std::ofstream(path) << "another's\n";
    reaper.reset();  // without a word
    wait_until_gone(process);
    reap(pid);
    CHECK(std::filesystem::exists(path) == anew);
  }
  std::filesystem::remove(path);
}

TEST_CASE("the reaper is known by its name, in its own session, and deaf to the keys") {
  Reaper reaper(make_random_id());
  std::optional<ProcessEntry> entry;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  do {
    entry = capture_process(reaper.pid());
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  } while (entry && (entry->name != "ddprun-reaper" || entry->session != reaper.pid()));
  REQUIRE(entry);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) ::kill(reaper.pid(), signal);
  CHECK(capture_process(reaper.pid())->state != 'T');
  dismiss_and_wait(reaper);
}

TEST_CASE("with mercy what is watched may end by itself, and is killed when it does not") {
  const auto start_trapping = [](const std::string& on_term, Fd writer) {
    SpawnRequest request;
    request.arguments = {
        "/bin/sh", "-c",
        "exec 2>/dev/null; trap '" + on_term + "' TERM; echo ready; while :; do sleep 0.05; done"};
    request.environment = {"PATH=/bin:/usr/bin"};
    request.standard_output = writer.get();
    request.group = ChildGroup::own_session;
    return start(request);
  };
  for (const bool obeys : {true, false}) {
    CAPTURE(obeys);
    Pipe pipe = make_pipe();
    Child child = start_trapping(obeys ? "echo ended; exit 0" : "echo ignored", std::move(pipe.writer));
    CHECK(read_until(pipe.reader.get(), "ready\n") == "ready\n");
    std::optional<Reaper> reaper(std::in_place, make_random_id(),
                                 ReaperDuties{.mercy = Milliseconds{obeys ? 20000 : 3000}});
    const int reaper_pid = reaper->pid();
    reaper->watch(child.pid());
    reaper.reset();
    CHECK(read_until(pipe.reader.get(), obeys ? "ended\n" : "ignored\n").ends_with("d\n"));
    const ExitStatus status = wait_for_end(child);
    wait_until_gone(open_pidfd(reaper_pid));
    reap(reaper_pid);
    CHECK(status.kind == (obeys ? ExitStatus::Kind::exited : ExitStatus::Kind::signalled));
  }
}
