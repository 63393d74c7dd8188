// Output of this host's workers: their streams, the last lines of each, and the output of other hosts.
// A stream leads to a pipe that a pump reads, to a file that the worker writes itself, or both, or it is our
// own.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facts/snapshot.hpp"
#include "os/descriptors.hpp"
#include "plan/finalise.hpp"
#include "rendezvous/lifeline.hpp"
#include "streams/log_files.hpp"
#include "streams/output_pumps.hpp"

namespace ddprun::workers {

// Descriptors that one worker is started with.
struct WorkerStreams {
  int input = 0;
  int output = 1;
  int error = 2;
  int terminal = -1;
  std::vector<os::Fd> owned;  // closed once the worker has them

  int own(os::Fd descriptor) {
    owned.push_back(std::move(descriptor));
    return owned.back().get();
  }
};

class WorkerOutputs {
 public:
  WorkerOutputs(boost::asio::io_context& context, std::shared_ptr<const plan::NodeProposal> node,
                const facts::Snapshot& snapshot);

  // ---- the workers of an attempt

  void begin_attempt(std::shared_ptr<const plan::LaunchPlan> plan);
  // Opens a worker's output and error. `keeps_terminal`: it has our terminal itself where nothing is added to
  // its lines. `is_typed_for`: a user may be typing to it. Throws Error.
  void open(std::size_t worker, bool keeps_terminal, bool is_typed_for, WorkerStreams& streams);
  // Gives up on a pipe that is still open a moment after the worker's end: who holds it is not ours any more.
  void close(std::size_t worker);
  // Calls when the last lines of both its streams are known, or shortly after its end where others write on.
  void when_known(std::size_t worker, std::function<void()> handler);
  // Calls once for each worker and attempt, when it has written something that passes through here.
  void when_heard(std::function<void(std::size_t worker)> handler);
  // Returns those of its error, else of its output.
  std::vector<std::string> last_lines(std::size_t worker) const;
  // Returns the file that a person opens first, once the job is over; empty: there is none.
  std::string kept_file(std::size_t worker) const;
  // Returns a hint if a log file that the worker writes itself cannot grow.
  std::string hint_of_full_disk(std::size_t worker) const;
  // Returns the time since each worker has written; nullopt: nothing that is known. One child looks at all
  // files, as their file system may hang.
  std::vector<std::optional<Milliseconds>> ages() const;

  // ---- ddprun's own output

  streams::OutputPumps& pumps() { return pumps_; }
  const streams::OutputPumps& pumps() const { return pumps_; }
  streams::LogFiles& logs() { return logs_; }
  const streams::LogFiles& logs() const { return logs_; }
  bool at_line_start() const { return pumps_.output().at_line_start() && pumps_.error().at_line_start(); }
  // Inserts lines of ddprun itself for standard error, in order with the workers'.
  void insert_error(std::string_view lines) { pumps_.error().insert(lines); }
  // Returns the number of streams: one if both lead to the same file.
  int count() const { return pumps_.are_one() ? 1 : 2; }
  // Adds another host's output, from which `begun` was read already; it belongs to no worker. `raw`:
  // unfinished lines are shown.
  void add_gathered(const rendezvous::lifeline::Output& from, os::Fd socket, bool raw,
                    std::string_view begun);
  // Calls when all the workers' output is read, after their end: what is inserted then comes after it.
  void when_read(std::function<void()> handler);
  // Calls when all output is written, or after `limit` for each of the two and for the files.
  void when_drained(std::optional<Milliseconds> limit, std::function<void()> handler);
  // Sentences about output that was lost, or would be if ddprun ended now.
  std::vector<std::string> losses() const;

 private:
  // Streams that a pump reads.
  struct Piped {
    std::optional<output::StreamId> output, error;
    bool heard = false;
  };

  output::StreamRoute route(std::size_t worker, output::Stream stream) const;
  output::LineLabel label(std::size_t worker, const output::StreamRoute& route, bool terminal) const;
  int open_stream(std::size_t worker, output::Stream stream, const output::StreamRoute& route, bool both,
                  bool keeps_terminal, bool is_typed_for, WorkerStreams& streams);
  std::vector<std::string> last_lines(std::size_t worker, output::Stream stream) const;
  const std::optional<output::StreamId>& piped(std::size_t worker, output::Stream stream) const;
  using WrittenFiles = std::map<std::string, std::int64_t>;  // Unix milliseconds by path
  WrittenFiles look_at_written() const;
  std::optional<Milliseconds> age(std::size_t worker, output::Stream stream, const WrittenFiles& files) const;

  boost::asio::io_context& context_;
  std::shared_ptr<const plan::NodeProposal> node_;
  const facts::Snapshot& snapshot_;
  streams::OutputPumps pumps_;
  streams::LogFiles logs_;
  std::shared_ptr<const plan::LaunchPlan> plan_ = std::make_shared<const plan::LaunchPlan>();
  std::vector<Piped> workers_;
};

}  // namespace ddprun::workers
