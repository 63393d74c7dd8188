// A starter and its agents over real sockets of this host.
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "ddprun/net/first_dial.hpp"
#include "ddprun/net/key_prover.hpp"
#include "ddprun/net/lifeline_client.hpp"
#include "ddprun/net/lifeline_server.hpp"
#include "ddprun/net/sealed_stream.hpp"
#include "ddprun/net/secret_text.hpp"

using namespace ddprun;
using lifeline::Ended;
using lifeline::Hello;

namespace {

void run_until(boost::asio::io_context& context, const std::function<bool()>& reached) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!reached()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    context.restart();
    context.run_one_for(std::chrono::milliseconds(50));
  }
}

const SecretKey k_key = derive_key(ProofMethod::starter, "a job's secret");

struct TestStarter {
  std::vector<Hello> agents;
  std::vector<int> codes;
  std::vector<std::string> lost;
  std::vector<std::string> refused;
  std::vector<lifeline::Output> outputs;
  std::optional<Tcp::socket> output;
  std::string begun;
  LifelineServer server;

  explicit TestStarter(boost::asio::io_context& context)
      : server(context, make_key_prover(k_key), "8f3c", hooks()) {}

  LifelineServer::Hooks hooks() {
    LifelineServer::Hooks hooks;
    hooks.on_agent = [this](const Hello& hello) { agents.push_back(hello); };
    hooks.make_task = [](const Hello& hello) { return "task of " + hello.host; };
    hooks.on_ended = [this](const Hello&, const Ended& ended) { codes.push_back(ended.code); };
    hooks.on_lost = [this](const Hello& hello, const std::string& why) {
      lost.push_back(hello.host + ": " + why);
    };
    hooks.on_output = [this](const lifeline::Output& said, Tcp::socket socket, std::string first_bytes) {
      outputs.push_back(said);
      output.emplace(std::move(socket));
      begun = std::move(first_bytes);
    };
    hooks.on_refused = [this](const std::string&, const std::string& why) { refused.push_back(why); };
    return hooks;
  }

  StarterAddress address(std::vector<std::string> addresses = {"127.0.0.1"}) const {
    return {std::move(addresses), server.port(), "8f3c"};
  }
};

struct TestAgent {
  bool connected = false;
  bool told = false;
  std::vector<lifeline::Signal> signals;
  std::string task;
  std::string gone;
  std::string unreachable;
  std::optional<LifelineClient> client;

  TestAgent(boost::asio::io_context& context, const StarterAddress& starter, const Hello& hello,
            const SecretKey& key = k_key) {
    LifelineClient::Hooks hooks;
    hooks.on_connected = [this] { connected = true; };
    hooks.on_signal = [this](const lifeline::Signal& signal) { signals.push_back(signal); };
    hooks.on_task = [this](std::string text) { task = std::move(text); };
    hooks.on_gone = [this](const std::string& why) { gone = why; };
    hooks.on_unreachable = [this](const std::string& why) { unreachable = why; };
    client.emplace(context, starter, make_key_prover(key), hello, std::move(hooks));
    client->start();
  }
};

}  // namespace

TEST_CASE("signals reach every agent, and each tells its exit code") {
  boost::asio::io_context context;
  TestStarter starter(context);
  TestAgent first(context, starter.address(), {0, "n1", false});
  TestAgent second(context, starter.address(), {1, "n2", false});
  run_until(context, [&] { return starter.server.connected() == 2; });
  starter.server.signal_all({10, false, true});
  starter.server.signal_all({15, true, false});
  run_until(context, [&] { return first.signals.size() == 2 && second.signals.size() == 2; });
  CHECK(second.signals == std::vector<lifeline::Signal>{{10, false, true}, {15, true, false}});
  first.client->end({143}, [&] { first.told = true; });
  second.client->end({0}, [&] { second.told = true; });
  run_until(context, [&] { return first.told && second.told; });
  CHECK(starter.codes.size() == 2);
  CHECK(starter.codes[0] + starter.codes[1] == 143);
  CHECK(starter.server.connected() == 0);
  CHECK(starter.lost.empty());
  CHECK(first.gone.empty());
}

