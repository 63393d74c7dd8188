// The command of --check-command, run on this node.
#pragma once

#include <optional>
#include <string>

#include "check/host_record.hpp"
#include "facts/snapshot.hpp"
#include "lifecycle/check_command.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::probes {

// Question to the command: why it is asked, and what has failed.
struct CheckQuestion {
  lifecycle::CheckFor why = lifecycle::CheckFor::start;
  Attempt attempt{};
  std::optional<report::Failure> failure{};
};

// Look at this node before the first attempt.
struct StartLook {
  std::optional<check::HostRecord> record{};  // with --check=auto
  bool command_is_broken = false;             // reported already
};

inline bool has_own_check(const plan::NodeProposal& node) {
  return !node.options.check.command.value.empty();
}

// Runs it and waits for its verdict, --check-timeout at most; to be called in a child, which gives the
// verdict to read_verdict(). The command has ddprun's environment with DDPRUN_CHECK_FOR, DDPRUN_ATTEMPT and
// DDPRUN_NODE, and render_check_input() as its standard input.
std::string ask_own_check(const plan::NodeProposal& node, const facts::Snapshot& snapshot,
                          const CheckQuestion& question);
// Without an answer the check is broken.
lifecycle::CommandVerdict read_verdict(const std::string& answer);

// For the child, beyond --check-timeout: a command that is killed takes a moment to end.
inline constexpr Milliseconds k_own_check_margin{2000};

}  // namespace ddprun::probes
