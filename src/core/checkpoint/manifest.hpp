// Manifest of what a rank has saved of a step, and how files are named.
// It has the names, lengths and hashes of the part's files.
//
// The manifest is JSON: {"world": 8, "files": {"rank-3.pt": 1000}}, or with hashes
// {"world": 8, "files": {"rank-3.pt": {"bytes": 1000, "blake2b": "64 hexadecimal digits"}}}.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/held.hpp"

namespace ddprun::checkpoint {

inline constexpr std::size_t k_longest_manifest = std::size_t{4} << 20U;

struct File {
  std::string name;
  std::uint64_t bytes = 0;
  std::string blake2b{};  // 256 bits; empty: not known
  friend bool operator==(const File&, const File&) = default;
};

struct Manifest {
  int world = 0;
  std::vector<File> files;  // sorted by name
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string render(const Manifest& manifest);
Manifest parse_manifest(const std::string& json);  // throws Error
std::uint64_t size_of(const Manifest& manifest);

// Reports whether a file of a part may have this name: letters, digits, '.', '_' and '-', at most 200; the
// only one with a dot in front is ".metadata" of torch.distributed.checkpoint.
bool is_file_name(std::string_view name);
std::string step_folder(std::int64_t step);                     // "step-12"
std::optional<std::int64_t> parse_step(std::string_view name);  // reads such a name
std::string manifest_name(int rank);                            // "rank-3.manifest"
std::optional<int> parse_manifest_name(std::string_view name);
// Returns the rank in "rank-3" or "rank-3.bin": a part that is one file, of a program that writes no
// manifest.
std::optional<int> parse_lone_file(std::string_view name);

// A part as another agent has it.
struct Offer {
  std::int64_t step = 0;
  int rank = 0;
  Manifest manifest;
  friend bool operator==(const Offer&, const Offer&) = default;
};
std::string encode(const std::vector<Offer>& offers);
std::vector<Offer> decode_offers(std::string_view bytes);  // throws Error

// Renders the parts of one step for a worker: {"world": 8, "parts": {"3": {"rank-3.pt": 1000}}}.
std::string render_parts(const std::map<int, Manifest>& parts);

}  // namespace ddprun::checkpoint
