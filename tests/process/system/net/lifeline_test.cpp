// A front end and its agents over real sockets of this host.
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "net/authentication.hpp"
#include "net/dial.hpp"
#include "net/lifeline_sockets.hpp"
#include "net/sealed_stream.hpp"
#include "os/descriptors.hpp"

using namespace ddprun;
using namespace ddprun::net;
using rendezvous::lifeline::Ended;
using rendezvous::lifeline::Hello;

namespace {

void run_until(boost::asio::io_context& context, const std::function<bool()>& reached) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!reached()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    context.restart();
    context.run_one_for(std::chrono::milliseconds(50));
  }
}

const SecretKey k_key = derive_key(rendezvous::ProofMethod::front_end, "a job's secret");

struct TestFrontEnd {
  std::vector<Hello> agents;
  std::vector<int> codes;
  std::vector<std::string> lost;
  std::vector<std::string> refused;
  std::vector<rendezvous::lifeline::Output> outputs;
  std::optional<Tcp::socket> output;
  std::string begun;
  LifelineServer server;

  explicit TestFrontEnd(boost::asio::io_context& context)
      : server(context, make_key_authenticator(k_key), "8f3c", hooks()) {}

  LifelineServer::Hooks hooks() {
    LifelineServer::Hooks hooks;
    hooks.on_agent = [this](const Hello& hello) { agents.push_back(hello); };
    hooks.make_task = [](const Hello& hello) { return "task of " + hello.host; };
    hooks.on_ended = [this](const Hello&, const Ended& ended) { codes.push_back(ended.code); };
    hooks.on_lost = [this](const Hello& hello, const std::string& why) {
      lost.push_back(hello.host + ": " + why);
    };
    hooks.on_output = [this](const rendezvous::lifeline::Output& said, Tcp::socket socket,
                             std::string first_bytes) {
      outputs.push_back(said);
      output.emplace(std::move(socket));
      begun = std::move(first_bytes);
    };
    hooks.on_refused = [this](const std::string&, const std::string& why) { refused.push_back(why); };
    return hooks;
  }

  rendezvous::FrontEndAddress address(std::vector<std::string> addresses = {"127.0.0.1"}) const {
    return {std::move(addresses), server.port(), "8f3c"};
  }
};

struct TestAgent {
  bool connected = false;
  bool told = false;
  std::vector<rendezvous::lifeline::Signal> signals;
  std::string task;
  std::string gone;
  std::string unreachable;
  std::optional<LifelineClient> client;

  TestAgent(boost::asio::io_context& context, const rendezvous::FrontEndAddress& front_end,
            const Hello& hello, const SecretKey& key = k_key) {
    LifelineClient::Hooks hooks;
    hooks.on_connected = [this] { connected = true; };
    hooks.on_signal = [this](const rendezvous::lifeline::Signal& signal) { signals.push_back(signal); };
    hooks.on_task = [this](std::string text) { task = std::move(text); };
    hooks.on_gone = [this](const std::string& why) { gone = why; };
    hooks.on_unreachable = [this](const std::string& why) { unreachable = why; };
    client.emplace(context, front_end, make_key_authenticator(key), hello, std::move(hooks));
    client->start();
  }
};

}  // namespace

TEST_CASE("signals reach every agent, and each tells its exit code") {
  boost::asio::io_context context;
  TestFrontEnd front_end(context);
  TestAgent first(context, front_end.address(), {0, "n1", false});
  TestAgent second(context, front_end.address(), {1, "n2", false});
  run_until(context, [&] { return front_end.server.connected() == 2; });
  front_end.server.signal_all({10, false, true});
  front_end.server.signal_all({15, true, false});
  run_until(context, [&] { return first.signals.size() == 2 && second.signals.size() == 2; });
  CHECK(second.signals == std::vector<rendezvous::lifeline::Signal>{{10, false, true}, {15, true, false}});
  first.client->end({143}, [&] { first.told = true; });
  second.client->end({0}, [&] { second.told = true; });
  run_until(context, [&] { return first.told && second.told; });
  CHECK(front_end.codes.size() == 2);
  CHECK(front_end.codes[0] + front_end.codes[1] == 143);
  CHECK(front_end.server.connected() == 0);
  CHECK(front_end.lost.empty());
  CHECK(first.gone.empty());
}

