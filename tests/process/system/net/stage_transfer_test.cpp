// Copies on their way between hosts, with real sockets of one process.
#include <fmt/format.h>

#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "net/bound_socket.hpp"
#include "net/staging/stage_client.hpp"
#include "net/staging/stage_server.hpp"

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

// Never ends, as in its own process.
struct Host {
  explicit Host(std::string host_name, std::string text)
      : name(std::move(host_name)), contents(std::move(text)) {
    const BoundSocket listener = bind_port(0, 16);
    door = fmt::format("{}/{}", listener.port, name);
    std::thread([this, listener] {
      serve_staged(
          listener.descriptor, {"launch", name}, items, [this](const StagedItem::View&) -> ReadStaged {
            return [this](std::uint64_t offset, std::size_t most) { return contents.substr(offset, most); };
          });
    }).detach();
  }
  void begin() {
    const auto manifest = manifest_of(contents.size());
    items[0].begin(manifest, std::make_shared<const std::string>(staging::encode(*manifest)));
  }
  void complete(const std::string& digest) {
    begin();
    items[0].complete(digest);
  }
  staging::Server server(const std::string& address = "127.0.0.1") const { return {name, door, {address}}; }

  std::string name, contents, door;
  std::vector<StagedItem> items{1};
};

Host& host(const std::string& name, const std::string& contents) { return *new Host(name, contents); }

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
  Host& root = host("root", contents);
  std::thread fills([&] {
    root.begin();
    for (std::uint64_t at = 0; at < contents.size(); at += 100000) root.items[0].advance(at);
    root.items[0].complete("digest");
  });
  const Got got = get({root.server()});
  fills.join();
  CHECK(got.digest == "digest");
  CHECK(got.contents == contents);
}

TEST_CASE("where the parent cannot be reached, has none or is another, the next one is asked") {
  const std::string contents = contents_of(1000);
  Host& root = host("root", contents);
  root.complete("digest");
  Host& full = host("full", contents);
  full.items[0].fail("full has no copy: no room");
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
  Host& root = host("root", contents);
  root.complete("digest");
  Host& parent = host("parent", contents);
  parent.begin();
  parent.items[0].advance(300000);
  std::thread fails([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    parent.items[0].fail("the disk of parent has failed");
  });
  const Got got = get({parent.server(), root.server()});
  fails.join();
  CHECK(got.contents == contents);
  CHECK(got.digest == "digest");
  CHECK(got.from == "root");
}

TEST_CASE("where nobody has it, the last one says why") {
  Host& root = host("root", "");
  root.items[0].fail("cannot read /shared/image: permission denied");
  const Got got = get({root.server()});
  CHECK_FALSE(got.digest);
  CHECK(got.why == "cannot read /shared/image: permission denied");
  CHECK(get({root.server("127.0.0.2"), root.server()}).why == "cannot read /shared/image: permission denied");
}

TEST_CASE("idle strangers cost no thread and do not keep an agent out") {
  const std::string contents = contents_of(1000);
  Host& root = host("root", contents);
  root.complete("digest");
  const int port = static_cast<int>(*parse_integer(root.door.substr(0, root.door.find('/'))));
  std::vector<TimedSocket> strangers(80);
  for (TimedSocket& each : strangers) REQUIRE(each.connect("127.0.0.1", port, Milliseconds{5000}).empty());
  CHECK(get({root.server()}).contents == contents);
  char byte = 0;
  CHECK(strangers.front().read_some(&byte, 1, Milliseconds{0}) <= 0);  // no greeting for a stranger
}
