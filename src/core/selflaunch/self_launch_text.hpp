// The sentences of a self-launch, with their hints.
#pragma once

#include <string>
#include <vector>

#include "base/duration.hpp"
#include "rendezvous/lifeline.hpp"
#include "selflaunch/remote_launcher.hpp"
#include "selflaunch/self_launch.hpp"

namespace ddprun::selflaunch {

selflaunch::Say say_connected(const rendezvous::lifeline::Hello& hello);
selflaunch::Say say_ended(const rendezvous::lifeline::Hello& hello, int code);
selflaunch::Say say_lost(const rendezvous::lifeline::Hello& hello, const std::string& why);
// Says that no agent has connected to this port of ours for so long.
selflaunch::Say say_silence(const SelfLaunchPlan& plan, Milliseconds silence, int port);
// Says that a start failed. `words`: the remote launcher's, or why it could not be run; may be empty.
selflaunch::Say say_failed_start(const SelfLaunchPlan& plan, const RemoteCommand& command, int code,
                                 const std::string& words);
// Says that this one has ended long ago and its agent never connected.
selflaunch::Say say_without_agent(const RemoteCommand& command, int code, bool others_go_on);

// Describe an end that is not known: no agent came at all, some were lost, some reported nothing.
selflaunch::Say say_no_agent_connected(const SelfLaunchPlan& plan, int code);
selflaunch::Say say_lost_hosts(const std::vector<std::string>& hosts);
selflaunch::Say say_unreported(const SelfLaunchPlan& plan, std::size_t hosts);

}  // namespace ddprun::selflaunch
