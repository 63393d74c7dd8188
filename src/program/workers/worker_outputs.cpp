#include "workers/worker_outputs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/text.hpp"
#include "inspection/host_condition.hpp"
#include "options/options.hpp"
#include "os/clock.hpp"
#include "os/files/slow_files.hpp"
#include "os/read_file.hpp"
#include "os/terminal/terminal.hpp"
#include "output/line_limits.hpp"

namespace ddprun::workers {

namespace {

// Lines remembered of stdout and stderr in one stream, where a traceback needs more room.
constexpr std::size_t k_remembered_of_both = 30;
constexpr std::size_t k_tail_of_file = std::size_t{64} << 10;

// Returns the folding of a stream. If stdout and stderr are one stream, only tracebacks among its copies are
// sure to be errors.
streams::StreamTreatment::Fold fold_of(output::Folding wanted, output::Stream stream, bool both) {
  using Fold = streams::StreamTreatment::Fold;
  if (wanted == output::Folding::on) return Fold::alike;
  if (wanted == output::Folding::off) return Fold::nothing;
  if (both) return Fold::copied_tracebacks;
  return stream == output::Stream::error ? Fold::copies : Fold::nothing;
}

std::string variable(const facts::Snapshot& snapshot, const char* name) {
  return facts::find_variable(snapshot, name).value_or("");
}

// Time that the last output of a process that a worker left behind is waited for.
constexpr Milliseconds k_pipe_grace{250};

Milliseconds since(TimePoint moment) {
  return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - moment);
}

}  // namespace

WorkerOutputs::WorkerOutputs(boost::asio::io_context& context, std::shared_ptr<const plan::NodeProposal> node,
                             const facts::Snapshot& snapshot)
    : context_(context),
      node_(std::move(node)),
      snapshot_(snapshot),
      pumps_(context),
      logs_(context, node_, snapshot) {
  if (options::outlives_nodes(node_->options)) pumps_.allow_lost_hosts();
}

void WorkerOutputs::begin_attempt(std::shared_ptr<const plan::LaunchPlan> plan) {
  plan_ = std::move(plan);
  workers_.assign(plan_->planned.size(), Piped{});
}

const std::optional<output::StreamId>& WorkerOutputs::piped(std::size_t worker, output::Stream stream) const {
  return stream == output::Stream::output ? workers_[worker].output : workers_[worker].error;
}

output::StreamRoute WorkerOutputs::route(std::size_t worker, output::Stream stream) const {
  const plan::RankAssignment& assigned = plan_->assignment.workers[worker];
  return output::route_stream(node_->options.output, assigned.local_rank, assigned.rank, stream);
}

output::LineLabel WorkerOutputs::label(std::size_t worker, const output::StreamRoute& route,
                                       bool terminal) const {
  const plan::RankAssignment& assigned = plan_->assignment.workers[worker];
  const bool colour =
      output::decide_colour(variable(snapshot_, "NO_COLOR"), variable(snapshot_, "CLICOLOR_FORCE"), terminal);
  return output::label_of(
      node_->options.output, route,
      {assigned.rank, assigned.local_rank, plan_->assignment.attempt, node_->host, node_->options.role.value},
      plan_->assignment.node_count, colour);
}

void WorkerOutputs::open(std::size_t worker, bool keeps_terminal, bool is_typed_for, WorkerStreams& streams) {
  const output::StreamRoute output = route(worker, output::Stream::output);
  const output::StreamRoute error = route(worker, output::Stream::error);
  // Through two pipes the order of what a worker writes to one file would be lost.
  const bool one_pipe = pumps_.are_one() && output == error && !output.file;
  streams.output =
      open_stream(worker, output::Stream::output, output, one_pipe, keeps_terminal, is_typed_for, streams);
  const bool is_piped = workers_[worker].output.has_value();
  streams.error = one_pipe && is_piped ? streams.output
                                       : open_stream(worker, output::Stream::error, error, false,
                                                     keeps_terminal, is_typed_for, streams);
}

