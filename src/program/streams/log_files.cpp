#include "streams/log_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "event_loop/handlers.hpp"
#include "logs/log_writer.hpp"
#include "os/descriptors.hpp"
#include "os/files/slow_files.hpp"
#include "os/libraries/zstd.hpp"
#include "os/path_walk.hpp"
#include "os/private_files.hpp"
#include "os/process/reaper.hpp"
#include "os/system_failure.hpp"

namespace ddprun::streams {

namespace {

namespace fs = std::filesystem;

constexpr int k_pipe_size = 1 << 20;
// Patience with a disk that hangs. The log writer continues without us.
constexpr Milliseconds k_patience{60000};

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw os::system_failure(fmt::format("cannot create the log folder {}", printable(path)), error.value());
}

// Makes a folder with a new name: `start` and eight characters. For this user only, as Python's mkdtemp makes
// it.
std::string make_new_folder(const std::string& start) {
  for (;;) {
    const std::string path = start + os::make_random_id().substr(0, 8);
    const int error = os::make_private_folder(path);
    if (error == 0) return path;
    if (error != EEXIST)
      throw os::system_failure(fmt::format("cannot create the log folder {}", printable(path)), error);
  }
}

constexpr const char* k_no_folder = "is not a folder";

// Makes it; why it cannot be written to, k_no_folder or in words; empty: it can.
std::string why_unusable(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) return k_no_folder;
  error.clear();
  fs::create_directories(path, error);
  if (error) return os::describe_errno(error.value());
  if (::access(path.c_str(), W_OK | X_OK) != 0) return os::describe_errno(errno);
  return os::walk_path(path + "/").problem;  // a link of another user's
}

// One that is there already in a folder where all users write may be another user's.
std::string make_own_folder(const std::string& path) {
  make_folders(path);
  struct stat folder {};
  struct stat above {};
  const bool known =
      ::stat(path.c_str(), &folder) == 0 && ::stat(fs::path(path).parent_path().c_str(), &above) == 0;
  if (const std::string why = known ? os::why_foreign(above, folder) : ""; !why.empty())
    throw Error(fmt::format("cannot use the log folder {}: {}", printable(path), why),
                "name a folder that only you can write to");
  return path;
}

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

}  // namespace

void check_log_folder(const output::OutputOptions& options, const std::string& host) {
  if (const std::string why = options.compress ? os::why_no_zstd() : std::string(); !why.empty())
    throw UsageError(fmt::format("--log-compress needs {} on {}, which {}", os::k_zstd_library, host, why),
                     "install libzstd there, or leave --log-compress out");
  const Sourced<std::string>& named = options.logs.value.empty() ? options.log_dir : options.logs;
  if (named.value.empty() || output::discards_files(options)) return;
  const std::string what =
      fmt::format("{} cannot write to {} on {}", named.origin, printable(named.value), host);
  const std::string why = os::ask_file_system(what, [&] { return why_unusable(named.value); });
  if (why == k_no_folder)
    throw UsageError(fmt::format("{} {} on {} is not a folder", named.origin, printable(named.value), host),
                     "name a folder");
  if (!why.empty())
    throw UsageError(what + ": " + why, "name a folder that this user can write to on every host");
}

LogFiles::LogFiles(boost::asio::io_context& context, std::shared_ptr<const plan::NodeProposal> node,
                   const facts::Snapshot& snapshot)
    : context_(context),
      node_(std::move(node)),
      snapshot_(snapshot),
      options_(node_->options.output),
      watch_(context),
      limit_timer_(context) {}

void LogFiles::begin_attempt(std::shared_ptr<const plan::LaunchPlan> plan) {
  const bool has_begun = plan_ == plan && !attempt_folder_.empty();  // else it failed for another worker
  if (!output::wants_files(options_) || has_begun) return;
  plan_ = std::move(plan);
  const plan::Assignment& assignment = plan_->assignment;
  attempt_folder_.clear();
  const std::string what = fmt::format("cannot create the log folder on {}", node_->host);
  if (run_folder_.empty()) {
    run_folder_ = os::ask_file_system(what, [this] { return make_run_folder(); });
    tell_run_folder();
  }
  const output::LogLayout layout = output::layout_of(options_);
  const std::string folder = run_folder_ + "/" + output::attempt_folder_name(layout, assignment.attempt);
  os::ask_file_system(what, [&] {
    make_folders(folder);
    for (const plan::RankAssignment& assigned : assignment.workers) {
      if (layout == output::LogLayout::torchrun)
        make_folders(fmt::format("{}/{}", folder, assigned.local_rank.value));
    }
    if (layout == output::LogLayout::torchrun) make_filtered_files(folder);
    return std::string();
  });
  attempt_folder_ = folder;
  filtered_.clear();
}

// Creates the filtered files at the start, like torchrun; they stay empty without --tee. Runs in a child.
void LogFiles::make_filtered_files(const std::string& folder) const {
  for (const output::Stream stream : {output::Stream::output, output::Stream::error}) {
    if (!output::filters_of(options_, stream).empty())
      logs::open_log_file(folder + "/" + output::filtered_file_name(stream));
  }
}

