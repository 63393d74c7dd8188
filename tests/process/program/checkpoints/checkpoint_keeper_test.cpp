// Checkpoints in memory with the processes that keep them, and workers that are played by the test.
#include "checkpoints/checkpoint_keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "catch.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/files/temp_dir.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/serving_child.hpp"
#include "os/read_file.hpp"
#include "plan/rendezvous_plan.hpp"

using namespace ddprun;
using namespace ddprun::checkpoints;
using checkpoint::Held;
using checkpoint::Order;
using checkpoint::Part;
using checkpoint::Restore;
namespace fs = std::filesystem;

namespace {

constexpr Milliseconds k_patience{20000};
constexpr std::uint64_t k_mebibyte = std::uint64_t{1} << 20U;

boost::asio::io_context& loop() {
  static boost::asio::io_context context;
  return context;
}

void wait_until(const std::function<bool()>& is_so, int line = __builtin_LINE()) {
  for (const TimePoint limit = os::now() + k_patience; !is_so();) {
    if (os::now() > limit) FAIL("in vain at line " << line);
    loop().restart();
    loop().run_for(Milliseconds{10});
  }
}

// An agent with its process.
struct Node {
  CheckpointSettings settings;
  std::vector<std::string> notices;
  std::unique_ptr<CheckpointKeeper> keeper;
  int process = -1;

  explicit Node(const os::TempDir& place, int agent, std::uint64_t memory = 64 * k_mebibyte) {
    settings.memory = memory;
    settings.place = place.path();
    settings.job = "job 7";
    settings.agent = agent;
    settings.launch_key = settings.flush_key = "launch";
    settings.ports = {0};
  }
  void open() {
    keeper = std::make_unique<CheckpointKeeper>(
        loop(), settings,
        CheckpointKeeper::Hooks{[](const Held&) {}, [this](const std::string& what,
                                                           const std::string&) { notices.push_back(what); }});
    process = os::running_helpers().back();
    bool known = false;
    keeper->when_first_known([&] { known = true; });
    wait_until([&] { return known; });
  }
  void begin(int attempt, int world, const std::optional<Restore>& restore = {}) {
    keeper->begin_attempt({attempt, world, restore}, [] {});
    wait_until([&] { return held().attempt == attempt; });
  }
  const Held& held() const { return keeper->held(); }
  bool has(std::int64_t step, int rank, bool replica = false) const {
    return std::ranges::any_of(held().parts, [&](const Part& part) {
      return part.step == step && part.rank == rank && part.replica == replica;
    });
  }
  bool was_told(const std::string& text) const {
    return std::ranges::any_of(notices,
                               [&](const std::string& each) { return each.find(text) != each.npos; });
  }
  std::string path(std::int64_t step, const std::string& name, bool replica = false) const {
    return fmt::format("{}/{}step-{}/{}", keeper->folder(), replica ? "replicas/" : "", step, name);
  }
  staging::Server server() const {
    return {fmt::format("n{}", settings.agent), keeper->door(), {"127.0.0.1"}};
  }
};

std::string read(const std::string& path) { return os::read_head(path, 1 << 28); }

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path + ".new", std::ios::binary) << text;
  fs::rename(path + ".new", path);
}

std::string contents_of(std::size_t size, int seed = 0) {
  std::string contents(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    contents[i] = static_cast<char>((i * 31 + static_cast<std::size_t>(seed)) >> 3);
  return contents;
}

// What a rank saves: one file and its manifest.
void save(const Node& node, std::int64_t step, int rank, int world, const std::string& contents) {
  const std::string name = fmt::format("rank-{}.pt", rank);
  write(node.path(step, name), contents);
  write(node.path(step, fmt::format("rank-{}.manifest", rank)),
        fmt::format(R"({{"world": {}, "files": {{"{}": {}}}}})", world, name, contents.size()));
}

class Worker {
 public:
  explicit Worker(const Node& node) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    node.keeper->socket().copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  void send(const std::string& text) const { os::write_whole(socket_.get(), text); }
  std::string ask(const std::string& line) const {
    send(line + "\n");
    return os::receive_line(socket_.get(), os::now() + k_patience).value_or("nothing");
  }

 private:
  os::Fd socket_;
};

std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename().string().find("manifest") == std::string::npos)
      bytes += entry.file_size();
  return bytes;
}

Order copy_from(const Node& node) {
  Order order;
  order.copy_from = node.server();
  return order;
}

