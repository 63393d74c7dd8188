// The process beside an agent that keeps checkpoints in memory (--checkpoint-memory).
// It outlives the agent by as long as it takes to remove them, however the agent ended.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.hpp"
#include "checkpoint/manifest.hpp"
#include "os/descriptors.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/message_fields.hpp"

namespace ddprun::checkpoints {

// The socket by which workers ask for what their checkpoints need: a line a request, a line an answer.

// Listens at a path, for this user. Throws Error.
os::Fd listen_for_workers(const std::string& path);

// Serves as long as the process lives, each connection in a thread. `answer` returns the answer to a line,
// and is called without one when the connection has ended; `from` is the same for all lines of one.
using Answer = std::function<std::string(const void* from, const std::string* line)>;
[[noreturn]] void serve_workers(const os::Fd& listener, const Answer& answer);

struct CheckpointSettings {
  std::uint64_t memory = 0;  // bytes for this agent's folder, replicas included; 0: off
  std::string place;         // --checkpoint-folder
  std::uint64_t rate = 0;    // bytes a second of copying replicas; 0: no limit
  std::string flush;         // --checkpoint-flush; empty: none
  std::string flush_key;     // tells this job's unfinished flushes there from others'
  bool keep = false;         // --checkpoint-keep
  std::string job;           // tells the job from others; the same after a requeue where checkpoints are kept
  int agent = 0;
  std::string launch_key;
  std::vector<int> ports;  // for the door, tried in order; none: there are no other agents
};

// Kinds of frames to the process; and those it answers with, begun and settled, or sends by itself.
enum class Frame : char {
  begin = 'B',    // Begin
  order = 'O',    // checkpoint::Order
  settle = 'S',   // workers have ended
  end = 'E',      // "keep" or nothing
  held = 'H',     // checkpoint::Held
  known = 'K',    // the first look is done; "off": there is no folder
  fetched = 'F',  // number of an attempt: the parts of its workers' ranks are here, or cannot be had
  notice = 'N',   // two texts of staging::put_text
};
struct Begin {
  int attempt = 0, world = 0;
  std::optional<checkpoint::Restore> restore{};
  std::vector<int> ranks{};  // ranks of this agent's workers
};
void describe_begin(rendezvous::Fields& fields, Begin& begin);

template <class Record>
std::string write_record(Record record, rendezvous::Fields::Describe<Record> describe) {
  nlohmann::json json;
  rendezvous::Fields fields(json, rendezvous::Fields::k_unlimited);
  describe(fields, record);
  return write_json_text(json);
}
template <class Record>
Record read_record(std::string_view text, rendezvous::Fields::Describe<Record> describe) {
  const nlohmann::json json = read_json_text(text);
  std::string problem;
  rendezvous::Fields fields(json, problem, rendezvous::Fields::k_unlimited);
  Record record;
  describe(fields, record);
  return record;
}

// Runs in a forked child until the other end of `socket` is closed; ends the process. `listener`: of the
// door, -1: none; `secret` is the door's.
[[noreturn]] void run_checkpoint_process(const CheckpointSettings& settings, const std::string& secret,
                                         int socket, int listener);

}  // namespace ddprun::checkpoints