// In a child.
std::string LogFiles::make_run_folder() const {
  const std::string name = output::folder_name(plan_->assignment.run_id);
  if (output::layout_of(options_) == output::LogLayout::ranks) {
    const std::string folder = make_own_folder(absolute(options_.logs.value) + "/" + name);
    if (plan_->node->rendezvous.agent.value == 0) point_to_latest(folder);
    return folder;
  }
  std::string base = options_.log_dir.value;
  if (base.empty()) {
    const std::string temporary = facts::find_variable(snapshot_, "TMPDIR").value_or("/tmp");
    base = make_new_folder(temporary + "/torchelastic_");
  }
  base = absolute(base);
  make_folders(base);
  return make_new_folder(fmt::format("{}/{}_", base, name));
}

// A folder that the user named is known; one that nobody named would not be found.
void LogFiles::tell_run_folder() const {
  if (output::layout_of(options_) == output::LogLayout::ranks) return;
  const std::string said = fmt::format("log files on {} are in {}", node_->host, run_folder_);
  options_.log_dir.value.empty() ? console::say(said) : console::say_detail(said);
}

// Replaces the link at once, so that a reader always finds one.
void LogFiles::point_to_latest(const fs::path& folder) {
  const fs::path next = folder.parent_path() / (".latest-" + os::make_random_id().substr(0, 12));
  std::error_code error;
  fs::create_directory_symlink(folder.filename(), next, error);
  if (!error) fs::rename(next, folder.parent_path() / "latest", error);
  if (error) fs::remove(next, error);
}

std::string LogFiles::path(const plan::RankAssignment& assigned, output::Stream stream) const {
  return attempt_folder_ + "/" +
         output::log_file_name(output::layout_of(options_), assigned.local_rank, assigned.rank, stream);
}

std::string LogFiles::final_path(const plan::RankAssignment& assigned, output::Stream stream) const {
  return path(assigned, stream) + output::kept_suffix(options_);
}

std::string LogFiles::flight_record() const {
  if (attempt_folder_.empty() || output::layout_of(options_) != output::LogLayout::ranks) return {};
  return attempt_folder_ + "/fr_";
}

std::string LogFiles::stack_record(const plan::RankAssignment& assigned) const {
  if (attempt_folder_.empty() || (options_.logs.value.empty() && options_.log_dir.value.empty())) return {};
  return attempt_folder_ + "/" +
         output::stack_record_name(output::layout_of(options_), assigned.local_rank, assigned.rank);
}

std::string LogFiles::stack_dump(const plan::RankAssignment& first) const {
  if (attempt_folder_.empty() || output::layout_of(options_) != output::LogLayout::ranks) return {};
  return run_folder_ + "/" + output::stack_dump_name(first.rank);
}

std::string LogFiles::error_file(const plan::RankAssignment& assigned) const {
  if (attempt_folder_.empty() || output::layout_of(options_) != output::LogLayout::torchrun) return {};
  return fmt::format("{}/{}/error.json", attempt_folder_, assigned.local_rank.value);
}

os::Fd LogFiles::open(const plan::RankAssignment& assigned, output::Stream stream) {
  const std::string file = path(assigned, stream);
  int id = 0;
  return output::writes_for_workers(options_) ? open_pipe(file, id) : logs::open_log_file(file);
}

StreamCopy LogFiles::copy(const plan::RankAssignment& assigned, output::Stream stream,
                          const output::StreamRoute& route, const std::string& label) {
  if (!route.file) return {};
  const auto whole = open_copy(path(assigned, stream));
  const std::vector<std::string>& needles = output::filters_of(options_, stream);
  const auto is_behind = [whole] { return whole->is_behind(std::chrono::steady_clock::now()); };
  if (!route.teed || needles.empty())
    return {[whole](std::string_view text) { whole->add(text); }, is_behind};
  auto filtered = filtered_[stream].lock();
  if (!filtered)
    filtered_[stream] = filtered = open_copy(attempt_folder_ + "/" + output::filtered_file_name(stream));
  const auto filter = std::make_shared<output::LineFilter>(needles, label);
  const auto add = [whole, filtered, filter](std::string_view text) {
    const std::string matching = text.empty() ? filter->end() : filter->add(text);
    if (!matching.empty()) filtered->add(matching);
    whole->add(text);
  };
  return {add, is_behind};
}

void LogFiles::note_ended(std::vector<output::LogIndexEntry> entries) {
  if (writer_) writer_->complete();
  const output::LogLayout layout = output::layout_of(options_);
  if (layout != output::LogLayout::ranks || run_folder_.empty()) return;
  const std::string folder = output::attempt_folder_name(layout, plan_->assignment.attempt);
  for (output::LogIndexEntry& entry : entries) {
    const auto file = [&](output::Stream stream) {
      return folder + "/" + output::log_file_name(layout, entry.local_rank, entry.rank, stream) +
             output::kept_suffix(options_);
    };
    entry.output = file(output::Stream::output);
    entry.error = file(output::Stream::error);
    ended_.push_back(std::move(entry));
  }
  write_index_part();
}

