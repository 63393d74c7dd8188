// Coordinator and members in one event loop, over loopback.
#include <fcntl.h>

#include <sys/resource.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <map>

#include "base/error.hpp"
#include "catch.hpp"
#include "net/agent_listener.hpp"
#include "net/authentication.hpp"
#include "net/connection.hpp"
#include "net/coordinator_service.hpp"
#include "net/member_service.hpp"
#include "net/name_lookup.hpp"

using namespace ddprun;
using namespace ddprun::net;
using namespace std::chrono_literals;

namespace {

const char* const k_job = "slurm/29/0/0";

rendezvous::Authenticator authenticator_with(std::uint8_t byte = 1) {
  SecretKey key;
  key.fill(byte);
  return make_key_authenticator(key);
}

void run_until(boost::asio::io_context& context, const std::function<bool()>& reached) {
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!reached()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    context.restart();
    context.run_one_for(1s);
  }
}

// One ddprun a task on one host, so that loopback is a proper address.
plan::Announcement announcement_of(int agent) {
  plan::Announcement announcement;
  announcement.agent = {agent};
  announcement.host = "n1";
  announcement.fixed_rank = GlobalRank{agent};
  announcement.first_local_rank = {agent};
  return announcement;
}

template <class T>
std::vector<T> all_of(const std::vector<rendezvous::CoordinatorMessage>& messages) {
  std::vector<T> found;
  for (const rendezvous::CoordinatorMessage& message : messages) {
    if (const T* wanted = std::get_if<T>(&message)) found.push_back(*wanted);
  }
  return found;
}

struct TestCoordinator {
  TestCoordinator(boost::asio::io_context& context, int agents,
                  const std::function<void(CoordinatorServiceSettings&, CoordinatorHooks&)>& change = {}) {
    CoordinatorServiceSettings settings;
    settings.coordinator.agents = agents;
    settings.coordinator.peers.assign(static_cast<std::size_t>(agents), "n1");
    settings.coordinator.version = "0.1.0";
    settings.coordinator.join_timeout = 30s;
    settings.coordinator.addresses = {"127.0.0.1"};
    settings.announcement = announcement_of(0);
    settings.ports = {0};
    settings.launch_key = k_job;
    settings.authenticator = authenticator_with();
    CoordinatorHooks hooks;
    hooks.open_store = [this](const rendezvous::OpenStore& open) {
      log.push_back("open " + std::to_string(open.attempt.value));
      return StoreOpened{41000 + open.attempt.value, {}};
    };
    hooks.close_store = [this](Attempt attempt) { log.push_back("close " + std::to_string(attempt.value)); };
    hooks.show_status = [this](const std::string& text) { status.push_back(text); };
    hooks.show_restart = [this](const rendezvous::ShowRestart& restart) {
      log.push_back("restart " + std::to_string(restart.next.value));
    };
    hooks.on_message = [this](const rendezvous::CoordinatorMessage& message) { messages.push_back(message); };
    hooks.on_end = [this](const report::Cause& cause) { end = cause; };
    if (change) change(settings, hooks);
    service = std::make_unique<CoordinatorService>(context, std::move(settings), std::move(hooks));
    service->start();
  }
  std::vector<std::string> log;
  std::vector<std::string> status;
  std::vector<rendezvous::CoordinatorMessage> messages;
  std::optional<report::Cause> end;
  std::unique_ptr<CoordinatorService> service;
};

struct TestMember {
  TestMember(boost::asio::io_context& context, int agent, int agents, int port,
             const std::function<void(MemberServiceSettings&)>& change = {}) {
    MemberServiceSettings settings;
    settings.join = {"n1", {"127.0.0.1"}, {port}, 30s, {}, {}, {}};
    settings.launch_key = k_job;
    settings.authenticator = authenticator_with();
    settings.announcement = announcement_of(agent);
    settings.version = "0.1.0";
    settings.agents = agents;
    if (change) change(settings);
    MemberHooks hooks;
    hooks.start_lookup = [](const std::string& name) {
      const auto child = std::make_shared<net::NameLookupChild>(name);
      return NameLookup{child->descriptor(), child};
    };
    hooks.on_message = [this](const rendezvous::CoordinatorMessage& message) { messages.push_back(message); };
    hooks.on_lost = [this](const std::string& what, const std::string&, rendezvous::ConnectionEnd) {
      lost = what;
    };
    hooks.on_coordinator_ended = [this] { coordinator_ended = true; };
    hooks.show_status = [](const std::string&) {};
    hooks.look_at_rendezvous_file = [this] {
      ++looks;
      return rendezvous_file;
    };
    service = std::make_unique<MemberService>(context, std::move(settings), std::move(hooks));
    service->start();
  }
  bool started() const { return !all_of<rendezvous::Start>(messages).empty(); }
  bool finished() const { return !all_of<rendezvous::Finish>(messages).empty(); }
  std::vector<rendezvous::CoordinatorMessage> messages;
  std::string lost;
  bool coordinator_ended = false;
  ToldPlace rendezvous_file = std::string();  // what a look finds
  int looks = 0;
  std::unique_ptr<MemberService> service;
};

