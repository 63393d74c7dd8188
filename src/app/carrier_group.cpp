#include "ddprun/app/carrier_group.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "ddprun/base/text.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/signals.hpp"
#include "ddprun/os/spawn.hpp"
#include "ddprun/os/terminal.hpp"

namespace ddprun {

namespace {

using boost::system::error_code;

// srun takes a moment to end a step; what is still there then is killed.
constexpr Milliseconds k_mercy{3000};
constexpr Milliseconds k_pipe_grace{250};

Fd open_null() { return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

}  // namespace

struct CarrierGroup::Carrier {
  std::optional<Child> child;
  std::optional<StreamId> output;
  std::optional<StreamId> error;
  std::unique_ptr<boost::asio::posix::stream_descriptor> input;
  std::string text;
  bool ended = false;
};

CarrierGroup::CarrierGroup(boost::asio::io_context& context, std::size_t carriers, Ended ended)
    : context_(context),
      ended_(std::move(ended)),
      agent_id_(make_random_id()),
      keeper_(agent_id_, k_mercy),
      output_(context, STDOUT_FILENO),
      error_(same_file(STDOUT_FILENO, STDERR_FILENO) ? output_
                                                     : separate_error_.emplace(context, STDERR_FILENO)),
      inherited_(capture_inherited_descriptors()),
      open_files_(raise_open_files_limit()) {
  for (std::size_t i = 0; i < carriers; ++i) carriers_.push_back(std::make_unique<Carrier>());
}

CarrierGroup::~CarrierGroup() = default;

void CarrierGroup::send_input(Carrier& carrier, Fd writer, std::string text) {
  carrier.text = std::move(text);
  carrier.input = std::make_unique<boost::asio::posix::stream_descriptor>(context_, writer.release());
  boost::asio::async_write(*carrier.input, boost::asio::buffer(carrier.text),
                           [&carrier](const error_code&, std::size_t) { carrier.input.reset(); });
}

int CarrierGroup::open_input(Carrier& carrier, const std::optional<std::string>& input,
                             std::vector<Fd>& owned) {
  const bool only = carriers_.size() == 1;
  if (only && !input && !is_terminal(STDIN_FILENO)) return STDIN_FILENO;
  if (!only && !input) {
    owned.push_back(open_null());
    return owned.back().get();
  }
  Pipe pipe = make_pipe();
  if (input) {
    send_input(carrier, std::move(pipe.writer), *input);
  } else {
    terminal_.emplace(context_, STDIN_FILENO).connect(std::move(pipe.writer));
  }
  owned.push_back(std::move(pipe.reader));
  return owned.back().get();
}

void CarrierGroup::start(std::size_t number, const std::vector<std::string>& words,
                         const std::vector<std::string>& environment,
                         const std::optional<std::string>& input) {
  Carrier& carrier = *carriers_[number];
  std::vector<Fd> owned;
  SpawnRequest request;
  request.arguments = words;
  request.environment = environment;
  request.standard_input = open_input(carrier, input, owned);
  Pipe output = make_pipe();
  Pipe error = make_pipe();
  request.standard_output = output.writer.get();
  request.standard_error = error.writer.get();
  request.group = ChildGroup::own_session;
  request.close_descriptors = inherited_;
  request.ignored_signals = capture_ignored_signals(handled_signals());
  request.open_files = open_files_;
  request.die_with_parent = false;  // the keeper ends it more gently
  carrier.output = output_.add(std::move(output.reader), terminal_.has_value());
  carrier.error = error_.add(std::move(error.reader), terminal_.has_value());
  auto result = spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    carrier.ended = true;
    boost::asio::post(context_, [this, number, status = not_started(*failure)] { ended_(number, status); });
    return;
  }
  carrier.child = std::move(std::get<Child>(result));
  keeper_.watch(carrier.child->pid());
}

void CarrierGroup::add_output(lifeline::Stream stream, Fd socket, std::string_view begun) {
  OutputPump& pump = stream == lifeline::Stream::error ? error_ : output_;
  pump.forget(pump.add(std::move(socket), terminal_.has_value(), LineTail::k_lines, {}, begun));
}

void CarrierGroup::signal(std::size_t carrier, int number) {
  if (running(carrier)) carriers_[carrier]->child->send_signal_to_group(number);
}

bool CarrierGroup::running(std::size_t carrier) const {
  return carriers_[carrier]->child && !carriers_[carrier]->ended;
}

std::size_t CarrierGroup::count_running() const {
  return static_cast<std::size_t>(std::count_if(carriers_.begin(), carriers_.end(), [](const auto& carrier) {
    return carrier->child && !carrier->ended;
  }));
}

std::string CarrierGroup::last_words(std::size_t carrier) const {
  if (!carriers_[carrier]->error) return {};
  const std::vector<std::string> lines = error_.last_lines(*carriers_[carrier]->error);
  const auto said = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return !trim(line).empty() && !trim(line).starts_with("hint:");
  });
  return said == lines.rend() ? std::string() : printable(trim(*said), 300);
}

void CarrierGroup::look_for_ends() {
  for (std::size_t i = 0; i < carriers_.size(); ++i) {
    if (running(i)) note_end(i);
  }
}

// Its number is free once it is reaped, so the keeper forgets it first.
void CarrierGroup::note_end(std::size_t number) {
  Carrier& carrier = *carriers_[number];
  const auto status = carrier.child->ending();
  if (!status) return;
  carrier.ended = true;
  keeper_.forget(carrier.child->pid());
  carrier.child->reap();
  output_.close(*carrier.output, k_pipe_grace);
  error_.close(*carrier.error, k_pipe_grace, [this, number, status] { ended_(number, *status); });
}

void CarrierGroup::when_drained(std::optional<Milliseconds> limit, std::function<void()> handler) {
  output_.when_drained(limit, [this, limit, handler = std::move(handler)](bool) {
    error_.when_drained(limit, [handler](bool) { handler(); });
  });
}

}  // namespace ddprun