void LogFiles::write_index_part() {
  try {
    // The part is named by its first rank: an agent that is numbered on arrival does not know its number.
    const std::string& launch = plan_->assignment.launch_id;
    os::ask_file_system("cannot write the index", [&] {
      logs::write_index(run_folder_, plan_->planned.front().rank.value, launch,
                        output::render_index_part(launch, ended_));
      return std::string();
    });
  } catch (const Error& error) {
    if (std::exchange(losing_told_, true)) return;  // the disk that is full is known
    console::say_notice(fmt::format("the log files on {} have no index: {}", node_->host, error.what()), {});
  }
}

// Gives the index the plain names of files that could not be compressed.
void LogFiles::correct_index() {
  const std::string suffix = output::kept_suffix(options_);
  std::vector<std::string*> names;
  for (output::LogIndexEntry& entry : ended_) names.insert(names.end(), {&entry.output, &entry.error});
  const auto is_missing = [&](const std::string& name) {
    return name.ends_with(suffix) && !fs::exists(run_folder_ + "/" + name);
  };
  std::string missing;  // one letter each
  try {
    missing = os::ask_file_system("cannot read the log folder", [&] {
      std::string found;
      for (const std::string* const name : names) found += is_missing(*name) ? 'm' : '.';
      return found;
    });
  } catch (const Error&) {
    return;  // the index has no reader then
  }
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 'm') names[i]->resize(names[i]->size() - suffix.size());
  }
  if (!ended_.empty()) write_index_part();
}

logs::LogWriter& LogFiles::writer() {
  if (!writer_) {
    writer_ = std::make_unique<logs::LogWriter>();
    watch_.assign(os::duplicate(writer_->socket()).release());
    watch_writer();
  }
  return *writer_;
}

os::Fd LogFiles::open_pipe(const std::string& path, int& id) {
  os::Fd file = logs::open_log_file(path);
  os::Pipe pipe = os::make_pipe();
  ::fcntl(pipe.writer.get(), F_SETPIPE_SZ, k_pipe_size);  // fewer and larger writes; where it may be larger
  id = static_cast<int>(files_.size());
  writer().add(id, std::move(pipe.reader), std::move(file), path,
               {options_.rotation, options_.timestamps, options_.compress});
  files_[id].path = path;
  return std::move(pipe.writer);
}

std::shared_ptr<FileCopy> LogFiles::open_copy(const std::string& path) {
  int id = 0;
  os::Fd pipe = open_pipe(path, id);
  return std::make_shared<FileCopy>(context_, std::move(pipe), [this, id](std::uint64_t bytes) {
    files_[id].lost += bytes;
    note_losing(files_[id]);
  });
}

void LogFiles::watch_writer() {
  watch_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (event_loop::is_cancelled(error, "the log files")) return;
                      take_news();
                      if (!writer_->has_left()) return watch_writer();
                      limit_timer_.cancel();
                      if (uncompressed_told_) correct_index();
                      if (written_) std::exchange(written_, nullptr)();
                    });
}

void LogFiles::take_news() {
  while (const auto news = writer_->news()) {
    File& file = files_[news->id];
    if (news->uncompressed != 0) {
      note_uncompressed(file, news->uncompressed);
      continue;
    }
    file.news = *news;
    if (news->error != 0) note_losing(file);
  }
}

void LogFiles::note_uncompressed(const File& file, int error) {
  if (std::exchange(uncompressed_told_, true)) return;
  console::say_notice(fmt::format("cannot compress {} on {}: {}; it stays uncompressed", file.path,
                                  node_->host, os::describe_errno(error)),
                      {});
}

void LogFiles::note_losing(const File& file) {
  if (std::exchange(losing_told_, true)) return;
  console::say_notice(fmt::format("cannot write all output to {} on {}: {}; the workers continue", file.path,
                                  node_->host, file.why()),
                      {});
}

std::string LogFiles::File::why() const {
  return news.error != 0 ? os::describe_errno(news.error) : "its disk is too slow";
}

void LogFiles::when_written(std::optional<Milliseconds> limit, std::function<void()> handler) {
  if (!writer_ || writer_->has_left()) return boost::asio::post(context_, std::move(handler));
  writer_->finish();
  written_ = std::move(handler);
  limit_timer_.expires_after(limit.value_or(k_patience));
  limit_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && written_) std::exchange(written_, nullptr)();
  });
}

std::vector<std::string> LogFiles::losses() const {
  std::vector<std::string> sentences;
  for (const auto& [id, file] : files_) {
    const std::uint64_t lost = file.news.lost + file.lost;
    if (lost > 0)
      sentences.push_back(
          fmt::format("{} on {} lacks {} bytes: {}", file.path, node_->host, lost, file.why()));
  }
  return sentences;
}

}  // namespace ddprun::streams
