// Rendezvous of the agents of one launch: from the allocation alone, and by the other ways of meeting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Ports where agents that share only a few variables look for each other.

// Ports of the deterministic sequence lie in [first, last): above the fixed ports of common services and
// below Linux' default ephemeral range (32768-60999), where any outgoing connection may sit.
inline constexpr int k_first_sequence_port = 20480;
inline constexpr int k_last_sequence_port = 32256;

struct PortRange {
  int first = k_first_sequence_port;
  int last = k_last_sequence_port - 1;  // inclusive
};

// Returns a hash that is stable across versions and machines.
std::uint64_t launch_hash(const std::string& launch_key);

inline constexpr int k_sequence_ports = 8;
inline constexpr int k_spare_ports = 24;  // beyond those, for where others hold all of them

// Returns `count` different ports, or all of a smaller range, that follow from the launch key alone: the
// coordinator binds the first free one, members try all of them, and the handshake tells strangers apart.
std::vector<int> make_port_sequence(const std::string& launch_key, int count = k_sequence_ports,
                                    PortRange range = {});

// Discovery of the coordinator beside the addresses that members can know, and proofs of membership.

// Fills key_value_space, rendezvous_file and secrets. All agents of a launch must come to the same answer, so
// it follows from the launcher and the options, never from what one host happens to know.
//
// Unasked, PMI is spoken where one agent a node was started by a launcher that does not name the first host
// to all of them (Allocation::first_known), hydra above all: a connection that was used cannot serve an MPI
// program everywhere, and there it can. PMIx and Slurm's pmi2 are spoken when asked for only (--rdzv pmi). A
// rendezvous file is there wherever the first host is not known to all.
//
// Throws UsageError for a way that was asked for and cannot be gone.
void choose_discovery(RendezvousPlan& rendezvous, const allocation::Allocation& allocation,
                      const options::Options& options, const facts::Snapshot& snapshot);

// A member tries one address after the other, with a fifth of a second between them.
constexpr std::size_t k_most_addresses = 33;

// Mark in a launch key: a digest of the command line follows, if nothing else names the launch.
inline constexpr const char* k_command_mark = "/command-";

// Returns who coordinates, this agent's number, and where members look: names, addresses and ports. The other
// ways of meeting are choose_discovery's.
RendezvousPlan make_rendezvous_plan(const allocation::Allocation& allocation, const options::Options& options,
                                    const facts::Snapshot& snapshot);

// Takes `ports` and `spare_ports` from the sequence of its key.
void follow_sequence(RendezvousPlan& rendezvous, PortRange range, const std::string& origin);

// Reports whether the agents were started by hand: their hosts are not known, and each has a terminal of its
// own.
bool is_by_flags(const allocation::Allocation& allocation);

// Returns this host's place in the scheduler's order; if that order is not known, the agent's number.
int place_among_hosts(const NodeProposal& node);
// Returns its place in the order of ranks, as far as that is known before the others have come.
int expected_place(const NodeProposal& node);

// Returns a notice if the user named a coordinator that is none of the hosts, as far as names and this host's
// addresses show.
std::optional<allocation::Notice> find_foreign_address(const NodeProposal& node,
                                                       const facts::HostFacts& host);

// The user named a host for the coordinator that is not the one of rank 0, which scripts expect at
// MASTER_ADDR.
std::optional<allocation::Notice> find_coordinator_beside_rank_0(const NodeProposal& node);

// An address among the keys of --rdzv-conf, where nobody reads it.
std::optional<allocation::Notice> find_endpoint_in_conf(const options::Options& options);

// Returns a notice for a start by hand with --node-rank 0 and another host's address, or with another rank
// and this host's.
std::optional<allocation::Notice> find_misplaced_rank(const NodeProposal& node,
                                                      const facts::Snapshot& snapshot);

// Returns a notice if this host may be waiting alone: its flags say that the others are started by hand,
// inside a job of several.
std::optional<allocation::Notice> explain_waiting_alone(const NodeProposal& node);

}  // namespace ddprun::plan