// A program that is not ddprun.
struct Stranger {
  Stranger(boost::asio::io_context& context, int port, std::string says, const char* from = "127.0.0.1")
      : socket(context), text(std::move(says)) {
    socket.open(Tcp::v4());
    socket.bind({boost::asio::ip::make_address(from), 0});
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)});
    boost::asio::write(socket, boost::asio::buffer(text));
    boost::asio::async_read(socket, boost::asio::buffer(heard),
                            [this](const boost::system::error_code&, std::size_t size) {
                              closed = true;
                              heard_size = size;
                            });
  }
  Tcp::socket socket;
  std::string text;
  std::array<char, 1000> heard{};
  std::size_t heard_size = 0;
  bool closed = false;
};

// A port that was free a moment ago.
int free_port(boost::asio::io_context& context) {
  Tcp::acceptor acceptor(context, {boost::asio::ip::make_address("127.0.0.1"), 0});
  return acceptor.local_endpoint().port();
}

}  // namespace

TEST_CASE("three agents join, restart together after a failure, and end together") {
  boost::asio::io_context context;
  TestCoordinator first(context, 3, [](CoordinatorServiceSettings& settings, CoordinatorHooks&) {
    settings.coordinator.max_restarts = 1;
    settings.announcement.max_restarts = 1;
  });
  const auto with_restart = [](MemberServiceSettings& settings) { settings.announcement.max_restarts = 1; };
  TestMember second(context, 1, 3, first.service->port(), with_restart);
  TestMember third(context, 2, 3, first.service->port(), with_restart);
  const auto starts = [](const auto& agent) { return all_of<rendezvous::Start>(agent.messages).size(); };
  run_until(context, [&] { return starts(first) == 1 && starts(second) == 1 && starts(third) == 1; });
  const plan::Assignment assignment = all_of<rendezvous::Start>(third.messages)[0].assignment;
  CHECK(assignment.world_size == 3);
  CHECK(assignment.workers[0].rank == GlobalRank{2});
  CHECK(assignment.master_address == "127.0.0.1");
  CHECK(assignment.master_port == 41000);

  report::Failure failure;
  failure.rank = {2};
  failure.host = "n1";
  failure.status = {ExitStatus::Kind::signalled, 11, {}, false};
  third.service->send(rendezvous::AttemptFailed{{0}, failure});
  run_until(context, [&] {
    return !all_of<rendezvous::Stop>(first.messages).empty() &&
           !all_of<rendezvous::Stop>(second.messages).empty() &&
           !all_of<rendezvous::Stop>(third.messages).empty();
  });
  first.service->send(rendezvous::Stopped{{0}, {}});
  second.service->send(rendezvous::Stopped{{0}, {}});
  third.service->send(rendezvous::Stopped{{0}, {}});
  run_until(context, [&] { return starts(first) == 2 && starts(second) == 2 && starts(third) == 2; });
  CHECK(all_of<rendezvous::Start>(second.messages)[1].assignment.master_port == 41001);

  first.service->send(rendezvous::AttemptSucceeded{{1}});
  second.service->send(rendezvous::AttemptSucceeded{{1}});
  third.service->send(rendezvous::AttemptSucceeded{{1}});
  run_until(context, [&] { return first.end && second.finished() && third.finished(); });
  CHECK(first.end->kind == report::Cause::Kind::success);
  CHECK(all_of<rendezvous::Finish>(first.messages)[0].report_here);
  CHECK_FALSE(all_of<rendezvous::Finish>(third.messages)[0].report_here);
  CHECK(first.log == std::vector<std::string>{"open 0", "close 0", "restart 1", "open 1", "close 1"});
  CHECK(second.lost.empty());

  context.poll();
  CHECK_FALSE(second.coordinator_ended);
  CHECK_FALSE(third.coordinator_ended);
  first.service.reset();
  run_until(context, [&] { return second.coordinator_ended && third.coordinator_ended; });
  CHECK(second.lost.empty());
}