// Opens a stream. `both`: that of stdout serves stderr too.
int WorkerOutputs::open_stream(std::size_t worker, output::Stream stream, const output::StreamRoute& route,
                               bool both, bool keeps_terminal, bool is_typed_for, WorkerStreams& streams) {
  const plan::RankAssignment& assigned = plan_->assignment.workers[worker];
  if (route.file && !route.console) return streams.own(logs_.open(assigned, stream));
  const bool is_output = stream == output::Stream::output;
  const int ours = is_output ? STDOUT_FILENO : STDERR_FILENO;
  const output::LineLabel shown = label(worker, route, os::is_terminal(ours));
  const bool plain = route.console && !route.file && shown.empty();
  if (plain && keeps_terminal && os::is_terminal(ours)) return ours;
  const std::string prefix = label(worker, route, false).at(Milliseconds{0});
  streams::StreamTreatment treatment{shown, assigned.rank};
  treatment.name = fmt::format("rank {} on {}", assigned.rank.value, node_->host);
  treatment.shown = route.console;
  streams::StreamCopy copy = logs_.copy(assigned, stream, route, prefix);
  treatment.copy = std::move(copy.add);
  treatment.is_behind = std::move(copy.is_behind);
  treatment.rate = node_->options.output.rate;
  if (route.console) treatment.fold = fold_of(node_->options.output.fold, stream, both);
  streams::OutputPump& pump = is_output ? pumps_.output() : pumps_.error();
  os::Pipe pipe = os::make_pipe();
  auto& opened = is_output ? workers_[worker].output : workers_[worker].error;
  opened = pump.add(std::move(pipe.reader), is_typed_for,
                    both ? k_remembered_of_both : output::LineTail::k_lines, std::move(treatment));
  return streams.own(std::move(pipe.writer));
}

// Returns the last lines from the pump, or from the file if ddprun does not see the output.
std::vector<std::string> WorkerOutputs::last_lines(std::size_t worker, output::Stream stream) const {
  const bool is_output = stream == output::Stream::output;
  const auto& opened = piped(worker, stream);
  if (opened) return (is_output ? pumps_.output() : pumps_.error()).last_lines(*opened);
  if (!route(worker, stream).file) return {};
  output::LineTail tail;
  const std::string file = logs_.path(plan_->assignment.workers[worker], stream);
  tail.add(os::try_file_system([&] { return os::read_tail(file, k_tail_of_file); }).value_or(""));
  return tail.lines();
}

std::vector<std::string> WorkerOutputs::last_lines(std::size_t worker) const {
  const std::vector<std::string> lines = last_lines(worker, output::Stream::error);
  return lines.empty() ? last_lines(worker, output::Stream::output) : lines;
}

std::string WorkerOutputs::kept_file(std::size_t worker) const {
  for (const output::Stream stream : {output::Stream::error, output::Stream::output}) {
    if (route(worker, stream).file) return logs_.final_path(plan_->assignment.workers[worker], stream);
  }
  return {};
}

std::string WorkerOutputs::hint_of_full_disk(std::size_t worker) const {
  for (const output::Stream stream : {output::Stream::error, output::Stream::output}) {
    const output::StreamRoute way = route(worker, stream);
    if (!way.file || way.console) continue;
    const std::string path = logs_.path(plan_->assignment.workers[worker], stream);
    if (inspection::is_on_full_disk(path))
      return fmt::format(
          "the file system of its log file on {} is full, so that what it wrote last, such as its error, is "
          "lost: free space there, or give another folder with --log-dir",
          node_->host);
  }
  return {};
}

// When those that their workers write themselves were written last, in Unix milliseconds. One child looks at
// all, as their file system may hang.
WorkerOutputs::WrittenFiles WorkerOutputs::look_at_written() const {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    for (const auto stream : {output::Stream::output, output::Stream::error}) {
      if (!piped(i, stream) && route(i, stream).file)
        paths.push_back(logs_.path(plan_->assignment.workers[i], stream));
    }
  }
  if (paths.empty()) return {};
  const std::string times = os::try_file_system([&] {
                              std::string text;
                              for (const std::string& path : paths)
                                text += fmt::format("{} ", os::last_written(path).value_or(-1));
                              return text;
                            }).value_or("");
  WrittenFiles written;
  const auto words = split_words(times);
  for (std::size_t i = 0; i < words.size() && i < paths.size(); ++i) {
    if (const auto time = parse_integer(words[i]); time && *time >= 0) written[paths[i]] = *time;
  }
  return written;
}

