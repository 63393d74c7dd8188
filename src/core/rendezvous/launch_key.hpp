// The key that both sides of a handshake have to prove, and why two of them differ, in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::rendezvous {

// Appends the command itself, without secrets, to a key that has its digest (plan::k_command_mark): an agent
// that runs another one is told which.
std::string with_command(const std::string& launch_key, const std::vector<std::string>& command);

// Describes the difference of two keys from with_command() that are not equal.
std::string describe_other_launch(std::string_view own, std::string_view other);

}  // namespace ddprun::rendezvous