TEST_CASE("a member waits for a delayed restart as long as its coordinator's options say, not its own") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2, [](CoordinatorServiceSettings& settings, CoordinatorHooks&) {
    settings.coordinator.max_restarts = 1;
    settings.coordinator.restarts.backoff = sourced(Milliseconds(3000), "--restart-backoff");
    settings.announcement.max_restarts = 1;
  });
  TestMember second(context, 1, 2, first.service->port(), [](MemberServiceSettings& settings) {
    settings.announcement.max_restarts = 1;
    settings.answer_limit = Milliseconds(2000);
  });
  run_until(context, [&] { return second.started(); });
  report::Failure failure;
  failure.status = {ExitStatus::Kind::exited, 1, {}, false};
  first.service->send(rendezvous::AttemptFailed{{0}, failure});
  run_until(context, [&] { return !all_of<rendezvous::Stop>(second.messages).empty(); });
  first.service->send(rendezvous::Stopped{{0}, {}});
  second.service->send(rendezvous::Stopped{{0}, {}});
  run_until(context,
            [&] { return all_of<rendezvous::Start>(second.messages).size() == 2 || !second.lost.empty(); });
  CHECK(second.lost.empty());
}

TEST_CASE(
    "a member that knows no address is told the place by a rendezvous file or the launcher's key-value "
    "space") {
  boost::asio::io_context context;
  TestCoordinator first(context, 3);
  const auto knows_nothing = [](MemberServiceSettings& settings) {
    settings.join = {"", {}, {}, 30s, "/home/u/.ddprun/x.meet", "PMI", {}};
  };
  const rendezvous::CoordinatorPlace place{{"127.0.0.1"}, first.service->port()};
  TestMember second(context, 1, 3, 0, knows_nothing);
  run_until(context, [&] { return second.looks == 2; });
  second.rendezvous_file =
      rendezvous::CoordinatorPlace{{"127.0.0.1"}, free_port(context)};  // of a launch that was killed
  run_until(context, [&] { return second.looks == 3; });
  second.rendezvous_file = place;
  TestMember third(context, 2, 3, 0, knows_nothing);
  third.service->on_key_value_space(place);
  run_until(context, [&] { return second.started() && third.started(); });
  third.service->on_key_value_space(std::string("too late to matter"));
  CHECK(third.lost.empty());
}

TEST_CASE("failures that arrive in one wake-up have the lowest rank as their cause") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2);
  TestMember second(context, 1, 2, first.service->port());
  run_until(context, [&] { return second.started() && !first.messages.empty(); });
  report::Failure of_one;
  of_one.rank = {1};
  report::Failure of_zero;
  of_zero.rank = {0};
  first.service->send(rendezvous::AttemptFailed{{0}, of_one});
  first.service->send(rendezvous::AttemptFailed{{0}, of_zero});
  run_until(context, [&] { return all_of<rendezvous::Stop>(second.messages).size() == 1; });
  first.service->send(rendezvous::Stopped{{0}, {}});
  second.service->send(rendezvous::Stopped{{0}, {}});
  run_until(context, [&] { return first.end && second.finished(); });
  CHECK(first.end->failure.rank == GlobalRank{0});
}

TEST_CASE("one agent alone uses no network") {
  boost::asio::io_context context;
  TestCoordinator alone(context, 1);
  CHECK(alone.service->port() == 0);
  run_until(context, [&] { return !alone.messages.empty(); });
  CHECK(all_of<rendezvous::Start>(alone.messages).size() == 1);
  alone.service->send(rendezvous::AttemptSucceeded{{0}});
  run_until(context, [&] { return alone.end.has_value(); });
  CHECK(alone.end->kind == report::Cause::Kind::success);
}

TEST_CASE("members wait for a late coordinator, and the coordinator for a late member") {
  boost::asio::io_context context;
  const int port = free_port(context);
  TestMember second(context, 1, 3, port);
  context.run_for(20ms);  // the first dials are refused
  TestCoordinator first(context, 3, [port](CoordinatorServiceSettings& settings, CoordinatorHooks&) {
    settings.ports = {port};
    settings.coordinator.live = true;  // it is told again every second
  });
  run_until(context, [&] {
    return !first.status.empty() && first.status.back().starts_with("waiting for 1 of 3 tasks on n1");
  });
  TestMember third(context, 2, 3, port);
  run_until(context, [&] { return second.started() && third.started(); });
  CHECK(first.status.back().empty());
}

