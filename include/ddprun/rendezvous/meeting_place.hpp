// Where the coordinator listens, as it tells the others by other ways than their plan: through the launcher's
// exchange as one word, or in a meeting file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

inline constexpr std::size_t k_max_place_addresses = 16;

struct MeetingPlace {
  std::vector<std::string> addresses;  // numeric, best first; 1 .. k_max_place_addresses
  int port = 0;
  friend bool operator==(const MeetingPlace&, const MeetingPlace&) = default;
};

// "20480,10.0.0.1,fd00::1": nothing in it that a key-value exchange could not carry. Addresses past the limit
// are left out.
std::string render_place(const MeetingPlace& place);
// Nothing for anything else.
std::optional<MeetingPlace> parse_place(std::string_view text);

// The contents of a meeting file.
struct MeetingNote {
  std::string launch;  // launch key
  std::string host;    // the coordinator's, and its process there: for people
  int process = 0;
  MeetingPlace place;
  friend bool operator==(const MeetingNote&, const MeetingNote&) = default;
};

std::string render_note(const MeetingNote& note);
// The note, or why it is not followed: "it belongs to another launch, slurm/28/0/0", "it is not complete".
std::variant<MeetingNote, std::string> parse_note(std::string_view text, const std::string& launch);

}  // namespace ddprun
