// An agent that another ddprun started: what comes over its lifeline, and what it says at its end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/driver.hpp"
#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "console/log.hpp"
#include "event_loop/stop_signals.hpp"
#include "os/descriptors.hpp"
#include "peers/lifeline_authenticator.hpp"
#include "plan/rendezvous_plan.hpp"

namespace ddprun::agent {

namespace {

constexpr std::chrono::milliseconds k_remote_launcher_look{1000};

}  // namespace

void Driver::hold_lifeline() {
  const auto text = facts::find_variable(snapshot_, allocation::k_front_end_variable);
  if (!text) return;
  const auto front_end = rendezvous::parse_front_end_address(*text);
  if (!front_end)
    throw Error(fmt::format("invalid {}, expected ADDRESS:PORT/ID", allocation::k_front_end_variable),
                "unset it");
  net::LifelineClient::Hooks hooks;
  hooks.on_connected = [] {};
  hooks.on_task = [](const std::string&) {};
  hooks.on_signal = [this](const rendezvous::lifeline::Signal& signal) {
    const std::vector<int> watched = event_loop::watched_signals_of(node_->options);
    if (std::find(watched.begin(), watched.end(), signal.number) != watched.end()) on_told_signal(signal);
  };
  hooks.on_gone = [this](const std::string& why) { lose_front_end(why); };
  hooks.on_unreachable = [this](const std::string& why) {
    console::say_detail(fmt::format(
        "agent on {} cannot reach its launching ddprun and continues without it: {}", node_->host, why));
    watch_remote_launcher();
  };
  lifeline_ = std::make_unique<net::LifelineClient>(
      context_, *front_end, peers::make_lifeline_authenticator(snapshot_, node_->options),
      rendezvous::lifeline::Hello{plan::place_among_hosts(*node_), node_->host, false}, std::move(hooks),
      node_->options.host_timeout.value);
  lifeline_->start();
}

void Driver::lose_front_end(const std::string& why) {
  if (!life_.ending()) {
    const std::string what = fmt::format("agent on {} lost its launching ddprun: {}", node_->host, why);
    node_->rendezvous.agent.value == 0 ? console::say_error(what) : console::say_detail(what);
  }
  carry_out(life_.on_front_end_lost(os::now()));
  decide();
}

// Without a lifeline a remote launcher like ssh has one message left, its end: then nobody reads standard
// output.
void Driver::watch_remote_launcher() {
  remote_launcher_timer_.expires_after(k_remote_launcher_look);
  remote_launcher_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (os::is_hung_up(STDOUT_FILENO)) return lose_front_end("standard output is no longer read");
    watch_remote_launcher();
  });
}

void Driver::tell_end(std::function<void()> told) {
  if (!lifeline_) return told();
  lifeline_->end({life_.exit_code(), true, coordinator_ != nullptr}, std::move(told));
}

}  // namespace ddprun::agent