Restore restore_from(std::int64_t step, int world, const Node* holder = nullptr,
                     std::vector<int> ranks = {}) {
  Restore restore;
  restore.step = step;
  restore.world = world;
  if (holder != nullptr) restore.holders = {{holder->server(), std::move(ranks)}};
  return restore;
}

}  // namespace

TEST_CASE("a part counts once its manifest is there and its files are whole") {
  const os::TempDir place{std::optional<std::string>()};
  Node node(place, 0);
  node.open();
  node.begin(0, 2);
  const Worker worker(node);
  write(node.path(3, "model.bin"), "12345");
  CHECK(worker.ask("saved 3 1") == "no such part with all its files");
  write(node.path(3, "rank-1.manifest"), R"({"world": 2, "files": {"model.bin": 6}})");
  CHECK(worker.ask("saved 3 1") == "no such part with all its files");
  write(node.path(3, "rank-1.manifest"), R"({"world": 2, "files": {"model.bin": 5}})");
  CHECK(worker.ask("saved 3 1") == "ok");
  wait_until([&] { return node.has(3, 1); });
  CHECK(node.held().parts == std::vector<Part>{{3, 1, 2, 5, false}});
  CHECK(worker.ask("files 3") == "no step 3 is not complete on the nodes that are here");
  save(node, 3, 0, 2, "ab");
  wait_until([&] { return node.has(3, 0); });  // nobody says so
  CHECK(worker.ask("files 3") == R"(ok {"world":2,"parts":{"0":{"rank-0.pt":2},"1":{"model.bin":5}}})");
}

TEST_CASE("a file of a program that writes no manifest is its rank's part") {
  const os::TempDir place{std::optional<std::string>()};
  Node node(place, 0);
  node.open();
  node.begin(0, 2);
  write(node.path(5, "rank-1.bin"), "12345");
  write(node.path(5, "rank-2.bin"), "no such rank");
  bool settled = false;
  node.keeper->when_settled([&] { settled = true; });
  wait_until([&] { return settled; });
  CHECK(node.held().parts == std::vector<Part>{{5, 1, 2, 5, false}});
  write(node.path(6, "rank-0"), "123");
  wait_until([&] { return node.has(6, 0); });
}

TEST_CASE("room keeps the newest complete step and those that are kept, and never exceeds the memory") {
  const os::TempDir place{std::optional<std::string>()};
  Node node(place, 0, 3 * k_mebibyte + 4096);
  node.open();
  node.begin(0, 1);
  const Worker worker(node);
  const std::string contents = contents_of(k_mebibyte);
  for (std::int64_t step = 1; step <= 6; ++step) {
    REQUIRE(worker.ask(fmt::format("room {}", k_mebibyte)) == "ok");
    CHECK(bytes_in(node.keeper->folder()) <= 2 * k_mebibyte);
    save(node, step, 0, 1, contents);
    REQUIRE(worker.ask(fmt::format("saved {} 0", step)) == "ok");
    Order order;
    order.complete = {step};
    if (step > 1) order.complete.push_back(step - 1);
    node.keeper->take(order);
    wait_until([&] { return node.has(step, 0) && (step < 3 || !node.has(step - 2, 0)); });
  }
  CHECK(node.has(5, 0));
  const Worker other(node);
  CHECK(worker.ask(fmt::format("room {}", k_mebibyte)) == "ok");
  CHECK(other.ask(fmt::format("room {}", k_mebibyte)) == "ok");  // the step before the newest gives way
  wait_until([&] { return !node.has(5, 0); });
  CHECK(node.has(6, 0));
  const Worker third(node);
  CHECK(third.ask(fmt::format("room {}", k_mebibyte))
            .starts_with("no 1 MiB do not fit: 3 MiB of 3 MiB are in use"));
  CHECK(third.ask("room 4194304").starts_with("no 4 MiB do not fit: 3 MiB of 3 MiB are in use"));
  wait_until([&] { return !node.notices.empty(); });
  CHECK(node.notices.size() == 1);
  CHECK(node.has(6, 0));
}