TEST_CASE("a wrong key is refused on both sides in words") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2, [](CoordinatorServiceSettings& settings, CoordinatorHooks&) {
    settings.coordinator.join_timeout = 6s;
    settings.coordinator.peers = {"n1", "n2"};
  });
  TestMember second(context, 1, 2, first.service->port(), [](MemberServiceSettings& settings) {
    settings.authenticator = authenticator_with(2);
    settings.join.join_timeout = 5s;
  });
  run_until(context, [&] { return first.end && !second.lost.empty(); });
  CHECK(first.end->kind == report::Cause::Kind::deadline);
  CHECK(
      first.end->detail ==
      "gave up after 6 s waiting for 1 of 2 nodes: n2; refused 127.0.0.1: the peer does not hold the key of "
      "this side's key file");
  CHECK(second.lost == "cannot join the coordinator n1 within 5 s: 127.0.0.1 port " +
                           std::to_string(first.service->port()) +
                           ": the peer refused: the peer does not hold the key of this side's key file");
}

TEST_CASE("an agent of another job is told which job this is, once it has proved whose it is") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2);
  TestMember other(context, 1, 2, first.service->port(), [](MemberServiceSettings& settings) {
    settings.launch_key = "slurm/31/0/0";
    settings.join.join_timeout = 5s;
  });
  run_until(context, [&] { return !other.lost.empty(); });
  CHECK_THAT(other.lost,
             Contains("the peer refused: this is job slurm/29/0/0, the peer belongs to slurm/31/0/0"));
}

TEST_CASE("strangers are dropped and do not disturb: HTTP, silence, half a greeting") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2, [](CoordinatorServiceSettings& settings, CoordinatorHooks&) {
    settings.handshake_limit = 300ms;
    settings.coordinator.join_timeout = 20s;
  });
  const int port = first.service->port();
  Stranger browser(context, port, "GET / HTTP/1.1\r\n\r\n");
  Stranger silent(context, port, "");
  Stranger half(context, port, "ddprun");
  run_until(context, [&] { return browser.closed && silent.closed && half.closed; });
  CHECK(browser.heard_size == 0);
  CHECK(silent.heard_size == 0);
  CHECK(half.heard_size == 0);
  run_until(context, [&] { return !first.status.empty(); });
  CHECK_THAT(first.status[0], Contains("refused 127.0.0.1: "));
  TestMember second(context, 1, 2, port);
  run_until(context, [&] { return second.started(); });
}

TEST_CASE("many silent strangers give way, and do not keep a member out") {
  boost::asio::io_context context;
  std::vector<std::string> refused;
  int agents = 0;
  AgentListenerSettings settings;
  settings.ports = {0};
  settings.launch_key = k_job;
  settings.authenticator = authenticator_with();
  settings.handshake_limit = 1h;
  settings.max_strangers = 2;
  AgentListenerHooks hooks;
  hooks.on_agent = [&](const AuthenticationResult&) { ++agents; };
  hooks.on_refused = [&](const std::string& address, const std::string& why) {
    refused.push_back(address + ": " + why);
  };
  const auto listener = std::make_shared<AgentListener>(context, settings, hooks);
  listener->start();
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 5; ++i) strangers.push_back(std::make_unique<Stranger>(context, listener->port(), ""));
  TestMember member(context, 1, 2, listener->port());
  run_until(context, [&] { return agents == 1; });
  run_until(context, [&] {
    return std::ranges::count(strangers, true, [](const auto& each) { return each->closed; }) >= 4;
  });
  CHECK(refused == std::vector<std::string>{"127.0.0.1: too many unauthenticated connections"});  // told once
  listener->close();
}

TEST_CASE("a connection that was refused counts until it is closed, and of an address few reasons are told") {
  boost::asio::io_context context;
  std::vector<std::string> refused;
  AgentListenerSettings settings;
  settings.ports = {0};
  settings.launch_key = k_job;
  settings.authenticator = authenticator_with();
  settings.handshake_limit = 1h;
  AgentListenerHooks hooks;
  hooks.on_agent = [](const AuthenticationResult&) {};
  hooks.on_refused = [&](const std::string&, const std::string& why) { refused.push_back(why); };
  const auto listener = std::make_shared<AgentListener>(context, settings, hooks);
  listener->start();
  rendezvous::Handshake handshake(rendezvous::HandshakeRole::member, k_job, make_key_exchange(),
                                  authenticator_with());
  Stranger greets(context, listener->port(), handshake.start() + std::string(64, 'x'));
  run_until(context, [&] { return refused.size() == 1; });
  CHECK(refused[0] == "the peer sent something other than a proof after its greeting");
  CHECK(listener->strangers() == 1);
  greets.socket.close();
  run_until(context, [&] { return listener->strangers() == 0; });

  std::vector<std::unique_ptr<Stranger>> others;
  for (int i = 0; i < 9; ++i)
    others.push_back(std::make_unique<Stranger>(context, listener->port(), std::to_string(i) + " GET /"));
  run_until(context,
            [&] { return std::ranges::all_of(others, [](const auto& each) { return each->closed; }); });
  CHECK(refused.size() == 4);
  listener->close();
}

