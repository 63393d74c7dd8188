#include "os/process/spawn.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/child_call.hpp"
#include "os/process/signals.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ddprun-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  std::string file(const std::string& name, const std::string& text, ::mode_t mode) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

ExitStatus ending_of(const SpawnRequest& request) {
  auto started = spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&started)) return not_started(*failure);
  return wait_for_end(std::get<Child>(started));
}

void check_failure(const SpawnRequest& request, StartStage stage, int error) {
  CHECK(ending_of(request) == not_started({stage, error}));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

SpawnRequest program(const std::string& name) {
  SpawnRequest request;
  request.arguments = {name};
  return request;
}

}  // namespace

TEST_CASE("why a program did not start is told apart") {
  const TemporaryDirectory directory;
  check_failure(program(directory.path() + "/none"), StartStage::exec, ENOENT);
  check_failure(program(directory.file("plain", "#!/bin/sh\n", 0644)), StartStage::exec, EACCES);
  check_failure(program(directory.file("text", "just text\n", 0755)), StartStage::exec, ENOEXEC);
  check_failure(program(directory.file("script", "#!/no/such/python\n", 0755)), StartStage::interpreter,
                ENOENT);
  check_failure(SpawnRequest{}, StartStage::exec, ENOENT);

  SpawnRequest elsewhere = worker_request({"exit_with", "0"});
  elsewhere.working_directory = directory.path() + "/none";
  check_failure(elsewhere, StartStage::working_directory, ENOENT);
  SpawnRequest closed = worker_request({"exit_with", "0"});
  closed.standard_output = 4000;
  check_failure(closed, StartStage::descriptors, EBADF);
  SpawnRequest no_terminal = worker_request({"exit_with", "0"});
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  no_terminal.terminal = null.get();
  check_failure(no_terminal, StartStage::terminal, ENOTTY);
}

