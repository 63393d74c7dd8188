// The process beside an agent that copies for --stage: it fetches, serves and removes this host's copies.
// It passes them on to other hosts for as long as the agent lives, and removes them after it, however the
// agent ended.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "staging/rewrite.hpp"
#include "staging/tree.hpp"

namespace ddprun::agent {

struct StageOrder {
  std::string host;
  std::vector<std::string> paths;   // --stage, absolute
  std::vector<std::string> places;  // staging::places()
  bool make_place = false;          // the one that --stage-to names, where its parent is there
  bool keep = false;
  Milliseconds progress{0};              // is told so often
  std::vector<staging::Server> sources;  // staging::Tree; none: this host reads the paths
  std::string launch_key;
  std::string secret;  // secret of this host's door
  int listener = -1;   // listening socket of that door; -1: no other host needs it
};

// Result for one path.
struct Staged {
  staging::Mapping mapping;  // copy: where it is; the path itself where there is none
  std::string failure;       // reason for no copy, without path and host
  bool said_elsewhere = false;
  bool no_place = false;  // the reason is a lack of room
  std::string done;       // "6.1 GiB, 48,211 files, from n0 in 12.3 s"
};

// Kinds of frames that the process sends through its socket, each followed by a text with its length.
enum class StageNews : char { progress = 'P', detail = 'D', results = 'R' };
std::string encode_staged(const std::vector<Staged>& staged);
std::vector<Staged> decode_staged(std::string_view text);  // throws Error

// Runs in a forked child until the other end of `socket` is closed; ends the process.
[[noreturn]] void run_stage_process(StageOrder order, int socket);

}  // namespace ddprun::agent