TEST_CASE("the neighbour's parts are copied, whole and as they are, and nothing is handed to strangers") {
  const os::TempDir place{std::optional<std::string>()};
  Node one(place, 0), two(place, 1);
  one.open();
  two.open();
  one.begin(0, 2);
  two.begin(0, 2);
  const std::string contents = contents_of(3000001);
  save(one, 4, 0, 2, contents);
  write(one.path(4, "more.bin"), "");
  write(one.path(4, "rank-1.manifest"), R"({"world": 2, "files": {"more.bin": 0}})");
  two.keeper->take(copy_from(one));
  wait_until([&] { return two.has(4, 0, true) && two.has(4, 1, true); });
  CHECK(read(two.path(4, "rank-0.pt", true)) == contents);
  CHECK((fs::status(two.path(4, "rank-0.pt", true)).permissions() & fs::perms(0777)) == fs::perms(0600));
  save(one, 5, 0, 2, "next");
  wait_until([&] { return two.has(5, 0, true); });
  CHECK(read(two.path(5, "rank-0.manifest", true)).find("blake2b") != std::string::npos);
  Order stranger = copy_from(one);
  stranger.copy_from->door += "x";
  Node three(place, 2);
  three.open();
  three.begin(0, 2);
  three.keeper->take(stranger);
  three.keeper->take(copy_from(one));
  wait_until([&] { return three.has(5, 0, true); });
}

TEST_CASE("a neighbour that has not begun this attempt is not copied from until it has") {
  const os::TempDir place{std::optional<std::string>()};
  Node one(place, 0), early(place, 1), same(place, 2);
  for (Node* const node : {&one, &early, &same}) node->open();
  one.begin(0, 1);
  early.begin(1, 1);
  same.begin(0, 1);
  early.keeper->take(copy_from(one));
  save(one, 9, 0, 1, "of the attempt before");
  same.keeper->take(copy_from(one));
  wait_until([&] { return same.has(9, 0, true); });
  CHECK_FALSE(early.has(9, 0, true));
  one.begin(1, 1, restore_from(9, 1));
  wait_until([&] { return early.has(9, 0, true); });
}

TEST_CASE("what was changed is neither listed nor copied, its own or a replica") {
  const os::TempDir place{std::optional<std::string>()};
  Node one(place, 0), two(place, 1);
  one.open();
  two.open();
  one.begin(0, 1);
  two.begin(0, 1);
  save(one, 4, 0, 1, contents_of(100000));
  two.keeper->take(copy_from(one));
  wait_until([&] { return two.has(4, 0, true); });
  wait_until([&] { return read(one.path(4, "rank-0.manifest")).find("blake2b") != std::string::npos; });
  two.keeper->take({});
  for (Node* const node : {&two, &one}) {
    const bool replica = node == &two;
    CAPTURE(replica);
    const std::string path = node->path(4, "rank-0.pt", replica);
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(77).put('x');
    wait_until([&] { return !node->has(4, 0, replica) && node->notices.size() == 1; });
    CHECK(node->notices.front() ==
          fmt::format("the {} of step 4 of rank 0 does not match its hash and is not used",
                      replica ? "replica" : "checkpoint"));
    wait_until([&] { return !fs::exists(path); });
  }
  save(one, 5, 0, 1, "sound");
  two.keeper->take(copy_from(one));
  wait_until([&] { return two.has(5, 0, true); });
  CHECK_FALSE(two.has(4, 0, true));
}

TEST_CASE("a worker gets files from a replica here, as another name, and from the nodes that have them") {
  const os::TempDir place{std::optional<std::string>()};
  Node one(place, 0), two(place, 1), three(place, 2);
  for (Node* const node : {&one, &two, &three}) {
    node->open();
    node->begin(0, 2);
  }
  const std::string contents = contents_of(700000), other = contents_of(300000, 5);
  save(one, 4, 0, 2, contents);
  save(three, 4, 1, 2, other);
  two.keeper->take(copy_from(one));
  wait_until([&] { return two.has(4, 0, true) && three.has(4, 1); });
  two.begin(1, 2, restore_from(4, 2, &three, {1}));
  const Worker worker(two);
  CHECK(worker.ask("files 4") ==
        R"(ok {"world":2,"parts":{"0":{"rank-0.pt":700000},"1":{"rank-1.pt":300000}}})");
  CHECK(worker.ask("fetch 4 rank-0.pt") == "ok");
  CHECK(fs::hard_link_count(two.path(4, "rank-0.pt")) == 2);
  CHECK(read(two.path(4, "rank-0.pt")) == contents);
  CHECK(worker.ask("fetch 4 rank-1.pt") == "ok");
  CHECK(read(two.path(4, "rank-1.pt")) == other);
  wait_until([&] { return two.has(4, 1, true); });  // it is another copy
  CHECK_FALSE(two.has(4, 0));
  CHECK(worker.ask("fetch 4 rank-2.pt") == "no no node that is here has rank-2.pt of step 4");
  CHECK(worker.ask("fetch 4 ../rank-0.pt") == "no file has such a name");
  CHECK(worker.ask("fetch 5 rank-0.pt").starts_with("no no node"));
  // What a worker has got here is served to other nodes as before.
  Node four(place, 3);
  four.open();
  four.begin(1, 2, restore_from(4, 2, &two, {0, 1}));
  const Worker elsewhere(four);
  CHECK(elsewhere.ask("fetch 4 rank-0.pt") == "ok");
  CHECK(read(four.path(4, "rank-0.pt")) == contents);
}

