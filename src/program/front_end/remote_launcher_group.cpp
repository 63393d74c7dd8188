#include "front_end/remote_launcher_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/text.hpp"
#include "os/descriptors.hpp"
#include "os/process/signals.hpp"
#include "os/process/spawn.hpp"
#include "os/terminal/terminal.hpp"

namespace ddprun::front_end {

namespace {

using boost::system::error_code;

// srun takes a moment to end a step; what is still there then is killed.
constexpr Milliseconds k_mercy{3000};
constexpr Milliseconds k_pipe_grace{250};

}  // namespace

struct RemoteLauncherGroup::RemoteLauncher {
  std::optional<os::Child> child;
  std::optional<output::StreamId> output;
  std::optional<output::StreamId> error;
  std::unique_ptr<boost::asio::posix::stream_descriptor> input;
  std::string text;
  bool ended = false;
};

RemoteLauncherGroup::RemoteLauncherGroup(boost::asio::io_context& context, std::size_t remote_launchers,
                                         const std::string& host, Milliseconds host_timeout, Ended ended)
    : context_(context),
      ended_(std::move(ended)),
      agent_id_(os::make_random_id()),
      reaper_(agent_id_, {.mercy = k_mercy, .host = host, .links_end_first = host_timeout}),
      pumps_(context),
      inherited_(os::capture_inherited_descriptors()),
      open_files_(os::raise_open_files_limit()) {
  for (std::size_t i = 0; i < remote_launchers; ++i)
    remote_launchers_.push_back(std::make_unique<RemoteLauncher>());
}

RemoteLauncherGroup::~RemoteLauncherGroup() = default;

void RemoteLauncherGroup::send_input(RemoteLauncher& remote_launcher, os::Fd writer, std::string text) {
  remote_launcher.text = std::move(text);
  remote_launcher.input = std::make_unique<boost::asio::posix::stream_descriptor>(context_, writer.release());
  boost::asio::async_write(
      *remote_launcher.input, boost::asio::buffer(remote_launcher.text),
      [&remote_launcher](const error_code&, std::size_t) { remote_launcher.input.reset(); });
}

int RemoteLauncherGroup::open_input(RemoteLauncher& remote_launcher, const std::optional<std::string>& input,
                                    std::vector<os::Fd>& owned) {
  const bool only = remote_launchers_.size() == 1;
  if (only && !input && !os::is_terminal(STDIN_FILENO)) return STDIN_FILENO;
  if (!only && !input) {
    owned.push_back(os::open_null());
    return owned.back().get();
  }
  os::Pipe pipe = os::make_pipe();
  if (input) {
    send_input(remote_launcher, std::move(pipe.writer), *input);
  } else {
    terminal_.emplace(context_, STDIN_FILENO).connect(std::move(pipe.writer));
  }
  owned.push_back(std::move(pipe.reader));
  return owned.back().get();
}

void RemoteLauncherGroup::start(std::size_t number, const std::vector<std::string>& words,
                                const std::vector<std::string>& environment,
                                const std::optional<std::string>& input) {
  RemoteLauncher& remote_launcher = *remote_launchers_[number];
  std::vector<os::Fd> owned;
  os::SpawnRequest request;
  request.arguments = words;
  request.environment = environment;
  request.standard_input = open_input(remote_launcher, input, owned);
  os::Pipe output = os::make_pipe();
  os::Pipe error = os::make_pipe();
  request.standard_output = output.writer.get();
  request.standard_error = error.writer.get();
  request.group = os::ChildGroup::own_session;
  request.close_descriptors = inherited_;
  request.ignored_signals = os::capture_ignored_signals(os::handled_signals());
  request.open_files = open_files_;
  request.die_with_parent = false;  // the reaper ends it more gently
  remote_launcher.output = pumps_.output().add(std::move(output.reader), terminal_.has_value());
  remote_launcher.error = pumps_.error().add(std::move(error.reader), terminal_.has_value());
  auto result = os::spawn(request);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&result)) {
    remote_launcher.ended = true;
    boost::asio::post(context_,
                      [this, number, status = os::not_started(*failure)] { ended_(number, status); });
    return;
  }
  remote_launcher.child = std::move(std::get<os::Child>(result));
  reaper_.watch(remote_launcher.child->pid());
}

void RemoteLauncherGroup::add_output(const rendezvous::lifeline::Output& from, os::Fd socket,
                                     std::string_view begun, output::Folding folding) {
  const int number = socket.get();
  reaper_.note_output(number);
  pumps_.add_connection(from, std::move(socket), terminal_.has_value(), begun, folding,
                        [this, number] { reaper_.forget_output(number); });
}

void RemoteLauncherGroup::signal(std::size_t remote_launcher, int number) {
  if (running(remote_launcher)) remote_launchers_[remote_launcher]->child->send_signal_to_group(number);
}

bool RemoteLauncherGroup::running(std::size_t remote_launcher) const {
  return remote_launchers_[remote_launcher]->child && !remote_launchers_[remote_launcher]->ended;
}

std::string RemoteLauncherGroup::last_words(std::size_t remote_launcher) const {
  if (!remote_launchers_[remote_launcher]->error) return {};
  const std::vector<std::string> lines =
      pumps_.error().last_lines(*remote_launchers_[remote_launcher]->error);
  const auto said = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return !trim(line).empty() && !trim(line).starts_with("hint:");
  });
  return said == lines.rend() ? std::string() : printable(trim(*said), 300);
}

void RemoteLauncherGroup::look_for_ends() {
  for (std::size_t i = 0; i < remote_launchers_.size(); ++i) {
    if (running(i)) note_end(i);
  }
}

// Notes an end. The number is free once it is reaped, so the reaper forgets it first.
void RemoteLauncherGroup::note_end(std::size_t number) {
  RemoteLauncher& remote_launcher = *remote_launchers_[number];
  const auto status = remote_launcher.child->ending();
  if (!status) return;
  remote_launcher.ended = true;
  reaper_.forget(remote_launcher.child->pid());
  remote_launcher.child->reap();
  pumps_.output().close(*remote_launcher.output, k_pipe_grace);
  pumps_.error().close(*remote_launcher.error, k_pipe_grace,
                       [this, number, status] { ended_(number, *status); });
}

void RemoteLauncherGroup::when_drained(std::optional<Milliseconds> limit, std::function<void()> handler) {
  pumps_.when_drained(limit, std::move(handler));
}

}  // namespace ddprun::front_end