TEST_CASE("a flood costs its own host the places, not another one that is slow") {
  boost::asio::io_context context;
  std::map<std::string, int> refused;
  AgentListenerSettings settings;
  settings.ports = {0};
  settings.launch_key = k_job;
  settings.authenticator = authenticator_with();
  settings.handshake_limit = 1h;
  settings.max_strangers = 3;
  AgentListenerHooks hooks;
  hooks.on_agent = [](const AuthenticationResult&) {};
  hooks.on_refused = [&](const std::string& address, const std::string&) { ++refused[address]; };
  const auto listener = std::make_shared<AgentListener>(context, settings, hooks);
  listener->start();
  Stranger slow(context, listener->port(), "ddprun");
  std::vector<std::unique_ptr<Stranger>> flood;
  for (int i = 0; i < 9; ++i)
    flood.push_back(std::make_unique<Stranger>(context, listener->port(), "ddprun", "127.0.0.2"));
  run_until(context, [&] {
    return std::ranges::count(flood, true, [](const auto& each) { return each->closed; }) == 7;
  });
  CHECK(refused["127.0.0.2"] == 1);
  CHECK(refused["127.0.0.1"] == 0);
  CHECK_FALSE(slow.closed);
  listener->close();
}

TEST_CASE("another protocol on the port can be handed on with its first bytes") {
  boost::asio::io_context context;
  std::string first_bytes;
  std::optional<Tcp::socket> handed;
  TestCoordinator first(context, 2, [&](CoordinatorServiceSettings&, CoordinatorHooks& hooks) {
    hooks.on_foreign = [&](Tcp::socket& socket, const std::string& bytes) {
      first_bytes = bytes;
      handed.emplace(std::move(socket));
      return true;
    };
  });
  Stranger client(context, first.service->port(), std::string("\x00\x01store", 7));
  run_until(context, [&] { return handed.has_value(); });
  CHECK(first_bytes == std::string("\x00\x01store", 7));
  boost::asio::write(*handed, boost::asio::buffer("hello", 5));
  handed->close();
  run_until(context, [&] { return client.closed; });
  CHECK(client.heard_size == 5);
}

TEST_CASE("a coordinator that lives and does not answer is given up") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2);
  TestMember member(context, 1, 2, first.service->port(),
                    [](MemberServiceSettings& settings) { settings.answer_limit = 3s; });
  run_until(context, [&] { return member.started(); });
  report::Failure failure;
  failure.status.value = 1;
  failure.rank = {1};
  member.service->send(rendezvous::AttemptFailed{{0}, failure});
  run_until(context, [&] { return all_of<rendezvous::Stop>(member.messages).size() == 1; });
  member.service->send(
      rendezvous::Stopped{{0}, {}});  // the coordinator's own agent does not stop: there is no answer
  run_until(context, [&] { return !member.lost.empty(); });
  CHECK(member.lost == "the coordinator n1 (127.0.0.1) sent nothing for 3 s");
}

TEST_CASE("a peer that waits to be spoken to is handed on as well, or refused") {
  boost::asio::io_context context;
  const bool wanted = GENERATE(true, false);
  std::optional<Tcp::socket> handed;
  TestCoordinator first(context, 2, [&](CoordinatorServiceSettings& settings, CoordinatorHooks& hooks) {
    settings.coordinator.live = true;  // a log is told every half minute only
    hooks.on_foreign = [&](Tcp::socket& socket, const std::string& bytes) {
      CHECK(bytes.empty());
      if (wanted) handed.emplace(std::move(socket));
      return wanted;
    };
  });
  Stranger client(context, first.service->port(), "");
  if (wanted) {
    run_until(context, [&] { return handed.has_value(); });
    CHECK((::fcntl(handed->native_handle(), F_GETFD) & FD_CLOEXEC) != 0);
  } else {
    const std::string refusal = "refused 127.0.0.1: it sent nothing";
    run_until(context, [&] {
      return client.closed && !first.status.empty() && first.status.back().find(refusal) != std::string::npos;
    });
  }
}

TEST_CASE("a taken port is skipped; when there is no other the sentence names it") {
  boost::asio::io_context context;
  TestCoordinator holder(context, 2);
  const int taken = holder.service->port();
  TestCoordinator second(context, 2, [taken](CoordinatorServiceSettings& settings, CoordinatorHooks&) {
    settings.ports = {taken, 0};
  });
  CHECK(second.service->port() != taken);
  const auto only_taken = [taken](CoordinatorServiceSettings& settings, CoordinatorHooks&) {
    settings.ports = {taken};
  };
  try {
    TestCoordinator third(context, 2, only_taken);
    FAIL("the port was not taken");
  } catch (const Error& error) {
    CHECK(error.what() ==
          "cannot listen for the other nodes on port " + std::to_string(taken) + " (address already in use)");
    CHECK(error.hint() ==
          "another program uses the port, perhaps an earlier run; choose another port with --master-port");
  }
}

