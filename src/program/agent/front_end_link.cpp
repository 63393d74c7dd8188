#include "agent/front_end_link.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "console/console.hpp"
#include "net/timers.hpp"
#include "os/descriptors.hpp"
#include "peers/authenticators.hpp"
#include "plan/rendezvous_plan.hpp"

namespace ddprun::agent {

namespace {

constexpr std::chrono::milliseconds k_remote_launcher_look{1000};

}  // namespace

void FrontEndLink::hold(const facts::Snapshot& snapshot) {
  const auto text = facts::find_variable(snapshot, allocation::k_front_end_variable);
  if (!text) return;
  const auto front_end = rendezvous::parse_front_end_address(*text);
  if (!front_end)
    throw Error(fmt::format("invalid {}, expected ADDRESS:PORT/ID", allocation::k_front_end_variable),
                "unset it");
  net::LifelineClient::Hooks hooks;
  hooks.on_connected = [] {};
  hooks.on_task = [](const std::string&) {};
  hooks.on_signal = hooks_.on_signal;
  hooks.on_gone = hooks_.on_gone;
  hooks.on_unreachable = [this](const std::string& why) {
    console::say_detail(
        fmt::format("agent on {} cannot reach its launching ddprun and continues without it: {}",
                    plans_.node->host, why));
    watch_remote_launcher();
  };
  lifeline_ = std::make_unique<net::LifelineClient>(
      context_, *front_end, peers::make_lifeline_authenticator(snapshot, plans_.node->options),
      rendezvous::lifeline::Hello{plan::place_among_hosts(*plans_.node), plans_.node->host, false},
      std::move(hooks), plans_.node->options.host_timeout.value);
  lifeline_->start();
}

// Watches for the end of the remote launcher. Without a lifeline a program like ssh has one message left, its
// end: then standard output has no reader.
void FrontEndLink::watch_remote_launcher() {
  net::call_after(look_, k_remote_launcher_look, [this] {
    if (os::is_hung_up(STDOUT_FILENO)) return hooks_.on_gone("standard output is no longer read");
    watch_remote_launcher();
  });
}

void FrontEndLink::tell_end(const rendezvous::lifeline::Ended& ended, std::function<void()> told) {
  lifeline_ ? lifeline_->end(ended, std::move(told)) : told();
}

}  // namespace ddprun::agent
