// PMI-1 against a server of our own, in a child; the real ones are in the end-to-end tests.
#include "os/libraries/key_value_space.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <vector>

#include "catch.hpp"
#include "error_text.hpp"
#include "os/descriptors.hpp"

using namespace ddprun;
using namespace ddprun::os;
using Kind = facts::KeyValueAnswer::Kind;

namespace {

// What the server says to each request in turn; after the last it closes.
using Script = std::vector<std::string>;

const Script k_fetched{"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
                       "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n",
                       "cmd=my_kvsname kvsname=kvs_1\n",
                       "cmd=get_result rc=0 value=(vector,(0,2,1))\n",
                       "cmd=barrier_out\n",
                       "cmd=get_result rc=0 value=20480,10.0.0.1\n"};

std::string read_to_line_end(int descriptor) {
  std::string line;
  char byte = 0;
  while (::read(descriptor, &byte, 1) == 1) {
    line.push_back(byte);
    if (byte == '\n') break;
  }
  return line;
}

// Plays a script to one client, then answers finalize only and tells of everything else with a byte to
// `heard`; how often it was told finalize is its exit code.
[[noreturn]] void serve(int connection, const Script& script, int heard = -1) {
  for (const std::string& answer : script) {
    if (read_to_line_end(connection).empty()) ::_exit(99);
    if (::write(connection, answer.data(), answer.size()) < 0) ::_exit(98);
  }
  int finalized = 0;
  for (std::string line = read_to_line_end(connection); !line.empty(); line = read_to_line_end(connection)) {
    const bool last = line == facts::k_pmi_finalize;
    finalized += last ? 1 : 0;
    const std::string answer = last ? "cmd=finalize_ack\n" : "!";
    if (::write(last ? connection : heard, answer.data(), answer.size()) < 0) ::_exit(97);
  }
  ::_exit(finalized);
}

class Server {
 public:
  explicit Server(const Script& script) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    ours = Fd(ends[0]);
    Pipe pipe = make_pipe();
    heard_ = std::move(pipe.reader);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[0]);
      serve(ends[1], script, pipe.writer.get());
    }
    ::close(ends[1]);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  facts::Environment environment() const {
    return {{"PMI_FD", std::to_string(ours.get())}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  }
  void wait_for_request() const {
    pollfd waiting{heard_.get(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 30000) == 1);
  }
  int finished() {  // how often it was told finalize
    ours.close();
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WEXITSTATUS(status);
  }

  Fd ours;

 private:
  Fd heard_;
  pid_t process_ = -1;
};