TEST_CASE("a name that is not known is named in the end, and a good one is used") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2);
  const int port = first.service->port();
  TestMember lost(context, 1, 2, port, [](MemberServiceSettings& settings) {
    settings.join.addresses = {"no-such-host.invalid"};
    settings.join.join_timeout = 1s;
  });
  run_until(context, [&] { return !lost.lost.empty(); });
  CHECK_THAT(lost.lost, Contains("cannot reach the coordinator n1 within 1 s: no-such-host.invalid: "));
  TestMember second(context, 1, 2, port, [](MemberServiceSettings& settings) {
    settings.join.addresses = {"no-such-host.invalid", "localhost"};
  });
  run_until(context, [&] { return second.started(); });
}

TEST_CASE("a look-up that cannot start or never answers is only a failed candidate") {
  boost::asio::io_context context;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  MemberServiceSettings settings;
  settings.join = {"n1", {"broken", "slow"}, {1}, 1s, {}, {}, {}};
  settings.launch_key = k_job;
  settings.authenticator = authenticator_with();
  settings.lookup_limit = 200ms;
  std::string lost;
  MemberHooks hooks;
  hooks.start_lookup = [&](const std::string& name) {
    if (name == "broken") throw Error("cannot look up the host name broken: too many processes");
    return NameLookup{ends[0], nullptr};
  };
  hooks.on_message = [](const rendezvous::CoordinatorMessage&) {};
  hooks.on_lost = [&](const std::string& what, const std::string&, rendezvous::ConnectionEnd) {
    lost = what;
  };
  hooks.show_status = [](const std::string&) {};
  MemberService member(context, settings, hooks);
  member.start();
  run_until(context, [&] { return !lost.empty(); });
  CHECK(lost ==
        "cannot reach the coordinator n1 within 1 s: broken: cannot look up the host name broken: too many "
        "processes; slow: no answer from the name service within 200 ms");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("when the coordinator dies its members are told") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2);
  TestMember second(context, 1, 2, first.service->port());
  run_until(context, [&] { return second.started(); });
  first.service.reset();
  run_until(context, [&] { return !second.lost.empty(); });
  CHECK(second.lost == "lost the coordinator n1 (127.0.0.1): the connection was closed");
}

TEST_CASE("when a member dies the job ends with its host, its ranks and the reason") {
  boost::asio::io_context context;
  TestCoordinator first(context, 3);
  TestMember second(context, 1, 3, first.service->port());
  TestMember third(context, 2, 3, first.service->port());
  run_until(context, [&] { return second.started() && third.started(); });
  third.service.reset();
  run_until(context, [&] {
    return !all_of<rendezvous::Stop>(first.messages).empty() &&
           !all_of<rendezvous::Stop>(second.messages).empty();
  });
  first.service->send(rendezvous::Stopped{{0}, {}});
  second.service->send(rendezvous::Stopped{{0}, {}});
  run_until(context, [&] { return first.end && second.finished(); });
  CHECK(first.end->kind == report::Cause::Kind::agent_lost);
  CHECK(first.end->detail == "lost n1 (rank 2): the connection was closed");
}

TEST_CASE("an agent that does not take its last message cannot hold up the end") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2, [](CoordinatorServiceSettings& settings, CoordinatorHooks&) {
    settings.flush_timeout = 200ms;
  });
  // Proves itself, joins, and never reads again.
  std::shared_ptr<Connection> mute;
  const auto dial = std::make_shared<Dial>(
      context,
      rendezvous::Handshake(rendezvous::HandshakeRole::member, k_job, make_key_exchange(),
                            authenticator_with()),
      DialLimits{}, [&](AuthenticationResult result) {
        mute = std::make_shared<Connection>(std::move(result.socket), result.keys);
        mute->send(rendezvous::encode(
            rendezvous::AgentMessage{rendezvous::Join{announcement_of(1), "0.1.0", "127.0.0.1", 2}}));
      });
  dial->start("127.0.0.1", first.service->port());
  run_until(context, [&] { return !first.messages.empty(); });
  first.service->send(rendezvous::StopRequest{15, "n1"});
  run_until(context, [&] { return !all_of<rendezvous::Stop>(first.messages).empty(); });
  first.service->send(rendezvous::Stopped{{0}, {}});
  mute->send(rendezvous::encode(rendezvous::AgentMessage{rendezvous::Stopped{{0}, {}}}));
  run_until(context, [&] { return first.end.has_value(); });
  CHECK(first.end->kind == report::Cause::Kind::stopped_by_signal);
}