TEST_CASE("an attempt may begin once the parts of its ranks are here, however soon they are") {
  const os::TempDir place{std::optional<std::string>()};
  Node one(place, 0), two(place, 1);
  for (Node* const node : {&one, &two}) {
    node->open();
    node->begin(0, 2);
  }
  const std::string contents = contents_of(70000);
  save(one, 4, 0, 2, contents);
  two.keeper->take(copy_from(one));
  wait_until([&] { return two.has(4, 0, true); });
  for (int attempt = 1; attempt <= 40;
       ++attempt) {  // two has the replica, and a second name for it takes no time
    bool told = false;
    if (!two.keeper->begin_attempt({attempt, 2, restore_from(4, 2, &one, {0}), {0}}, [&] { told = true; }))
      wait_until([&] { return told; });
    wait_until([&] { return fs::exists(two.path(4, "rank-0.pt")); });
    CHECK(read(two.path(4, "rank-0.pt")) == contents);
    CHECK(two.keeper->begin_attempt({attempt, 2, restore_from(4, 2, &one, {0}), {0}}, [] {}));
  }
}

TEST_CASE("parts that come late for an attempt that has ended let no other one begin") {
  const os::TempDir place{std::optional<std::string>()};
  Node one(place, 0), two(place, 1), three(place, 2);
  for (Node* const node : {&one, &two, &three}) {
    node->open();
    node->begin(0, 2);
  }
  save(one, 4, 0, 2, contents_of(70000));
  save(three, 5, 0, 2, contents_of(80000));
  wait_until([&] { return one.has(4, 0) && three.has(5, 0); });
  for (const Node* const node : {&one, &three}) ::kill(node->process, SIGSTOP);
  const auto open_files = [&] {
    return std::distance(fs::directory_iterator(fmt::format("/proc/{}/fd", two.process)), {});
  };
  const auto before = open_files();
  REQUIRE_FALSE(two.keeper->begin_attempt({1, 2, restore_from(4, 2, &one, {0}), {0}}, [] {}));
  wait_until([&] { return open_files() > before; });  // it asks the first node
  std::optional<bool> is_here;
  REQUIRE_FALSE(two.keeper->begin_attempt({2, 2, restore_from(5, 2, &three, {0}), {0}},
                                          [&] { is_here = fs::exists(two.path(5, "rank-0.pt")); }));
  ::kill(one.process, SIGCONT);
  wait_until([&] { return two.has(4, 0, true); });
  bool settled = false;
  two.keeper->when_settled([&] { settled = true; });
  wait_until([&] { return settled; });
  ::kill(three.process, SIGCONT);
  wait_until([&] { return is_here.has_value(); });
  CHECK(is_here == true);
}

TEST_CASE("a step is flushed whole or not at all, and read from there with its hashes") {
  const os::TempDir place{std::optional<std::string>()}, shared{std::optional<std::string>()};
  Node one(place, 0), two(place, 1);
  for (Node* const node : {&one, &two}) {
    node->settings.flush = shared.path() + "/flushed";
    node->open();
    node->begin(0, 2);
  }
  save(one, 4, 0, 2, "first");
  save(two, 4, 1, 2, "second");
  wait_until([&] { return one.has(4, 0) && two.has(4, 1); });
  Order order;
  order.flush = order.publish = 4;
  order.flush_ranks = {0};
  order.flush_world = 2;
  one.keeper->take(order);
  wait_until([&] { return one.held().flushed == 4 && one.held().flushed_ranks == std::vector{0}; });
  wait_until([&] { return one.was_told("is not complete"); });
  CHECK_FALSE(one.held().published);
  CHECK_FALSE(fs::exists(shared.path() + "/flushed/step-4"));
  order.publish.reset();
  order.flush_ranks = {1};
  two.keeper->take(order);
  wait_until([&] { return one.held().published == 4; });
  CHECK(one.held().published_world == 2);
  const std::string folder = shared.path() + "/flushed/step-4";
  CHECK(read(folder + "/rank-1.pt") == "second");
  CHECK(read(folder + "/rank-1.manifest").find("blake2b") != std::string::npos);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"rank-0.manifest", "rank-0.pt", "rank-1.manifest", "rank-1.pt"});

  Node next(place, 2);
  next.settings.flush = shared.path() + "/flushed";
  next.open();
  CHECK(next.held().published == 4);
  Restore restore = restore_from(4, 2);
  restore.from_flush = true;
  next.begin(0, 2, restore);
  const Worker worker(next);
  CHECK(worker.ask("files 4") == R"(ok {"world":2,"parts":{"0":{"rank-0.pt":5},"1":{"rank-1.pt":6}}})");
  CHECK(worker.ask("fetch 4 rank-1.pt") == "ok");
  CHECK(read(next.path(4, "rank-1.pt")) == "second");
  write(folder + "/rank-0.pt", "worse");
  CHECK(worker.ask("fetch 4 rank-0.pt") == fmt::format("no {}/rank-0.pt does not match its hash", folder));
  fs::permissions(folder, fs::perms(0777));
  next.begin(1, 2, restore);
  CHECK(worker.ask("fetch 4 rank-0.pt").starts_with("no "));
}

