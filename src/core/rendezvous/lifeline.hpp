// Messages between the ddprun that the user started and those it started on other hosts (self-launch).
//
// The front end listens; every agent it started connects and shakes hands (rendezvous/handshake.hpp, launch
// key lifeline_key()). Then frames of the codec's form go both ways:
//
//   agent     -> Hello{place, host, wants_task}   first, once
//   front end -> Task{bytes}                      to one that wants it: it becomes that and connects anew
//   front end -> Signal{number, ...}              as if it had been sent to the agent itself
//   agent     -> Ended{code}                      last: the exit code it is about to end with
//   agent     -> Ended{code, coordinated}         the same of the coordinator's
//   agent     -> Ended{code, not started}         the same of an agent that cannot take part: a wrong
//                                                 option, no script
//
// An agent may open further connections, for what it writes to standard output and standard error. Each
// begins with Output{stream, host} in place of Hello; then come the bytes as they are, to their end, which
// the front end answers by closing once it has read all. Nothing goes the other way: TCP's window is what
// holds a worker up whose output nobody reads.
//
// The connection's end is the message that the other side is gone. All frames are sealed
// (net/sealed_stream.hpp): a task holds the user's whole environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/handshake.hpp"

namespace ddprun::rendezvous {

// Address where a front end listens. The id is random and names the launch; it is no secret.
struct FrontEndAddress {
  std::vector<std::string> addresses;  // numeric, best first
  int port = 0;
  std::string id;
  friend bool operator==(const FrontEndAddress&, const FrontEndAddress&) = default;
};

// Renders "10.0.0.1,fd00::1:40123/8f3c", and parses it; nullopt for any other text.
std::string to_string(const FrontEndAddress& address);
std::optional<FrontEndAddress> parse_front_end_address(std::string_view text);

// Returns the launch key of both ends' handshake.
std::string lifeline_key(const std::string& id);

// Task of an agent whose remote launcher passes neither arguments nor environment.
struct AgentTask {
  std::vector<std::string> arguments;    // without the program's name
  std::string directory;                 // empty: where it is
  std::vector<std::string> environment;  // "NAME=value"
  friend bool operator==(const AgentTask&, const AgentTask&) = default;
};

// Encodes a task as bytes for a pipe or for sealing, and decodes it; nullopt if the bytes are incomplete.
std::string encode(const AgentTask& task);
std::optional<AgentTask> decode_task(std::string_view bytes);
inline constexpr std::size_t k_max_task = std::size_t{1} << 19;

namespace lifeline {

struct Hello {
  int place = -1;  // index among the hosts; -1 where it does not know
  std::string host;
  bool wants_task = false;
  friend bool operator==(const Hello&, const Hello&) = default;
};
struct Task {
  std::string bytes;  // an encoded AgentTask; empty: there is no such place
  friend bool operator==(const Task&, const Task&) = default;
};
struct Signal {
  int number = 0;           // 1 .. 64
  bool hurry = false;       // a person asks to stop once more: no grace is left
  bool whole_tree = false;  // sender signalled every process there, and may be about to do so here
  bool explained = false;   // the front end has said why: that the job was stopped is no news
  friend bool operator==(const Signal&, const Signal&) = default;
};
struct Ended {
  int code = 0;              // 0 .. 255
  bool started = true;       // false: it failed before it could join the others, which need not wait for it
  bool coordinated = false;  // coordinated in the end: its word is that of the job
  friend bool operator==(const Ended&, const Ended&) = default;
};

// Stream of the bytes that follow on the connection, once the front end has answered with one byte: bytes
// written before could be lost with the connection, unnoticed.
enum class Stream { output, error };
inline constexpr char k_output_taken = 1;
struct Output {
  Stream stream = Stream::output;  // also of both together, where both lead to one file in the end
  std::string host;
  friend bool operator==(const Output&, const Output&) = default;
};

using Message = std::variant<Hello, Task, Signal, Ended, Output>;

// Encodes a whole frame: length and payload.
std::string encode(const Message& message);
// Decodes one payload; nullopt for any that encode() does not make.
std::optional<Message> decode(std::string_view payload);

}  // namespace lifeline

// Returns the environment that an agent on another host gets: the front end's, without what belongs to a host
// (names, addresses, the scheduler's own numbers of the process there); visible devices are the agent's own
// if it has any.
std::vector<std::string> merge_environments(const std::vector<std::string>& front_end,
                                            const std::vector<std::string>& own);

}  // namespace ddprun::rendezvous
