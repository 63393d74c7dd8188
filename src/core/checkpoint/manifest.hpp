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

#include "staging/tree.hpp"

namespace ddprun::checkpoint {

// Knowledge of the checkpoints that nodes keep in memory (--checkpoint-memory), as values.
// Words: a step's checkpoint is complete once each rank of its world has saved its part; a replica is a
// part's copy on another node. Steps are numbers of the training, from 0 on.

struct Part {
  std::int64_t step = 0;
  int rank = 0;
  int world = 0;  // ranks of its step
  std::uint64_t bytes = 0;
  bool replica = false;
  friend bool operator==(const Part&, const Part&) = default;
};

// All that one agent has of the job's checkpoints, whole each time.
struct Held {
  std::vector<Part> parts;  // complete ones, sorted by (step, rank, replica)
  // Step of the latest flush order of which it has written a part, and the ranks of those; nothing any more
  // once an attempt starts from an older one.
  std::optional<std::int64_t> flushed{};
  std::vector<int> flushed_ranks{};
  int flushed_number = 0;  // Order::flush_number of that order
  // Newest complete step in the flush folder that it sees.
  std::optional<std::int64_t> published{};
  int published_world = 0;
  // Latest attempt that was begun here, and the step which it started from; -1: none. What was there before
  // it and is newer has gone already.
  int attempt = -1;
  std::int64_t begun_from = -1;
  // Steps which the attempts right before it here started from, newest first.
  std::vector<std::int64_t> before{};
  friend bool operator==(const Held&, const Held&) = default;
};

inline constexpr std::size_t k_most_before = 8;

// Notes an attempt that is begun here: a flush of a newer step than it starts from is none any more.
void begin_attempt(Held& held, int attempt, std::int64_t from);

// Agent that serves parts of a step; never the one that is told of it.
struct Holder {
  staging::Server server;  // `door` is Announcement::checkpoint_door
  std::vector<int> ranks;
  friend bool operator==(const Holder&, const Holder&) = default;
};

// Checkpoint that an attempt starts from. Each agent removes what is newer before it starts workers, and all
// that it has where an attempt starts from nothing.
struct Restore {
  std::int64_t step = 0;
  int world = 0;
  bool from_flush = false;  // the flush folder has it too
  bool only_flush = false;  // it may be of another history than all in memory, which is removed
  bool own = true;          // else what the agent has itself is of another history, and is removed first
  std::vector<Holder> holders{};
  friend bool operator==(const Restore&, const Restore&) = default;
};

// Returns the step up to which what was in memory before the attempt counts; -1: nothing does.
std::int64_t begun_from(const std::optional<Restore>& restore);

// Orders for an agent, whole each time; the same order twice changes nothing.
struct Order {
  std::optional<staging::Server> copy_from{};  // neighbour whose own parts it keeps replicas of
  // Steps that are kept, newest first: older ones go, newer ones stay, and those between may make room.
  std::vector<std::int64_t> complete{};
  std::optional<std::int64_t> flush{};
  int flush_world = 0;  // ranks of that step
  // Number of the attempt and coordinator that began that flush: a part of the unfinished folder's name, so
  // that an agent that is cut off, with a coordinator of its own perhaps, writes no part of another history
  // there.
  int flush_number = 0;
  std::vector<int> flush_ranks{};         // ranks whose parts of that step it writes to the flush folder
  std::optional<std::int64_t> publish{};  // only to one agent: rename that folder once it is whole
  bool ending = false;                    // Finish follows the flush, which may take minutes
  friend bool operator==(const Order&, const Order&) = default;
};

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
