#include "os/libraries/munge.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "catch.hpp"
#include "os/descriptors.hpp"
#include "os/files/temp_dir.hpp"
#include "os/path_walk.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

// A munge daemon with a key and a socket of its own, for as long as this lives.
class PrivateDaemon {
 public:
  PrivateDaemon(const std::string& program, char key) : folder_(std::nullopt) {
    std::ofstream(folder_.path() + "/key") << std::string(1024, key);
    ::chmod((folder_.path() + "/key").c_str(), 0600);
    ::chmod(folder_.path().c_str(), 0755);
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) start(program);
  }
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;
  ~PrivateDaemon() {
    resume();
    ::kill(child_, SIGTERM);
    ::waitpid(child_, nullptr, 0);
  }

  std::string socket() const { return folder_.path() + "/socket"; }
  void suspend() const { ::kill(child_, SIGSTOP); }
  void resume() const { ::kill(child_, SIGCONT); }

  // Waits until it makes credentials.
  bool ready() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      if (Munge(socket()).encode("ready?").credential) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

 private:
  [[noreturn]] void start(const std::string& program) const {
    const std::string& base = folder_.path();
    const std::string options[] = {"--key-file=" + base + "/key", "--socket=" + socket(),
                                   "--pid-file=" + base + "/pid", "--seed-file=" + base + "/seed",
                                   "--log-file=" + base + "/log"};
    const int null = ::open("/dev/null", O_RDWR);
    for (const int standard : {0, 1, 2}) ::dup2(null, standard);
    ::execl(program.c_str(), "munged", "--foreground", "--force", "--num-threads=1", options[0].c_str(),
            options[1].c_str(), options[2].c_str(), options[3].c_str(), options[4].c_str(), nullptr);
    ::_exit(127);
  }

  TempDir folder_;
  pid_t child_ = -1;
};

std::optional<std::string> munged() {
  const facts::ProgramFacts found = capture_program("munged", "/usr/sbin:/usr/local/sbin:/sbin");
  if (found.kind == facts::ProgramKind::executable) return found.path;
  return std::nullopt;
}

}  // namespace

TEST_CASE("a credential proves its maker to the same user, once") {
  const auto program = munged();
  if (!program) SKIP("munged is not installed");
  const PrivateDaemon daemon(*program, 'a');
  REQUIRE(daemon.ready());
  Munge munge(daemon.socket());
  const std::string payload("nonce\0\xff", 7);
  const MungeEncoded encoded = munge.encode(payload);
  INFO(encoded.problem);
  REQUIRE(encoded.credential);
  CHECK(encoded.credential->starts_with("MUNGE:"));

  const MungeDecoded decoded = munge.decode(*encoded.credential);
  CHECK(decoded.payload == payload);
  CHECK(decoded.uid == ::geteuid());

  const MungeDecoded again = munge.decode(*encoded.credential);
  CHECK_FALSE(again.payload);
  CHECK(again.problem == "the credential has been used before");
}

TEST_CASE("what another cluster or nobody made is refused") {
  const auto program = munged();
  if (!program) SKIP("munged is not installed");
  const PrivateDaemon ours(*program, 'a');
  const PrivateDaemon theirs(*program, 'b');
  REQUIRE(ours.ready());
  REQUIRE(theirs.ready());
  const MungeEncoded foreign = Munge(theirs.socket()).encode("x");
  REQUIRE(foreign.credential);
  Munge munge(ours.socket());
  CHECK(munge.decode(*foreign.credential).problem == "Invalid credential (munge error 14)");
  for (const std::string& text :
       {std::string(), std::string("MUNGE:"), std::string("MUNGE:AAAA:"), std::string("x")}) {
    CAPTURE(text);
    const MungeDecoded decoded = munge.decode(text);
    CHECK_FALSE(decoded.payload);
    CHECK_FALSE(decoded.problem.empty());
  }
  CHECK(munge.decode(std::string("MUNGE:\0", 7)).problem == "this is not a munge credential");
  CHECK(munge.decode(std::string(Munge::k_credential_limit + 1, 'M')).problem ==
        "this is not a munge credential");
  CHECK(munge.encode(std::string(Munge::k_payload_limit + 1, 'x')).problem ==
        "a munge payload has at most 4096 bytes");
  CHECK(munge.encode(std::string(Munge::k_payload_limit, 'x')).credential);
}

TEST_CASE("a host without a munge daemon or library says so") {
  const std::string socket = "/nonexistent/munge.socket";
  const std::string refused = Munge(socket).encode("x").problem;
  CHECK(refused.starts_with("Failed to access \"/nonexistent/munge.socket\": No such file or directory"));
  CHECK(refused.ends_with("(munge error 6)"));
  Munge without_library("", Munge::k_deadline, "libmunge-of-nobody.so.2");
  const std::string problem = without_library.encode("x").problem;
  CHECK(problem.starts_with("libmunge cannot be loaded: libmunge-of-nobody.so.2: "));
  CHECK(without_library.decode("MUNGE:").problem == problem);
  CHECK(Munge("", Munge::k_deadline, "libc.so.6").encode("x").problem ==
        "libc.so.6 lacks a function of libmunge");
}

TEST_CASE("a daemon that takes connections and is silent holds nobody past the deadline") {
  const TempDir folder(std::nullopt);
  const std::string path = folder.path() + "/socket";
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  REQUIRE(::bind(listener.get(), generic, sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 8) == 0);
  Munge munge(path, Milliseconds{50});
  for (int call = 0; call < 3; ++call) {
    CHECK(munge.encode("x").problem == "cannot reach the munge daemon: no answer within 50 ms");
  }
  CHECK(munge.encode("x").problem == "the munge daemon has stopped answering");
  CHECK(munge.decode("MUNGE:").problem == "the munge daemon has stopped answering");

  Munge again(path, Milliseconds{50}, k_munge_library, Milliseconds{0});
  for (int call = 0; call < 5; ++call) {
    CHECK(again.encode("x").problem == "cannot reach the munge daemon: no answer within 50 ms");
  }
}

TEST_CASE("a daemon that wakes up in time is believed again") {
  const auto program = munged();
  if (!program) SKIP("munged is not installed");
  const PrivateDaemon daemon(*program, 'a');
  REQUIRE(daemon.ready());
  Munge munge(daemon.socket(), Milliseconds{500}, k_munge_library, Milliseconds{0});
  daemon.suspend();
  CHECK(munge.encode("x").problem == "cannot reach the munge daemon: no answer within 500 ms");
  daemon.resume();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!munge.encode("x").credential) REQUIRE(std::chrono::steady_clock::now() < deadline);
}