TEST_CASE("the newest two steps stay in the flush folder, and what other jobs are writing there") {
  const os::TempDir place{std::optional<std::string>()}, shared{std::optional<std::string>()};
  Node node(place, 0);
  node.settings.flush = shared.path();
  node.open();
  node.begin(0, 1);
  const std::string others = shared.path() + "/.step-2-0123456789abcdef-0.partial",
                    own = fmt::format("{}/.step-2-{:016x}-7.partial", shared.path(),
                                      plan::launch_hash(node.settings.flush_key));
  const std::string killed = shared.path() + "/.step-1-0123456789abcdef-0.partial";
  for (const std::string& folder : {others, own, killed, shared.path() + "/step-0"})
    fs::create_directory(folder);
  fs::last_write_time(killed, fs::last_write_time(killed) - std::chrono::hours(25));
  for (const int step : {1, 2, 3}) {
    save(node, step, 0, 1, "saved");
    wait_until([&] { return node.has(step, 0); });
    Order order;
    order.flush = order.publish = step;
    order.flush_ranks = {0};
    order.flush_world = 1;
    node.keeper->take(order);
    wait_until([&] { return node.held().published == step; });
  }
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(shared.path())) names.insert(entry.path().string());
  CHECK(names == std::set{others, shared.path() + "/step-0", shared.path() + "/step-2",
                          shared.path() + "/step-3"});  // step-0 is no checkpoint
}

TEST_CASE("a neighbour that dies in the middle leaves no part, and the next one is copied from") {
  const os::TempDir place{std::optional<std::string>()};
  Node one(place, 0), two(place, 1), three(place, 2);
  two.settings.rate = 2 * k_mebibyte;
  for (Node* const node : {&one, &two, &three}) {
    node->open();
    node->begin(0, 1);
  }
  const std::string contents = contents_of(8 * k_mebibyte);
  save(one, 4, 0, 1, contents);
  save(three, 6, 0, 1, "short");
  two.keeper->take(copy_from(one));
  wait_until([&] { return bytes_in(two.keeper->folder()) > 0; });
  ::kill(one.process, SIGKILL);
  wait_until([&] { return bytes_in(two.keeper->folder()) == 0; });
  CHECK(two.held().parts.empty());
  two.keeper->take(copy_from(three));
  wait_until([&] { return two.has(6, 0, true); });
  wait_until([&] { return one.was_told("the process that keeps them has ended"); });
  CHECK(one.held().parts.empty());
  CHECK_FALSE(fs::exists(one.keeper->folder()));
}

TEST_CASE("connections that say nothing, half a line or nonsense keep nobody from being answered") {
  const os::TempDir place{std::optional<std::string>()};
  Node node(place, 0);
  node.open();
  node.begin(0, 1);
  std::vector<std::unique_ptr<Worker>> strangers;
  for (int i = 0; i < 60; ++i) {
    strangers.push_back(std::make_unique<Worker>(node));
    if (i % 3 == 1) strangers.back()->send("room");
    if (i % 3 == 2) strangers.back()->send(std::string(100000, 'x'));
  }
  const Worker worker(node);
  CHECK(worker.ask("room 1000") == "ok");
  for (const char* const line :
       {"", "room", "room -1", "room 1 2", "room x", "saved 1", "fetch 1", "files x", "what"}) {
    CAPTURE(line);
    CHECK(worker.ask(line).starts_with("no "));
  }
  CHECK(worker.ask("room 1000") == "ok");
}

