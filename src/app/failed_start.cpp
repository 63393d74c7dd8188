#include "ddprun/app/failed_start.hpp"

#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "ddprun/allocation/started.hpp"
#include "ddprun/allocation/variables.hpp"
#include "ddprun/app/log.hpp"
#include "ddprun/app/started_agent.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/net/lifeline_client.hpp"

namespace ddprun {

namespace {

// The place is only for the starter's messages and its count of who is there.
int place_of(const Snapshot& snapshot) {
  const auto rank = find_variable(snapshot, k_started_rank_variable);
  return static_cast<int>(rank ? parse_integer(*rank).value_or(-1) : -1);
}

void tell(const Snapshot& snapshot, const StarterAddress& starter, int code) {
  boost::asio::io_context context;
  std::unique_ptr<LifelineClient> client;
  LifelineClient::Hooks hooks;
  hooks.on_connected = [&] { client->end({code, false}, [&] { context.stop(); }); };
  hooks.on_signal = [](const lifeline::Signal&) {};
  hooks.on_task = [](const std::string&) {};
  hooks.on_gone = [&](const std::string&) { context.stop(); };
  hooks.on_unreachable = [&](const std::string&) { context.stop(); };
  client = std::make_unique<LifelineClient>(context, starter, make_lifeline_prover(snapshot, Options{}),
                                            lifeline::Hello{place_of(snapshot), snapshot.host.name, false},
                                            std::move(hooks));
  client->start();
  context.run();
}

}  // namespace

void report_failed_start(const Snapshot& snapshot, int code) noexcept {
  try {
    const auto text = find_variable(snapshot, k_starter_variable);
    const auto starter = text ? parse_starter_address(*text) : std::nullopt;
    if (starter && code != 0) tell(snapshot, *starter, code);
  } catch (const std::exception& error) {
    say_detail(error.what());
  }
}

}  // namespace ddprun
