#include "rendezvous/coordinator/hangs.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::rendezvous {

void Hangs::note(AgentIndex agent, const Quiet& quiet) {
  if (quiet.quiet) {
    quiet_[agent] = quiet.since;
  } else {
    quiet_.erase(agent);
    told_ = false;
  }
}

bool Hangs::takes(const EarlyExit& early) {
  if (early_ && early_->expired >= early.expired) return false;
  early_ = early;
  return true;
}

std::string Hangs::why_quiet() const {
  const auto shortest = std::ranges::min_element(quiet_, {}, [](const auto& each) { return each.second; });
  return "no rank has shown a sign of life for " + describe_seconds(shortest->second);
}

std::string Hangs::why_early() const {
  return fmt::format("rank {} exited with code 0 {} ago", early_->rank.value,
                     describe_seconds(early_->since));
}

}  // namespace ddprun::rendezvous
