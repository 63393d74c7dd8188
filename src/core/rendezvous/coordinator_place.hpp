// Address of the coordinator as published: one word in the launcher's key-value space, or a rendezvous file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::rendezvous {

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

}  // namespace ddprun::rendezvous
