// Files that an agent writes for its user beside the workers' output.
// They are those of --events, --metrics and --report, and the file of a torchrun around ddprun.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/plans.hpp"
#include "events/metrics.hpp"
#include "facts/snapshot.hpp"
#include "streams/named_file.hpp"

namespace ddprun::agent {

class JobFiles {
 public:
  enum class Kind { events, metrics, report, error_file };

  JobFiles(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot);

  bool wanted(Kind kind) const { return files_.contains(kind); }
  void write(Kind kind, std::string_view text);  // only if it is wanted
  // Calls when all of them are written, or after `limit`, and after os::FileWriter::k_last_write.
  void when_written(std::optional<Milliseconds> limit, std::function<void()> handler);

 private:
  void add(Kind kind, const std::string& path, const std::vector<Kind>& same);
  streams::NamedFile::Say make_say(Kind kind, const std::string& path, bool shared);

  boost::asio::io_context& context_;
  const Plans& plans_;
  std::map<Kind, streams::NamedFile> files_;
  std::set<std::string> reported_;  // paths of several files that cannot be written
};

// Returns the identity of this process as the keeper of its job's metrics.
events::MetricsKeeper metrics_keeper(const std::string& host);

}  // namespace ddprun::agent
