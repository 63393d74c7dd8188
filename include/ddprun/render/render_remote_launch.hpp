// What --dry-run shows where ddprun starts itself on other hosts.
#pragma once

#include <string>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/selflaunch/remote_launcher.hpp"

namespace ddprun {

std::string render_text(const SelfLaunchPlan& plan);
std::string render_json(const SelfLaunchPlan& plan, const Snapshot& snapshot);

}  // namespace ddprun