TEST_CASE("an agent that asks gets its task, which only the key opens") {
  boost::asio::io_context context;
  TestStarter starter(context);
  TestAgent agent(context, starter.address(), {1, "n2", true});
  run_until(context, [&] { return !agent.task.empty(); });
  CHECK(agent.task == "task of n2");
  CHECK(starter.agents.empty());
}

TEST_CASE("an agent's output comes as it is, from the first byte to the end, and is no agent") {
  boost::asio::io_context context;
  TestStarter starter(context);
  std::optional<Tcp::socket> writer;
  SessionKeys keys;
  FirstDial dial(context, starter.address(), make_key_prover(k_key), k_link_timeout,
                 [&](AuthenticationResult result) {
                   writer.emplace(std::move(result.socket));
                   keys = result.keys;
                 });
  dial.start();
  run_until(context, [&] { return writer.has_value(); });
  const lifeline::Output hello{lifeline::Stream::error, "n2"};
  const std::string sealed = SealedWriter(keys.send).seal(encode(lifeline::Message(hello)));
  boost::asio::write(*writer, boost::asio::buffer(sealed + "its first"));
  run_until(context, [&] { return starter.output.has_value(); });
  boost::asio::write(*writer, boost::asio::buffer(std::string(" line\n")));
  writer.reset();
  std::string text = starter.begun;
  boost::system::error_code end;
  boost::asio::read(*starter.output, boost::asio::dynamic_buffer(text), end);
  CHECK(text == "its first line\n");
  CHECK(end == boost::asio::error::eof);
  CHECK(starter.outputs == std::vector<lifeline::Output>{hello});
  CHECK(starter.server.connected() == 0);
  CHECK(starter.lost.empty());
}

TEST_CASE("when the starter is gone its agents are told, and it is told of lost agents") {
  boost::asio::io_context context;
  TestStarter starter(context);
  std::optional<TestAgent> lost(std::in_place, context, starter.address(), Hello{0, "n1", false});
  TestAgent left(context, starter.address(), {1, "n2", false});
  run_until(context, [&] { return starter.server.connected() == 2; });
  lost.reset();
  run_until(context, [&] { return !starter.lost.empty(); });
  CHECK(starter.lost == std::vector<std::string>{"n1: the connection was closed"});
  starter.server.close();
  run_until(context, [&] { return !left.gone.empty(); });
  CHECK(left.gone == "the connection was closed");
}

TEST_CASE("an agent with another key is refused, and one without a way says why") {
  boost::asio::io_context context;
  TestStarter starter(context);
  TestAgent stranger(context, starter.address(), {0, "n1", false},
                     derive_key(ProofMethod::starter, "another"));
  run_until(context, [&] { return !stranger.unreachable.empty() && !starter.refused.empty(); });
  CHECK_FALSE(stranger.connected);
  CHECK(starter.agents.empty());
  TestAgent closed(context, {{"127.0.0.1", "127.0.0.2"}, 1, "8f3c"}, {0, "n1", false});
  run_until(context, [&] { return !closed.unreachable.empty(); });
  CHECK(closed.unreachable.find("127.0.0.1: connection refused") != std::string::npos);
  CHECK(closed.unreachable.find("127.0.0.2: connection refused") != std::string::npos);
}

TEST_CASE("one good address among several is enough") {
  boost::asio::io_context context;
  TestStarter starter(context);
  TestAgent agent(context, starter.address({"not an address", "127.0.0.1"}), {0, "n1", false});
  run_until(context, [&] { return agent.connected; });
  CHECK(agent.unreachable.empty());
}

TEST_CASE("an agent without a connection tells its end to nobody, at once") {
  boost::asio::io_context context;
  TestAgent agent(context, {{"127.0.0.1"}, 1, "8f3c"}, {0, "n1", false});
  agent.client->end({0}, [&] { agent.told = true; });
  CHECK(agent.told);
}

TEST_CASE("a secret is 64 digits, and the same secret makes the same one") {
  CHECK(make_secret_text().size() == 64);
  CHECK(make_secret_text() != make_secret_text());
  CHECK(make_secret_text_from("x").size() == 64);
  CHECK(make_secret_text_from("x") == make_secret_text_from("x"));
  CHECK(make_secret_text_from("x") != make_secret_text_from("y"));
}
