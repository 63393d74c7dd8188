// Address of the coordinator: the one that becomes MASTER_ADDR, and the published one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::rendezvous {

// Address of the coordinator as published: one word in the launcher's key-value space, or a rendezvous file.

inline constexpr std::size_t k_max_place_addresses = 16;

struct CoordinatorPlace {
  std::vector<std::string> addresses;  // numeric, best first; 1 .. k_max_place_addresses
  int port = 0;
  friend bool operator==(const CoordinatorPlace&, const CoordinatorPlace&) = default;
};

// Reports whether the text is a numeric address: a name from another process is not looked up.
bool is_address(std::string_view text);

// Renders "20480,10.0.0.1,fd00::1": nothing in it that a key-value space could not carry. Addresses past the
// limit are left out.
std::string render_place(const CoordinatorPlace& place);
// Returns nullopt for any other text.
std::optional<CoordinatorPlace> parse_place(std::string_view text);

// The contents of a rendezvous file.
struct CoordinatorNote {
  std::string launch;  // launch key
  std::string host;    // the coordinator's, and its process there: for people
  int process = 0;
  CoordinatorPlace place;
  friend bool operator==(const CoordinatorNote&, const CoordinatorNote&) = default;
};

std::string render_note(const CoordinatorNote& note);
// Returns the note, or why it is not followed: "it belongs to another launch, slurm/28/0/0", "it is not
// complete".
std::variant<CoordinatorNote, std::string> parse_note(std::string_view text, const std::string& launch);

// Choice of the coordinator's address that becomes MASTER_ADDR: one that every agent is known to reach.

// Knowledge of one agent. Agents on the coordinator's own host reach every address of it.
struct AddressWitness {
  std::string host;
  bool beside_coordinator = false;
  std::string reached;                             // address it joined by; empty for the coordinator's agent
  std::optional<std::vector<std::string>> probed;  // addresses it reached when asked
  std::vector<std::string> failures{};             // reasons why it did not reach the others
};

// Returns "10.0.0.1" for "::ffff:10.0.0.1"; a scope is cut off.
std::string plain_address(const std::string& address);
bool is_loopback_address(const std::string& address);
// Reports whether the address is numeric, and not loopback, link-local IPv6 or the wildcard: it means the
// same host everywhere.
bool crosses_hosts(const std::string& address);

// Returns the interface of this host that has an address of its own; empty for loopback ones and for other
// hosts'.
std::string interface_of(const std::vector<facts::InterfaceAddress>& own, const std::string& address);

// Returns the address when the joins alone decide; nullopt when the witnesses have to be asked.
std::optional<std::string> agreed_address(const std::vector<AddressWitness>& witnesses,
                                          const std::vector<std::string>& own_addresses);
// Returns the addresses to ask about: the coordinator's own, best first, then others that some agent has
// reached.
std::vector<std::string> addresses_to_probe(const std::vector<AddressWitness>& witnesses,
                                            const std::vector<std::string>& own_addresses);
// Returns the first candidate that all reach; nullopt when there is none.
std::optional<std::string> common_address(const std::vector<AddressWitness>& witnesses,
                                          const std::vector<std::string>& candidates);
// Returns the reason why there is none: "no address of n1 is reached by all nodes (tried 10.0.0.1, 10.1.0.1):
// n2 reaches 10.0.0.1 only; n3 reaches none".
std::string describe_no_common_address(const std::string& coordinator,
                                       const std::vector<AddressWitness>& witnesses,
                                       const std::vector<std::string>& candidates);

}  // namespace ddprun::rendezvous
