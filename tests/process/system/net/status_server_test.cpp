#include "net/status_server.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <csignal>
#include <optional>

#include "catch.hpp"
#include "os/status_socket.hpp"

using namespace ddprun;
using namespace ddprun::net;

namespace {

// What a child of another user, or of this one, gets while `context` serves it. It serves until the child
// has its text, not until the first answer: the ddprun --status of others finds the socket too.
std::string ask_as(unsigned user, const std::string& name, boost::asio::io_context& context,
                   const std::string& request = {}) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool other = user == 0 || ::setuid(user) == 0;
    std::string text = other ? "" : "cannot become another user";
    for (const std::string& answer : os::ask_status_sockets({name}, Milliseconds{10000}, request).texts)
      text += answer;
    const auto written = ::write(ends[1], text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  boost::asio::posix::stream_descriptor reader(context, ends[0]);
  std::string text;
  bool ended = false;
  boost::asio::async_read(reader, boost::asio::dynamic_buffer(text),
                          [&](const auto&, std::size_t) { ended = true; });
  while (!ended) context.run_one();
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return text;
}

struct Serving {
  explicit Serving(const std::string& name) : Serving(std::vector{name}) {}
  explicit Serving(const std::vector<std::string>& names)
      : server(context, names,
               {[this](int descriptor) {
                  const bool may_ask = os::is_of_this_user(descriptor);
                  if (!may_ask) ++refused;
                  return may_ask;
                },
                [this] { server.answer("all is well"); }}) {}
  boost::asio::io_context context;
  int refused = 0;
  StatusServer server;
};

}  // namespace

TEST_CASE("who asks gets the answer") {
  const std::string name = os::status_socket_name(::getpid());
  Serving serving(name);
  REQUIRE(serving.server.listens());
  CHECK(ask_as(0, name, serving.context) == "all is well");
  const std::vector<std::string> names = os::list_status_sockets();
  CHECK(std::ranges::find(names, name) != names.end());
}

TEST_CASE("who asks gets all of it though a child of the server lives on") {
  const std::string name = os::status_socket_name(::getpid());
  pid_t child = -1;
  boost::asio::io_context context;
  std::optional<StatusServer> server;
  const auto answer = [&] {
    if (child < 0) child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    server->answer("all is well");
  };
  server.emplace(context, std::vector{name}, StatusServer::Hooks{os::is_of_this_user, answer});
  CHECK(ask_as(0, name, context) == "all is well");
  CHECK(::kill(child, SIGKILL) == 0);
  CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a request is read to its end, and each gets its own answer") {
  const std::string name = os::status_socket_name(::getpid(), os::Asks::restart);
  boost::asio::io_context context;
  StatusServer::Hooks hooks;
  std::string peer;
  hooks.may_ask = os::is_of_this_user;
  hooks.requested = [&](int descriptor, const std::string& request,
                        const StatusServer::Hooks::Answer& answer) {
    peer = os::describe_peer(descriptor, "ada");
    answer("not " + request);
  };
  const StatusServer server(context, {name}, hooks);
  CHECK(ask_as(0, name, context, "today") == "not today");
  CHECK(peer.starts_with("ada (pid "));
}

TEST_CASE("a request that is too long is not read") {
  const std::string name = os::status_socket_name(::getpid(), os::Asks::restart);
  boost::asio::io_context context;
  StatusServer::Hooks hooks;
  bool seen = false, requested = false;
  hooks.may_ask = [&](int) { return seen = true; };
  hooks.requested = [&](int, const std::string&, const auto&) { requested = true; };
  const StatusServer server(context, {name}, hooks);
  CHECK(ask_as(0, name, context, std::string(5000, 'x')).empty());
  CHECK(seen);
  CHECK_FALSE(requested);
}

TEST_CASE("who does not answer is named") {
  const std::string name = os::status_socket_name(::getpid());
  const Serving serving(name);
  const os::StatusAnswers answers = os::ask_status_sockets({name}, Milliseconds{50});
  CHECK(answers.texts.empty());
  CHECK(answers.silent == std::vector<std::string>{name});
}

TEST_CASE("another user gets nothing") {
  if (::geteuid() != 0) SKIP("needs root to become another user");
  const std::string name = os::status_socket_name(::getpid());
  Serving serving(name);
  CHECK(ask_as(65534, name, serving.context).empty());
  CHECK(serving.refused > 0);
}

TEST_CASE("a name that is taken costs nothing but the answers") {
  const std::string name = os::status_socket_name(::getpid());
  Serving first(name);
  const Serving second(name);
  CHECK(first.server.listens());
  CHECK_FALSE(second.server.listens());
}

TEST_CASE("where a name is taken another one is listened at, and both are found") {
  const std::string name = os::status_socket_name(::getpid());
  const Serving first(name);
  Serving second(std::vector{name, name + "/8f3c"});
  REQUIRE(second.server.name() == name + "/8f3c");
  CHECK(os::process_of_status_socket(second.server.name()) == std::to_string(::getpid()));
  CHECK(os::process_of_status_socket(name) == std::to_string(::getpid()));
  CHECK(ask_as(0, second.server.name(), second.context) == "all is well");
  const std::vector<std::string> names = os::list_status_sockets();
  CHECK(std::ranges::count(names, name) + std::ranges::count(names, name + "/8f3c") == 2);
  CHECK_FALSE(os::find_other_owner(name));
}

TEST_CASE("who listens is found in the kernel's table") {
  const std::string table =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 17 @ddprun/status/1000/4711\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 18 @ddprun/status/1000/4711\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 19 @ddprun/status/10005/9\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 20\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 21 /run/@ddprun/status/1000/5\n";
  CHECK(os::parse_status_sockets(table, 1000) == std::vector<std::string>{"ddprun/status/1000/4711"});
  CHECK(os::parse_status_sockets(table, 10).empty());
}