TEST_CASE("a folder that others could use is refused, and said so once") {
  const os::TempDir place{std::optional<std::string>()};
  Node node(place, 0);
  const std::string user_folder = fmt::format("{}/ddprun-{}", place.path(), ::geteuid());
  SECTION("the user's") {
    fs::create_directory(user_folder);
    fs::permissions(user_folder, fs::perms(0755));
  }
  SECTION("its own") {
    node.open();
    const std::string folder = node.keeper->folder();
    node.keeper->end(false);
    node.keeper.reset();
    fs::create_directories(folder);
    fs::permissions(user_folder, fs::perms(0700));
    fs::create_directory(folder + "/step-1");
    write(folder + "/.keep", "");
    fs::permissions(folder, fs::perms(0750));
  }
  node.open();
  REQUIRE(node.notices.size() == 1);
  CHECK(node.notices.front().starts_with("checkpoints are not kept in memory: "));
  CHECK(node.keeper->folder().empty());
  bool settled = false;
  node.keeper->when_settled([&] { settled = true; });
  wait_until([&] { return settled; });
}

TEST_CASE("an attempt removes what is newer than what it starts from, and all if it starts from nothing") {
  const os::TempDir place{std::optional<std::string>()};
  Node node(place, 0);
  node.open();
  node.begin(0, 1);
  for (const std::int64_t step : {1, 2, 3}) save(node, step, 0, 1, "x");
  write(node.path(2, ".rank-0.pt.tmp"), "unfinished");
  wait_until([&] { return node.held().parts.size() == 3; });
  node.keeper->begin_attempt({1, 1, restore_from(2, 1)}, [] {});
  CHECK_FALSE(fs::exists(node.path(3, "rank-0.pt")));
  CHECK_FALSE(fs::exists(node.path(2, ".rank-0.pt.tmp")));
  wait_until([&] { return node.held().attempt == 1; });
  CHECK(node.held().begun_from == 2);
  CHECK(node.held().parts.size() == 2);
  SECTION("nothing") { node.begin(2, 1); }
  SECTION("another history") {
    Restore other = restore_from(2, 1);
    other.own = false;
    node.begin(2, 1, other);
  }
  CHECK(node.held().parts.empty());
}

TEST_CASE("memory is given back at the end, also after an agent was killed") {
  const os::TempDir place{std::optional<std::string>()};
  const std::string user_folder = fmt::format("{}/ddprun-{}", place.path(), ::geteuid());
  SECTION("the end") {
    Node node(place, 0);
    node.open();
    node.begin(0, 1);
    save(node, 1, 0, 1, "x");
    CHECK(fs::exists(user_folder));
    node.keeper->end(false);
    CHECK_FALSE(fs::exists(user_folder));
  }
  SECTION("killed") {
    const pid_t agent = ::fork();
    REQUIRE(agent >= 0);
    if (agent == 0) {
      Node node(place, 0);
      node.keeper = std::make_unique<CheckpointKeeper>(
          loop(), node.settings,
          CheckpointKeeper::Hooks{[](const Held&) {}, [](const auto&, const auto&) {}});
      for (;;) ::pause();
    }
    wait_until([&] { return fs::exists(user_folder) && !fs::is_empty(user_folder); });
    ::kill(agent, SIGKILL);
    ::waitpid(agent, nullptr, 0);
    wait_until([&] { return !fs::exists(user_folder); });
  }
}

TEST_CASE(
    "what is kept is taken over by the job's next agent here, whatever its number, and by no other job") {
  const os::TempDir place{std::optional<std::string>()};
  Node node(place, 0);
  node.settings.keep = true;
  node.open();
  node.begin(0, 1);
  save(node, 7, 0, 1, contents_of(100000));
  write(node.path(8, ".unfinished"), "x");
  wait_until([&] { return node.has(7, 0); });
  SECTION("at the end") { node.keeper->end(true); }
  SECTION("killed") {
    ::kill(node.process, SIGKILL);
    wait_until([&] { return !node.notices.empty(); });
  }
  Node other(place, 0);
  other.settings.job = "job 8";
  other.open();
  CHECK(other.held().parts.empty());
  Node next(place, 3);
  next.open();
  CHECK(next.held().parts == std::vector<Part>{{7, 0, 1, 100000, false}});
  next.keeper->end(false);
  other.keeper->end(false);
  CHECK(fs::is_empty(place.path()));
}
