// The files of the workers' output: their folders, and who writes them.
//
// A stream that goes to a file only is written by its worker, which gets the file itself. A copy of what is
// shown on the console goes through the log writer's process (logs/log_writer.hpp).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "logs/log_writer.hpp"
#include "output/log_layout.hpp"
#include "output/output_options.hpp"
#include "plan/finalise.hpp"
#include "plan/world_plan.hpp"
#include "streams/named_file.hpp"

namespace ddprun::streams {

// Second use of a stream's pieces, if there is one. An empty piece is the stream's end.
struct StreamCopy {
  std::function<void(std::string_view)> add{};
  std::function<bool()> is_behind{};  // the stream should not be read now
};

class LogFiles {
 public:
  LogFiles(boost::asio::io_context& context, std::shared_ptr<const plan::NodeProposal> node,
           const facts::Snapshot& snapshot);

  // Makes the folders of the attempt, once. Throws Error.
  void begin_attempt(std::shared_ptr<const plan::LaunchPlan> plan);

  std::string path(const plan::RankAssignment& assigned, output::Stream stream) const;
  std::string final_path(const plan::RankAssignment& assigned,
                         output::Stream stream) const;                 // when the attempt is over
  std::string error_file(const plan::RankAssignment& assigned) const;  // empty: has no place here
  // Returns the beginning of the paths to which torch's flight recorder may write, then the rank; empty:
  // without --logs.
  std::string flight_record() const;
  // Returns the path for the stacks of a rank; empty: no folder was named for them.
  std::string stack_record(const plan::RankAssignment& assigned) const;
  // Returns the beginning of the paths for dumps of --stacks-every; empty: without --logs.
  std::string stack_dump(const plan::RankAssignment& first) const;
  std::string profile_folder() const { return run_folder_ + "/profiles"; }   // folder of --profile-every
  os::Fd open(const plan::RankAssignment& assigned, output::Stream stream);  // for the worker. Throws Error
  // Throws Error. `label`: what stands before the lines of the filtered file.
  StreamCopy copy(const plan::RankAssignment& assigned, output::Stream stream,
                  const output::StreamRoute& route, const std::string& label);

  // Notes the workers of an attempt that has ended, for index.json; their files are filled in here.
  void note_ended(std::vector<output::LogIndexEntry> entries);

  // Calls when all is written, or after `limit`; after all streams have ended.
  void when_written(std::optional<Milliseconds> limit, std::function<void()> handler);
  std::vector<std::string> losses() const;

 private:
  struct File {
    std::string path;
    logs::LogWriter::News news{};
    std::uint64_t lost = 0;  // before it reached the log writer
    std::string why() const;
  };

  std::string make_run_folder() const;
  void tell_run_folder() const;
  static void point_to_latest(const std::filesystem::path& folder);
  void make_filtered_files(const std::string& folder) const;
  logs::LogWriter& writer();
  os::Fd open_pipe(const std::string& path, int& id);
  std::shared_ptr<FileCopy> open_copy(const std::string& path);
  void watch_writer();
  void take_news();
  void note_losing(const File& file);
  void note_uncompressed(const File& file, int error);
  void write_index_part();
  void correct_index();

  boost::asio::io_context& context_;
  std::shared_ptr<const plan::NodeProposal> node_;
  std::shared_ptr<const plan::LaunchPlan> plan_;  // plan of the latest attempt
  const facts::Snapshot& snapshot_;
  const output::OutputOptions& options_;
  std::string run_folder_;
  std::string attempt_folder_;
  std::unique_ptr<logs::LogWriter> writer_;
  boost::asio::posix::stream_descriptor watch_;
  boost::asio::steady_timer limit_timer_;
  std::map<int, File> files_;
  std::vector<output::LogIndexEntry> ended_;
  std::map<output::Stream, std::weak_ptr<FileCopy>> filtered_;  // all ranks of the attempt share it
  std::function<void()> written_;
  bool losing_told_ = false;
  bool uncompressed_told_ = false;
};

// Makes the folder that the options name, before anything is started. Throws UsageError if it cannot be
// written to.
void check_log_folder(const output::OutputOptions& options, const std::string& host);

}  // namespace ddprun::streams
