// Messages as bytes: a 32-bit big-endian length, then that many bytes of JSON.
// Everything has a limit, and nothing throws: malformed or oversized input comes back as a sentence.
//
// Encoding shortens text that is too long (a worker's last lines are its own choice; of a traceback the end
// is kept) and replaces bytes that are not UTF-8, so an encoded message always fits a frame. Decoding refuses
// what encoding cannot produce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "options/options.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

inline constexpr std::size_t k_frame_header = 4;
inline constexpr std::size_t k_max_frame = std::size_t{1} << 20;

// Limits that encoding cuts to.
inline constexpr std::size_t k_max_text = 1024;           // a name, a sentence, a line of output, in bytes
inline constexpr std::size_t k_max_failure_text = 16384;  // message of the first failure
inline constexpr std::size_t k_max_failure_lines = 40;    // last lines of the first failure
inline constexpr std::size_t k_max_further_failures = 8;  // in Stopped and Finish
inline constexpr std::size_t k_max_further_text = 4096;   // message of a further failure
inline constexpr std::size_t k_max_further_lines = 8;     // last lines of a further failure
inline constexpr std::size_t k_max_remarks = 8;           // sentences in Finish
inline constexpr std::size_t k_max_modules = 16384;       // names in Modules
inline constexpr std::size_t k_max_silent = 512;          // hosts without an answer, in JobShown
inline constexpr std::size_t k_max_stage_sources = 32;    // a tree's depth for 2^31 hosts
inline constexpr std::size_t k_max_addresses = 64;        // in Probe and Probed
inline constexpr std::size_t k_max_parts = 2048;          // parts of checkpoints; the newest are told
// Others that hold parts of a checkpoint: their number, and where more bytes are needed none is told.
inline constexpr std::size_t k_max_holders = 1024, k_max_holder_bytes = std::size_t{3} << 18;
inline constexpr std::size_t k_max_store_places = 4;            // in Start
inline constexpr Milliseconds k_longest_start_pause{86400000};  // before the next attempt, in Start
inline constexpr std::size_t k_max_store_ports = 64;            // in Join
inline constexpr std::size_t k_max_worker_gpus = 16;  // for one worker; at most k_max_workers of them
// The devices in one message, in bytes: those of an agent's workers, or of all on its host. Where they need
// more, none of them is told.
inline constexpr std::size_t k_max_devices = std::size_t{1} << 18;
inline constexpr std::int64_t k_max_processes = 1 << 24;  // agents or ranks of a launch

std::string encode(const AgentMessage& message);
std::string encode(const CoordinatorMessage& message);

struct CodecError {
  std::string what;  // "a frame of 2 GiB ...": one sentence
};

// Decode the JSON of one frame.
std::variant<AgentMessage, CodecError> decode_agent_message(std::string_view payload);
std::variant<CoordinatorMessage, CodecError> decode_coordinator_message(std::string_view payload);

// Returns the payload as a frame that FrameReader reads. The payload is not longer than k_max_frame.
std::string make_frame(std::string_view payload);

// Cuts a byte stream into frames. A frame that is not complete has no effect.
class FrameReader {
 public:
  void append(std::string bytes);
  // Returns the next whole frame's payload; nothing when more bytes are needed; an error for a length past
  // the limit, after which the stream cannot be used any more.
  std::variant<std::monostate, std::string, CodecError> next();
  // Takes the bytes behind the last frame, once no further frame comes.
  std::string take_rest() { return std::exchange(buffer_, {}); }

 private:
  std::string buffer_;
};

}  // namespace ddprun::rendezvous
