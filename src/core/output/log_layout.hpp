// Paths of a run's files (torchrun's folders under --log-dir, ddprun's own under --logs) and their index.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "output/output_options.hpp"

namespace ddprun::output {

// index.json of --logs: which host, process and ending belongs to which rank's files.
//
// Every agent writes a part of its own, and only parts of one launch are put together. So no lock is needed,
// which shared file systems may not have.
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

// <log-dir>/<run id>_<random>/attempt_0/<local rank>/stdout.log, error.json beside it, and
// filtered_stdout.log one folder above; or <logs>/<run id>/attempt-0/rank-00005.out. stacks.txt or
// rank-00005.stacks beside them.
enum class LogLayout { torchrun, ranks };

// Parses "100M:5", "64k", "1G:0": units of 1024. Throws UsageError.
LogRotation parse_rotation(const std::string& text, const std::string& origin);

// Parses "1M": bytes. Throws UsageError.
std::uint64_t parse_memory(const std::string& text, const std::string& origin);
std::uint64_t parse_rate(const std::string& text, const std::string& origin);

LogLayout layout_of(const OutputOptions& options);
// Returns a folder's name for a run id, whatever is in it.
std::string folder_name(const std::string& run_id);
std::string attempt_folder_name(LogLayout layout, Attempt attempt);
// Returns a name below the attempt's folder.
std::string log_file_name(LogLayout layout, LocalRank local_rank, GlobalRank rank, Stream stream);
std::string stack_record_name(LogLayout layout, LocalRank local_rank, GlobalRank rank);
// Returns the beginning of a name below the run's folder, for the dumps of the agent whose first rank it is.
std::string stack_dump_name(GlobalRank first);
// Returns the suffix that a file's name gets when it is complete.
std::string kept_suffix(const OutputOptions& options);
std::string filtered_file_name(Stream stream);

}  // namespace ddprun::output