TEST_CASE("a failed start leaves no process and becomes an ending with its stage") {
  CHECK(ending_of(program("/no/such/program")) ==
        ExitStatus{ExitStatus::Kind::not_started, ENOENT, StartStage::exec, false});
  errno = 0;
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("the program is looked up in the PATH of its own environment") {
  const TemporaryDirectory directory;
  directory.file("broken/tool", "#!/no/such/interpreter\n", 0755);
  directory.file("good/tool", "#!/bin/sh\necho \"$0\"\n", 0755);
  SpawnRequest request = program("tool");
  request.environment = {"PATH=/none:" + directory.path() + "/broken:" + directory.path() + "/good"};
  CHECK(output_of(request) == directory.path() + "/good/tool\n");

  request.environment = {"PATH=/none:" + directory.path() + "/broken"};
  check_failure(request, StartStage::interpreter, ENOENT);

  SECTION("an empty piece is the directory it starts in") {
    request.environment = {"PATH=/none:"};
    request.working_directory = directory.path() + "/good";
    CHECK(output_of(request) == "tool\n");
  }
}

TEST_CASE("a child gets its environment, directory, group and CPUs, and only 0, 1 and 2") {
  const SignalSource signals(handled_signals());  // blocked here, and SIGPIPE ignored
  const Fd open_elsewhere(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  SpawnRequest request = worker_request({"print_state"});
  request.working_directory = "/";
  request.binding.cpus = {capture_allowed_cpus().front()};
  request.close_descriptors = capture_inherited_descriptors();  // of whoever runs the tests

  SECTION("all at their defaults") {
    const std::string state = output_of(request);
    CHECK(state ==
          "descriptors 0 1 2\nblocked\nignored\ngroup own\nsession inherited\ndirectory /\ncpus 1\n");
  }
  SECTION("a session of its own, and hang-ups ignored as under nohup") {
    request.group = ChildGroup::own_session;
    request.ignored_signals = {SIGHUP};
    const std::string state = output_of(request);
    CHECK(contains(state, "ignored 1\n"));
    CHECK(contains(state, "session own\n"));
  }
  SECTION("the environment is exactly what was asked for") {
    request = worker_request({"print_env", "RANK", "PATH"});
    request.environment = {"RANK=3"};
    CHECK(output_of(request) == "RANK=3\nPATH=(unset)\n");
  }
}

TEST_CASE("descriptors inherited from our parent go on unless they are to be closed") {
  const int inherited = ::fcntl(2, F_DUPFD, 100);  // without close-on-exec, as a launcher's PMI socket
  REQUIRE(inherited >= 100);
  const Fd owner(inherited);
  const std::vector<int> all = capture_inherited_descriptors();
  CHECK(std::count(all.begin(), all.end(), inherited) == 1);
  SpawnRequest request = worker_request({"print_state"});
  const auto is_open = [&] {
    const std::string state = output_of(request);
    return contains(state.substr(0, state.find('\n')) + " ", " " + std::to_string(inherited) + " ");
  };
  CHECK(is_open());
  request.close_descriptors = {inherited};
  CHECK_FALSE(is_open());
}

TEST_CASE("a child may have its own limit of open files") {
  SpawnRequest request;
  request.arguments = {"sh", "-c", "ulimit -n"};
  request.open_files = 77;
  CHECK(output_of(request) == "77\n");
}

TEST_CASE("a child's descriptors may be any permutation of ours") {
  Pipe pipe = make_pipe();
  // Output to what is our 2, errors to a pipe that is our 1: both sources are also targets.
  const Fd saved_output = duplicate(1);
  const Fd saved_error = duplicate(2);
  SpawnRequest request;
  request.arguments = {"/bin/sh", "-c", "echo out; echo err >&2"};
  request.standard_output = 2;
  request.standard_error = 1;
  Pipe second = make_pipe();
  REQUIRE(::dup2(pipe.writer.get(), 2) == 2);
  REQUIRE(::dup2(second.writer.get(), 1) == 1);
  Child child = start(request);
  ::dup2(saved_output.get(), 1);
  ::dup2(saved_error.get(), 2);
  pipe.writer.close();
  second.writer.close();
  CHECK(read_until(pipe.reader.get(), "") == "out\n");
  CHECK(read_until(second.reader.get(), "") == "err\n");
  CHECK(wait_for_end(child).success());
}

namespace {

// From now on no child of this process may share its memory, as in some containers.
void refuse_sharing() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VM, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

}  // namespace

TEST_CASE("a child that may not share our memory is made all the same") {
  const auto start_some = [] {
    refuse_sharing();
    alignas(16) static std::array<char, 65536> stack;
    const int shared = ::clone([](void*) { return 0; }, &stack.back() - 15, CLONE_VM | SIGCHLD, nullptr);
    const bool refused = shared < 0 && errno == EPERM;
    const ExitStatus good = ending_of(worker_request({"exit_with", "7"}));
    const ExitStatus bad = ending_of(program("/no/such/program"));
    const bool as_asked = good == ExitStatus{ExitStatus::Kind::exited, 7, {}, false} &&
                          bad == ExitStatus{ExitStatus::Kind::not_started, ENOENT, StartStage::exec, false};
    return std::string(refused && as_asked ? "as asked" : "otherwise");
  };
  CHECK(call_in_child(start_some, std::chrono::seconds(60)).bytes == "as asked");
}

TEST_CASE("a child that has not become its program keeps what it was given, whatever we do meanwhile") {
  std::vector<Child> children;
  std::vector<Pipe> pipes;
  for (int i = 0; i < 20; ++i) {
    SpawnRequest request = worker_request({"print_env", "RANK"});
    request.environment = {"RANK=" + std::string(5000, static_cast<char>('a' + i))};
    request.hold = true;
    pipes.push_back(make_pipe());
    request.standard_output = pipes.back().writer.get();
    children.push_back(start(request));
    pipes.back().writer.close();
  }
  const std::vector<std::string> others(1000, std::string(5000, 'z'));
  for (std::size_t i = 0; i < children.size(); ++i) {
    children[i].release();
    const std::string text(5000, static_cast<char>('a' + static_cast<int>(i)));
    CHECK(read_until(pipes[i].reader.get(), "") == "RANK=" + text + "\n");
    CHECK(wait_for_end(children[i]).success());
  }
}

TEST_CASE("sixty-four children at once all start and end") {
  std::vector<Child> children;
  for (int i = 0; i < 64; ++i) children.push_back(start(worker_request({"exit_with", std::to_string(i)})));
  for (int i = 0; i < 64; ++i) {
    CHECK(wait_for_end(children[static_cast<std::size_t>(i)]) ==
          ExitStatus{ExitStatus::Kind::exited, i, {}, false});
  }
}
