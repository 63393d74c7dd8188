// An agent that another ddprun started: what comes over its lifeline, and what it says at its end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "ddprun/allocation/started.hpp"
#include "ddprun/app/driver.hpp"
#include "ddprun/app/log.hpp"
#include "ddprun/app/started_agent.hpp"
#include "ddprun/app/stop_signals.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/plan/rendezvous_plan.hpp"

namespace ddprun {

namespace {

constexpr std::chrono::milliseconds k_carrier_look{1000};

}  // namespace

void Driver::hold_lifeline() {
  const auto text = find_variable(snapshot_, k_starter_variable);
  if (!text) return;
  const auto starter = parse_starter_address(*text);
  if (!starter) throw Error(fmt::format("{} is not where a ddprun listens", k_starter_variable), "unset it");
  LifelineClient::Hooks hooks;
  hooks.on_connected = [] {};
  hooks.on_task = [](const std::string&) {};
  hooks.on_signal = [this](const lifeline::Signal& signal) {
    const std::vector<int> watched = watched_signals_of(plan_.options);
    if (std::find(watched.begin(), watched.end(), signal.number) != watched.end()) on_told_signal(signal);
  };
  hooks.on_gone = [this](const std::string& why) { lose_starter(why); };
  hooks.on_unreachable = [this](const std::string& why) {
    say_detail(
        fmt::format("{} cannot reach the ddprun that started it, and goes on without: {}", plan_.host, why));
    watch_carrier();
  };
  lifeline_ =
      std::make_unique<LifelineClient>(context_, *starter, make_lifeline_prover(snapshot_, plan_.options),
                                       lifeline::Hello{place_among_hosts(plan_), plan_.host, false},
                                       std::move(hooks), plan_.options.link_timeout.value);
  lifeline_->start();
}

void Driver::lose_starter(const std::string& why) {
  if (ending_) return hurry();
  const std::string what = fmt::format("the ddprun that started it on {} is gone: {}", plan_.host, why);
  plan_.rendezvous.agent.value == 0 ? say_error(what) : say_detail(what);
  on_told_signal({SIGTERM, false, false, /*explained=*/true});
}

// Without a lifeline a carrier like ssh has one message left, its end: then nobody reads standard output.
void Driver::watch_carrier() {
  carrier_timer_.expires_after(k_carrier_look);
  carrier_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (is_hung_up(STDOUT_FILENO)) return lose_starter("nobody reads standard output any more");
    watch_carrier();
  });
}

void Driver::tell_end(std::function<void()> told) {
  if (!lifeline_) return told();
  lifeline_->end({exit_code_}, std::move(told));
}

}  // namespace ddprun
