// index.json of --logs: which host, process and ending belongs to which rank's files.
//
// Every agent writes a part of its own, and only parts of one launch are put together. So no lock is needed,
// which shared file systems may not have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::output {

struct LogIndexEntry {
  GlobalRank rank;
  LocalRank local_rank;
  Attempt attempt;
  std::string host;
  int pid = 0;                   // 0: it was not started
  std::optional<int> exit_code;  // empty: ended by a signal, or not started
  std::string signal;            // "SIGKILL"; empty: none
  std::string output;            // its files, below the run's folder; empty: none
  std::string error;
};

std::string render_index_part(const std::string& launch_id, const std::vector<LogIndexEntry>& entries);
// Merges the parts by attempt, then rank. Parts of other launches and texts that are no part are left out.
std::string merge_index_parts(const std::string& launch_id, const std::vector<std::string>& parts);
// Reports whether the text is a merged index of this launch.
bool is_index_of(const std::string& launch_id, const std::string& text);

}  // namespace ddprun::output