TEST_CASE("a launch that cannot be right is told to those who come a moment later too") {
  boost::asio::io_context context;
  TestCoordinator first(context, 3);
  TestMember other_release(context, 1, 3, first.service->port(),
                           [](MemberServiceSettings& settings) { settings.version = "0.2.0"; });
  run_until(context, [&] { return other_release.finished(); });
  TestMember late(context, 2, 3, first.service->port());
  run_until(context, [&] { return late.finished() && first.end; });
  CHECK(first.end->detail ==
        "n1 runs ddprun 0.2.0 and n1 runs ddprun 0.1.0; install the same version on all nodes");
  CHECK(all_of<rendezvous::Finish>(late.messages)[0].cause == *first.end);
}

TEST_CASE("an agent that sends what cannot be understood is lost, with the reason") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2);
  std::shared_ptr<Connection> odd;
  const auto dial = std::make_shared<Dial>(
      context,
      rendezvous::Handshake(rendezvous::HandshakeRole::member, k_job, make_key_exchange(),
                            authenticator_with()),
      DialLimits{}, [&](AuthenticationResult result) {
        odd = std::make_shared<Connection>(std::move(result.socket), result.keys);
        odd->send(rendezvous::encode(
            rendezvous::AgentMessage{rendezvous::Join{announcement_of(1), "0.1.0", "127.0.0.1", 2}}));
        odd->send(std::string("\x00\x00\x00\x02{}", 6));
      });
  dial->start("127.0.0.1", first.service->port());
  bool answered = false;  // it may have been started by then
  run_until(context, [&] {
    if (!all_of<rendezvous::Stop>(first.messages).empty() && !std::exchange(answered, true)) {
      first.service->send(rendezvous::Stopped{{0}, {}});
    }
    return first.end.has_value();
  });
  CHECK(first.end->detail == "lost n1 (rank 1): it sent an invalid message: \"type\" is missing");
}

TEST_CASE("a member that is asked which addresses it reaches tries them") {
  boost::asio::io_context context;
  std::shared_ptr<Connection> to_member;
  std::vector<rendezvous::AgentMessage> heard;
  std::vector<Tcp::socket> probes;
  AgentListenerSettings settings;
  settings.ports = {0};
  settings.launch_key = k_job;
  settings.authenticator = authenticator_with();
  AgentListenerHooks hooks;
  hooks.on_refused = [](const std::string&, const std::string&) {};
  hooks.on_agent = [&](AuthenticationResult agent) {
    if (to_member) return probes.push_back(std::move(agent.socket));
    to_member = std::make_shared<Connection>(std::move(agent.socket), agent.keys);
    to_member->start(
        {[&](const std::string& payload) {
           heard.push_back(std::get<rendezvous::AgentMessage>(rendezvous::decode_agent_message(payload)));
         },
         [](const std::string&, rendezvous::ConnectionEnd) {}},
        std::move(agent.text));
  };
  const auto listener = std::make_shared<AgentListener>(context, settings, hooks);
  listener->start();
  TestMember member(context, 1, 2, listener->port());
  run_until(context, [&] { return heard.size() == 1; });
  CHECK(std::get<rendezvous::Join>(heard[0]).reached == "127.0.0.1");
  to_member->send(rendezvous::encode(rendezvous::CoordinatorMessage{
      rendezvous::Probe{{"nonsense", "127.0.0.2", "127.0.0.1"}, listener->port()}}));
  run_until(context, [&] { return heard.size() == 2; });
  const rendezvous::Probed& answer = std::get<rendezvous::Probed>(heard[1]);
  CHECK(answer.reachable == std::vector<std::string>{"127.0.0.2", "127.0.0.1"});
  REQUIRE(answer.failures.size() == 1);
  CHECK(answer.failures[0].starts_with("nonsense: "));
  to_member->close();
  listener->close();
}

TEST_CASE("running out of descriptors does not end the listening") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2);
  context.poll();
  Tcp::socket client(context);
  client.open(Tcp::v4());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  boost::system::error_code connected;
  client.connect(
      {boost::asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(first.service->port())},
      connected);
  context.poll();  // accept fails here
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(connected);
  TestMember second(context, 1, 2, first.service->port());
  run_until(context, [&] { return second.started(); });
}

