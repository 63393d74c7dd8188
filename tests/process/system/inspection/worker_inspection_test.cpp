#include "inspection/worker_inspection.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <optional>

#include "catch.hpp"
#include "fake_root.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

// A process that answers whoever connects to its socket, and is the worker too.
class Answering {
 public:
  Answering(const std::string& path, const std::function<void(int)>& answer) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::ranges::copy(path, address.sun_path);
    const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    start(listening, answer);
  }
  // At a port of 127.0.0.1.
  explicit Answering(const std::function<void(int)>& answer) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::bind(listening, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    start(listening, answer);
  }
  ~Answering() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;
  int pid() const { return child_; }
  int port() const { return port_; }

 private:
  void start(int listening, const std::function<void(int)>& answer) {
    REQUIRE(::listen(listening, 8) == 0);
    child_ = ::fork();
    if (child_ == 0) serve(listening, answer);
    ::close(listening);
  }

  [[noreturn]] static void serve(int listening, const std::function<void(int)>& answer) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE, SIG_IGN);
    while (true) {
      const int asked = ::accept(listening, nullptr, nullptr);
      char request[512];
      if (::read(asked, request, sizeof request) > 0) answer(asked);
      ::close(asked);
    }
  }

  int child_ = 0;
  int port_ = 0;
};

bool say(int asked, std::string_view text) {
  return ::write(asked, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

constexpr std::string_view k_good = "HTTP/1.1 200 OK\r\n\r\n";

std::string text_of(const status::RankView& view) {
  return (view.answers ? "answers, " : "") + status::describe_place(view);
}

// What is seen of a worker whose server answers so.
std::string seen(const std::function<void(int)>& answer, bool stacks = true) {
  const FakeRoot folder;
  const std::string door = folder.path() + "/inspect_0";
  const Answering worker(door + ".socket", answer);
  std::vector<status::WorkerStatus> workers(1);
  workers[0].pid = worker.pid();
  inspection::inspect_workers(workers, {.workers = {door}}, stacks);
  return text_of(workers[0].view);
}

}  // namespace

TEST_CASE("a worker's server tells its collective") {
  CHECK(
      seen(
          [](int asked) {
            say(asked,
                std::string(k_good) +
                    R"({"entries":[{"record_id":0,"collective_seq_id":3,"profiling_name":"gloo:barrier"}]})");
          },
          false) == "answers, waits in barrier #3");
}

TEST_CASE("of torch 2.8 and 2.9 the recorder of NCCL is asked, which is empty for other backends") {
  const bool empty = GENERATE(false, true);
  const std::string entry = R"({"record_id":0,"collective_seq_id":3,"profiling_name":"nccl:all_reduce"})";
  int asked_before = 0;
  const std::string text = seen(
      [&, empty](int asked) {
        if (asked_before++ == 0)
          return static_cast<void>(say(asked, "HTTP/1.1 404 Not Found\r\n\r\nHandler not found"));
        say(asked, std::string(k_good) + R"({"entries":[)" + (empty ? "" : entry) + "]}");
      },
      false);
  CHECK(text == (empty ? "shows no stack and no collective" : "answers, waits in all_reduce #3"));
}

TEST_CASE("a server that answers wrongly, too much, or for ever does no harm") {
  const std::string nothing = "the interpreter does not answer";
  const auto answer = GENERATE(0, 1, 2, 3, 4, 5);
  const std::string text = seen([answer](int asked) {
    if (answer == 0) say(asked, "HTTP/1.1 500 Internal Server Error\r\n\r\n{}");
    if (answer == 1) say(asked, "no HTTP");
    if (answer == 2) say(asked, std::string(k_good) + std::string(9 << 20, '['));  // more than is read
    if (answer == 3) ::pause();
    if (answer == 4) {
      while (say(asked, "HTTP/1.1 200 OK\r\n")) continue;
    }
    if (answer == 5) say(asked, std::string(k_good) + R"({"threads":{"a":[[[[]]]]},"entries":7})");
  });
  INFO(answer);
  CHECK(text.find(nothing) != std::string::npos);
  CHECK(text.starts_with("answers") == (answer == 5));
}

TEST_CASE("a worker without a server, or whose socket is another kind of file, is not asked") {
  const FakeRoot folder;
  std::vector<status::WorkerStatus> workers(3);
  workers[0].pid = ::getpid();
  workers[1].pid = ::getpid();
  std::ofstream(folder.path() + "/inspect_1.socket") << "text";
  inspection::inspect_workers(workers,
                              {.workers = {folder.path() + "/nothing", folder.path() + "/inspect_1"}}, true);
  CHECK(text_of(workers[0].view).find("not inspected") != std::string::npos);
  CHECK(text_of(workers[1].view).find("does not answer") != std::string::npos);
  CHECK(workers[2].view == status::RankView{});
}

TEST_CASE("a worker whose script is over is asked for its collective alone") {
  const FakeRoot folder;
  const std::string door = folder.path() + "/inspect_0";
  const Answering worker(door + ".ending",
                         [](int asked) { say(asked, std::string(k_good) + R"({"entries":[]})"); });
  std::vector<status::WorkerStatus> workers(1);
  workers[0].pid = worker.pid();
  inspection::inspect_workers(workers, {.workers = {door}}, true);
  CHECK(text_of(workers[0].view) == "answers, has run its script to the end, and its process does not exit");
}

TEST_CASE(
    "NCCL's RAS is asked about ranks whose server does not answer, and believed about those of this host") {
  const std::string ranks =
      fmt::format(R"([{{"host":"127.0.0.1","pid":{0},"collective_counts":{{"AllReduce":5}}}},)"
                  R"({{"host":"10.255.255.1","pid":{0},"collective_counts":{{"AllReduce":6}}}}])",
                  ::getpid());
  const std::string answer = "SERVER PROTOCOL 2\nOK\nOK\n{\"communicators\":[{\"ranks\":" + ranks + "}]}\n";
  const auto kind = GENERATE(0, 1, 2, 3);
  INFO(kind);
  const Answering ras([&](int asked) {
    if (kind < 2) say(asked, answer);
    if (kind == 2) ::pause();
    if (kind == 3) {
      while (say(asked, answer)) continue;
    }
  });
  const FakeRoot folder;
  const std::string door = kind == 1 ? folder.path() + "/inspect_0" : "";
  std::optional<Answering> server;
  if (kind == 1) server.emplace(door + ".socket", [](int asked) { say(asked, std::string(k_good) + "{}"); });
  std::vector<status::WorkerStatus> workers(1);
  workers[0].pid = ::getpid();
  const auto collected = inspection::inspect_workers(workers, {{door}, ras.port()}, true);
  CHECK(workers[0].view.nccl == (kind == 0 ? std::optional(status::NcclCounts{5, 1}) : std::nullopt));
  CHECK(collected[0].ras == (kind < 2 ? answer : ""));
}
