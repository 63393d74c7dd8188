// Copies on their way between hosts, with real sockets of one machine.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "net/staging/stage_exchange.hpp"
#include "net/tcp_tools.hpp"

using namespace ddprun;
using namespace ddprun::net;

namespace {

std::shared_ptr<const staging::Manifest> manifest_of(std::uint64_t size) {
  staging::Manifest manifest{"/shared/image", "/shared/image", {}};
  manifest.entries.push_back({"", staging::Kind::file, 0644, size, 0, 0, {}});
  return std::make_shared<const staging::Manifest>(std::move(manifest));
}

std::string contents_of(std::size_t size) {
  std::string contents(size, '\0');
  for (std::size_t i = 0; i < size; ++i) contents[i] = static_cast<char>(i * 31 >> 3);
  return contents;
}

using Items = std::vector<StagedItem>;

void begin(Items& items, std::size_t size) {
  const auto manifest = manifest_of(size);
  items[0].begin(manifest, std::make_shared<const std::string>(staging::encode(*manifest)));
}

// A host that serves in a process of its own, as each does: Asio is built for one thread. `play`: what
// becomes of its copy there.
class Host {
 public:
  Host(std::string name, const std::string& contents, const std::function<void(Items& items)>& play)
      : name_(std::move(name)) {
    const BoundSocket listener = bind_port(0, 16);
    door_ = fmt::format("{}/{}", listener.port, name_);
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve(listener.descriptor, contents, play);
    }
    ::close(listener.descriptor);
  }
  ~Host() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  staging::Server server(const std::string& address = "127.0.0.1") const { return {name_, door_, {address}}; }

 private:
  [[noreturn]] void serve(int listener, const std::string& contents,
                          const std::function<void(Items& items)>& play) const {
    Items items(1);
    std::thread([&] {
      serve_staged(listener, {"launch", name_}, items, [&](const StagedItem::View&) -> ReadStaged {
        return [&](std::uint64_t offset, std::size_t most) { return contents.substr(offset, most); };
      });
    }).detach();
    play(items);
    for (;;) ::pause();
  }

  std::string name_, door_;
  pid_t child_ = -1;
};

Host complete_host(const std::string& name, const std::string& contents) {
  return Host(name, contents, [&](Items& items) {
    begin(items, contents.size());
    items[0].complete("digest");
  });
}

Host failed_host(const std::string& name, const std::string& why) {
  return Host(name, "", [&](Items& items) { items[0].fail(why); });
}

struct Got {
  std::optional<std::string> digest;
  std::string contents;
  std::vector<std::string> told;
  std::string why, from;
};

Got get(const std::vector<staging::Server>& sources) {
  Got got;
  StageClient client(
      {sources, "launch", [&](const std::string& what) { got.told.push_back(what); }, [] { return false; }});
  const auto list = client.get_list(0);
  if (list) got.digest = client.get_contents(0, 0, [&](std::string_view bytes) { got.contents += bytes; });
  got.why = client.why();
  got.from = client.host();
  return got;
}

}  // namespace

TEST_CASE("a list and contents come whole, in order, also of a source that still gets them") {
  const std::string contents = contents_of(3000001);
  const Host root("root", contents, [&](Items& items) {
    begin(items, contents.size());
    for (std::uint64_t at = 0; at < contents.size(); at += 100000) items[0].advance(at);
    items[0].complete("digest");
  });
  const Got got = get({root.server()});
  CHECK(got.digest == "digest");
  CHECK(got.contents == contents);
}

TEST_CASE("where the parent cannot be reached, has none or is another, the next one is asked") {
  const std::string contents = contents_of(1000);
  const Host root = complete_host("root", contents);
  const Host full = failed_host("full", "full has no copy: no room");
  staging::Server stranger = full.server();
  stranger.door = stranger.door.substr(0, stranger.door.find('/')) + "/another secret";
  const BoundSocket closed = bind_port(0, 0);  // nobody listens
  for (const staging::Server& parent :
       {full.server(), stranger, staging::Server{"gone", fmt::format("{}/x", closed.port), {"127.0.0.1"}},
        staging::Server{"odd", "door", {"127.0.0.1"}}}) {
    CAPTURE(parent.host);
    const Got got = get({parent, root.server()});
    CHECK(got.contents == contents);
    CHECK(got.from == "root");
    REQUIRE_FALSE(got.told.empty());
    CHECK(got.told.front().find("asking root instead of " + parent.host) != std::string::npos);
  }
}

TEST_CASE("a transfer goes on with the next source where the one before failed") {
  const std::string contents = contents_of(600000);
  const Host root = complete_host("root", contents);
  const Host parent("parent", contents, [&](Items& items) {
    begin(items, contents.size());
    items[0].advance(300000);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    items[0].fail("the disk of parent has failed");
  });
  const Got got = get({parent.server(), root.server()});
  CHECK(got.contents == contents);
  CHECK(got.digest == "digest");
  CHECK(got.from == "root");
}

TEST_CASE("where nobody has it, the last one says why") {
  const Host root = failed_host("root", "cannot read /shared/image: permission denied");
  const Got got = get({root.server()});
  CHECK_FALSE(got.digest);
  CHECK(got.why == "cannot read /shared/image: permission denied");
  CHECK(get({root.server("127.0.0.2"), root.server()}).why == "cannot read /shared/image: permission denied");
}

TEST_CASE("idle strangers cost no thread and do not keep an agent out") {
  const std::string contents = contents_of(1000);
  const Host root = complete_host("root", contents);
  const std::string door = root.server().door;
  const int port = static_cast<int>(*parse_integer(door.substr(0, door.find('/'))));
  std::vector<TimedSocket> strangers(80);
  for (TimedSocket& each : strangers) REQUIRE(each.connect("127.0.0.1", port, Milliseconds{5000}).empty());
  CHECK(get({root.server()}).contents == contents);
  char byte = 0;
  CHECK(strangers.front().read_some(&byte, 1, Milliseconds{0}) <= 0);  // no greeting for a stranger
}
