// Output of --dry-run for a ddprun that starts itself on other hosts.
#pragma once

#include <string>

#include "facts/snapshot.hpp"
#include "options/restart_options.hpp"
#include "selflaunch/remote_launcher.hpp"

namespace ddprun::render {

std::string render_text(const selflaunch::SelfLaunchPlan& plan, const facts::Snapshot& snapshot,
                        const options::TimeLimitOptions& limit);
std::string render_json(const selflaunch::SelfLaunchPlan& plan, const facts::Snapshot& snapshot,
                        const options::TimeLimitOptions& limit);

}  // namespace ddprun::render