std::optional<Milliseconds> WorkerOutputs::age(std::size_t worker, output::Stream stream,
                                               const WrittenFiles& files) const {
  const bool is_output = stream == output::Stream::output;
  if (const auto& opened = piped(worker, stream)) {
    const auto last = (is_output ? pumps_.output() : pumps_.error()).last_read(*opened);
    return last ? std::optional(since(*last)) : std::nullopt;
  }
  const auto found = files.find(logs_.path(plan_->assignment.workers[worker], stream));
  if (found == files.end()) return std::nullopt;
  return std::max(Milliseconds{os::unix_milliseconds() - found->second}, Milliseconds{0});
}

std::vector<std::optional<Milliseconds>> WorkerOutputs::ages() const {
  const WrittenFiles files = look_at_written();
  std::vector<std::optional<Milliseconds>> ages;
  for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
    const auto output = age(worker, output::Stream::output, files);
    const auto error = age(worker, output::Stream::error, files);
    ages.push_back(output && error ? std::min(output, error) : std::max(output, error));
  }
  return ages;
}

void WorkerOutputs::close(std::size_t worker) {
  const auto end_stream = [](streams::OutputPump& pump, std::optional<output::StreamId> stream) {
    if (!stream) return;
    pump.close(*stream, k_pipe_grace);
    pump.forget(*stream);
  };
  end_stream(pumps_.output(), workers_[worker].output);
  end_stream(pumps_.error(), workers_[worker].error);
}

void WorkerOutputs::when_known(std::size_t worker, std::function<void()> handler) {
  const auto& [output, error, heard] = workers_[worker];
  const auto unknown = std::make_shared<int>(1 + (output ? 1 : 0) + (error ? 1 : 0));
  const auto one_is_known = [unknown, handler = std::move(handler)] {
    if (--*unknown == 0) handler();
  };
  if (output) pumps_.output().finish(*output, k_pipe_grace, one_is_known);
  if (error) pumps_.error().finish(*error, k_pipe_grace, one_is_known);
  boost::asio::post(context_, one_is_known);
}

void WorkerOutputs::when_heard(std::function<void(std::size_t)> handler) {
  const auto find = [this, handler = std::move(handler)](std::optional<output::StreamId> Piped::*which,
                                                         output::StreamId id) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].*which != id || std::exchange(workers_[i].heard, true)) continue;
      handler(i);
    }
  };
  if (!pumps_.are_one()) pumps_.error().when_heard([find](output::StreamId id) { find(&Piped::error, id); });
  pumps_.output().when_heard([find](output::StreamId id) { find(&Piped::output, id); });
}

void WorkerOutputs::add_gathered(const rendezvous::lifeline::Output& from, os::Fd socket, bool raw,
                                 std::string_view begun) {
  pumps_.add_connection(from, std::move(socket), raw, begun, node_->options.output.fold);
}

void WorkerOutputs::when_read(std::function<void()> handler) {
  pumps_.output().when_read([this, handler = std::move(handler)] { pumps_.error().when_read(handler); });
}

void WorkerOutputs::when_drained(std::optional<Milliseconds> limit, std::function<void()> handler) {
  pumps_.when_drained(limit,
                      [this, limit, handler = std::move(handler)] { logs_.when_written(limit, handler); });
}

std::vector<std::string> WorkerOutputs::losses() const {
  std::vector<std::string> sentences = pumps_.losses(node_->host);
  for (std::string& sentence : logs_.losses()) sentences.push_back(std::move(sentence));
  return sentences;
}

}  // namespace ddprun::workers