TEST_CASE("an agent that asks gets its task, which only the key opens") {
  boost::asio::io_context context;
  TestFrontEnd front_end(context);
  TestAgent agent(context, front_end.address(), {1, "n2", true});
  run_until(context, [&] { return !agent.task.empty(); });
  CHECK(agent.task == "task of n2");
  CHECK(front_end.agents.empty());
}

TEST_CASE("an agent's output comes as it is, from the first byte to the end, and is no agent") {
  boost::asio::io_context context;
  TestFrontEnd front_end(context);
  std::optional<Tcp::socket> writer;
  rendezvous::SessionKeys keys;
  FirstDial dial(context, front_end.address(), make_key_authenticator(k_key), k_host_timeout,
                 [&](AuthenticationResult result) {
                   writer.emplace(std::move(result.socket));
                   keys = result.keys;
                 });
  dial.start();
  run_until(context, [&] { return writer.has_value(); });
  const rendezvous::lifeline::Output hello{rendezvous::lifeline::Stream::error, "n2"};
  const std::string sealed = SealedWriter(keys.send).seal(encode(rendezvous::lifeline::Message(hello)));
  boost::asio::write(*writer, boost::asio::buffer(sealed + "its first"));
  run_until(context, [&] { return front_end.output.has_value(); });
  CHECK(os::receive_byte(writer->native_handle(), k_host_timeout) == rendezvous::lifeline::k_output_taken);
  boost::asio::write(*writer, boost::asio::buffer(std::string(" line\n")));
  writer.reset();
  std::string text = front_end.begun;
  boost::system::error_code end;
  boost::asio::read(*front_end.output, boost::asio::dynamic_buffer(text), end);
  CHECK(text == "its first line\n");
  CHECK(end == boost::asio::error::eof);
  CHECK(front_end.outputs == std::vector<rendezvous::lifeline::Output>{hello});
  CHECK(front_end.server.connected() == 0);
  CHECK(front_end.lost.empty());
}

TEST_CASE("when the front end is gone its agents are told, and it is told of lost agents") {
  boost::asio::io_context context;
  TestFrontEnd front_end(context);
  std::optional<TestAgent> lost(std::in_place, context, front_end.address(), Hello{0, "n1", false});
  TestAgent left(context, front_end.address(), {1, "n2", false});
  run_until(context, [&] { return front_end.server.connected() == 2; });
  lost.reset();
  run_until(context, [&] { return !front_end.lost.empty(); });
  CHECK(front_end.lost == std::vector<std::string>{"n1: the connection was closed"});
  front_end.server.close();
  run_until(context, [&] { return !left.gone.empty(); });
  CHECK(left.gone == "the connection was closed");
}

TEST_CASE("an agent with another key is refused, and one without a way says why") {
  boost::asio::io_context context;
  TestFrontEnd front_end(context);
  TestAgent stranger(context, front_end.address(), {0, "n1", false},
                     derive_key(rendezvous::ProofMethod::front_end, "another"));
  run_until(context, [&] { return !stranger.unreachable.empty() && !front_end.refused.empty(); });
  CHECK_FALSE(stranger.connected);
  CHECK(front_end.agents.empty());
  TestAgent closed(context, {{"127.0.0.1", "127.0.0.2"}, 1, "8f3c"}, {0, "n1", false});
  run_until(context, [&] { return !closed.unreachable.empty(); });
  CHECK(closed.unreachable.find("127.0.0.1: connection refused") != std::string::npos);
  CHECK(closed.unreachable.find("127.0.0.2: connection refused") != std::string::npos);
}

TEST_CASE("one good address among several is enough") {
  boost::asio::io_context context;
  TestFrontEnd front_end(context);
  TestAgent agent(context, front_end.address({"not an address", "127.0.0.1"}), {0, "n1", false});
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