facts::KeyValueAnswer answer_of(const KeyValueClient& key_value_space) {
  std::string text;
  char buffer[256];
  while (true) {
    pollfd waiting{key_value_space.descriptor(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 30000) == 1);
    const ssize_t count = ::read(key_value_space.descriptor(), buffer, sizeof buffer);
    if (count <= 0) return facts::parse_answer(text);
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

KeyValueRequest request_with(Milliseconds limit = Milliseconds{20000}) {
  KeyValueRequest request;
  request.answer_limit = limit;
  request.barrier_limit = limit;
  return request;
}

facts::KeyValueAnswer answer_to(const Script& script, const KeyValueRequest& request = request_with()) {
  const Server server(script);
  const KeyValueClient key_value_space(server.environment(), request);
  return answer_of(key_value_space);
}

Script first(std::size_t count) { return {k_fetched.begin(), k_fetched.begin() + static_cast<long>(count)}; }

}  // namespace

TEST_CASE("a member fetches the place over PMI_FD and says finalize when it leaves") {
  Server server(k_fetched);
  {
    KeyValueClient key_value_space(server.environment(), request_with());
    CHECK(answer_of(key_value_space) == facts::KeyValueAnswer{Kind::told, "20480,10.0.0.1"});
    key_value_space.finish(Milliseconds{20000});
  }
  CHECK(server.finished() == 1);
}

TEST_CASE("nothing is finalized unasked: the connection may be an MPI program's") {
  Server server(k_fetched);
  {
    const KeyValueClient key_value_space(server.environment(), request_with());
    CHECK(answer_of(key_value_space).kind == Kind::told);
  }
  CHECK(server.finished() == 0);
}

TEST_CASE("a key-value space that is given up in the barrier still finalizes") {
  Server server(first(4));
  {
    KeyValueClient key_value_space(server.environment(), request_with());
    server.wait_for_request();
    key_value_space.finish(Milliseconds{20000});
  }
  CHECK(server.finished() == 1);
}

TEST_CASE("a server that is gone, silent or endless ends the key-value space with a sentence") {
  {
    Server server({});
    REQUIRE(::shutdown(server.ours.get(), SHUT_RD) == 0);
    const KeyValueClient key_value_space(server.environment(), request_with());
    CHECK(answer_of(key_value_space).text == "it closed the connection when asked for init");
  }
  Script half = first(2);
  half.back() = "cmd=maxes kvsname_max=2";
  CHECK(answer_to(half, request_with(Milliseconds{3000})).text ==
        "it sent nothing for 3 s when asked for get_maxes");
  CHECK(answer_to({std::string(facts::k_max_pmi_line + 1, 'x')}).text ==
        "it sent an endless line when asked for init");
  CHECK(answer_to({"nonsense\n"}).text == "it answered init with 'nonsense'");
}

TEST_CASE("what follows the last answer is left for the worker") {
  Script script = k_fetched;
  script.back() += "for somebody else\n";
  const Server server(script);
  const KeyValueClient key_value_space(server.environment(), request_with());
  CHECK(answer_of(key_value_space).kind == Kind::told);
  CHECK(read_to_line_end(server.ours.get()) == "for somebody else\n");
}

TEST_CASE("PMI_PORT is connected to, greeted, and stays ours") {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = static_cast<sockaddr*>(static_cast<void*>(&address));
  socklen_t size = sizeof address;
  REQUIRE(::bind(listener.get(), generic, size) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), generic, &size) == 0);
  Script script = k_fetched;
  script.insert(script.begin(), "cmd=initack rc=0\ncmd=set size=2\ncmd=set rank=1\ncmd=set debug=0\n");
  const pid_t server = ::fork();
  if (server == 0) serve(::accept(listener.get(), nullptr, nullptr), script);
  {
    KeyValueClient key_value_space({{"PMI_PORT", "127.0.0.1:" + std::to_string(ntohs(address.sin_port))},
                                    {"PMI_ID", "1"},
                                    {"PMI_SIZE", "2"}},
                                   request_with());
    CHECK(answer_of(key_value_space) == facts::KeyValueAnswer{Kind::told, "20480,10.0.0.1"});
    key_value_space.finish(Milliseconds{20000});
  }
  int status = 0;
  REQUIRE(::waitpid(server, &status, 0) == server);
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("a PMI that cannot be is named") {
  const auto key_value_space_with = [](const facts::Environment& environment) {
    return error_of([&] { const KeyValueClient key_value_space(environment, request_with()); });
  };
  CHECK(key_value_space_with({}) == "neither PMI_FD nor PMI_PORT with PMI_ID is set |  | 125");
  CHECK(key_value_space_with({{"PMI_FD", "999999"}}) ==
        "PMI_FD=999999 is not an open descriptor of this process |  | 125");
  CHECK(key_value_space_with({{"PMI_FD", "x\n"}}) ==
        "PMI_FD=x\\x0a is not an open descriptor of this process |  | 125");
  const KeyValueClient nowhere({{"PMI_PORT", "nowhere"}, {"PMI_ID", "0"}}, request_with());
  CHECK(answer_of(nowhere).text == "PMI_PORT is not HOST:PORT");
}

TEST_CASE("without libpmix or a PMIx server the key-value space says so") {
  KeyValueRequest request = request_with();
  request.service = KeyValueRequest::Service::pmix;
  request.library = "libpmix-of-nobody.so.2";
  const KeyValueClient without_library({}, request);
  CHECK(answer_of(without_library).text.starts_with("libpmix cannot be loaded: libpmix-of-nobody.so.2: "));
  request.library = "libc.so.6";
  const KeyValueClient another_library({}, request);
  CHECK(answer_of(another_library).text == "libc.so.6 lacks a function of libpmix");
}