namespace {

// Somebody without the key between a member and the coordinator: passes the handshake on, keeps what it sees,
// and then changes what the coordinator says.
class Relay {
 public:
  Relay(boost::asio::io_context& context, int port, std::function<void(std::string&)> change)
      : context_(context),
        acceptor_(context, {boost::asio::ip::make_address("127.0.0.1"), 0}),
        target_(boost::asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)),
        change_(std::move(change)) {
    accept();
  }
  int port() const { return acceptor_.local_endpoint().port(); }
  std::string seen;  // of the coordinator's words, after its proof

 private:
  struct Pair {
    explicit Pair(boost::asio::io_context& context) : member(context), coordinator(context) {}
    Tcp::socket member;
    Tcp::socket coordinator;
    std::array<char, 65536> up{};
    std::array<char, 65536> down{};
    std::string handshake;  // of the coordinator, until its proof is whole
    bool over = false;
  };

  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, Tcp::socket socket) {
      if (error) return;
      const auto pair = std::make_shared<Pair>(context_);
      pair->member = std::move(socket);
      pair->coordinator.connect(target_);
      carry_up(pair);
      carry_down(pair);
      accept();
    });
  }

  void carry_up(const std::shared_ptr<Pair>& pair) {
    pair->member.async_read_some(boost::asio::buffer(pair->up),
                                 [this, pair](const boost::system::error_code& error, std::size_t size) {
                                   boost::system::error_code ignored;
                                   if (error) {
                                     pair->coordinator.close(ignored);
                                     return;
                                   }
                                   boost::asio::write(pair->coordinator, boost::asio::buffer(pair->up, size),
                                                      ignored);
                                   carry_up(pair);
                                 });
  }

  void carry_down(const std::shared_ptr<Pair>& pair) {
    pair->coordinator.async_read_some(boost::asio::buffer(pair->down),
                                      [this, pair](const boost::system::error_code& error, std::size_t size) {
                                        boost::system::error_code ignored;
                                        if (error) {
                                          pair->member.close(ignored);
                                          return;
                                        }
                                        const std::string bytes =
                                            change(*pair, std::string(pair->down.data(), size));
                                        boost::asio::write(pair->member, boost::asio::buffer(bytes), ignored);
                                        carry_down(pair);
                                      });
  }

  // A hello, then kind, method, length and the proof itself; what follows may be changed.
  std::string change(Pair& pair, std::string bytes) {
    std::string before;
    if (!pair.over) {
      pair.handshake += bytes;
      if (pair.handshake.size() < rendezvous::k_hello_size + 4) return bytes;
      const auto byte = [&](std::size_t at) {
        return static_cast<unsigned char>(pair.handshake[rendezvous::k_hello_size + at]);
      };
      const std::size_t whole = rendezvous::k_hello_size + 4 + (std::size_t{byte(2)} << 8 | byte(3));
      if (pair.handshake.size() < whole) return bytes;
      pair.over = true;
      const std::size_t behind = pair.handshake.size() - whole;
      before = bytes.substr(0, bytes.size() - behind);
      bytes = pair.handshake.substr(whole);
    }
    if (bytes.empty()) return before;
    seen += bytes;
    change_(bytes);
    return before + bytes;
  }

  boost::asio::io_context& context_;
  Tcp::acceptor acceptor_;
  Tcp::endpoint target_;
  std::function<void(std::string&)> change_;
};

}  // namespace

TEST_CASE("who passes a handshake on learns nothing of what follows") {
  boost::asio::io_context context;
  TestCoordinator first(context, 2);
  Relay relay(context, first.service->port(), [](std::string&) {});
  TestMember member(context, 1, 2, relay.port());
  run_until(context, [&] { return member.started(); });
  CHECK(relay.seen.size() > 100);
  CHECK(relay.seen.find("assignment") == std::string::npos);
  CHECK(relay.seen.find("127.0.0.1") == std::string::npos);
}

TEST_CASE("who passes a handshake on cannot change what follows") {
  for (const std::size_t place : {std::size_t{0}, std::size_t{24}, std::size_t{30}, std::size_t{90}}) {
    CAPTURE(place);
    boost::asio::io_context context;
    TestCoordinator first(context, 2);
    Relay relay(context, first.service->port(), [place, passed = std::size_t{0}](std::string& bytes) mutable {
      if (passed <= place && place < passed + bytes.size()) bytes[place - passed] ^= 1;
      passed += bytes.size();
    });
    TestMember member(context, 1, 2, relay.port());
    run_until(context, [&] { return !member.lost.empty(); });
    CHECK(member.messages.empty());
    CHECK((member.lost.ends_with("it sent a message altered in transit") ||
           member.lost.find("it sent a message of") != std::string::npos));
  }
}
