#include "streams/output_link.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "allocation/detection/started.hpp"
#include "console/console.hpp"
#include "event_loop/handlers.hpp"
#include "net/dial.hpp"
#include "net/sealed_stream.hpp"
#include "os/descriptors.hpp"
#include "peers/authenticators.hpp"

namespace ddprun::streams {

namespace {

using boost::system::error_code;
using rendezvous::lifeline::Stream;

// Dial of one connection for each stream, side by side; none if one of them cannot be had.
class Dialing {
 public:
  Dialing(const rendezvous::FrontEndAddress& front_end, const rendezvous::Authenticator& authenticator,
          const options::Options& options)
      : limit_(options.host_timeout.value) {
    for (const auto stream : {Stream::output, Stream::error}) {
      dials_.push_back(std::make_unique<net::FirstDial>(
          context_, front_end, authenticator, options.host_timeout.value,
          [this, stream](net::AuthenticationResult result) { note(stream, result); }));
    }
  }

  std::vector<os::Fd> connect(std::size_t streams, const std::string& host) {
    host_ = host;
    sockets_.resize(streams);
    for (std::size_t i = 0; i < streams; ++i) dials_[i]->start();
    context_.run();
    return problem_.empty() ? std::move(sockets_) : std::vector<os::Fd>();
  }

  const std::string& problem() const { return problem_; }

 private:
  void note(Stream stream, net::AuthenticationResult& result) {
    if (result.state != rendezvous::HandshakeStep::State::done) return fail(result.text);
    error_code error;
    const std::string hello =
        encode(rendezvous::lifeline::Message(rendezvous::lifeline::Output{stream, host_}));
    boost::asio::write(result.socket, boost::asio::buffer(net::SealedWriter(result.keys.send).seal(hello)),
                       error);
    if (error) return fail(net::describe_error(error));
    if (os::receive_byte(result.socket.native_handle(), limit_) != rendezvous::lifeline::k_output_taken)
      return fail("it does not accept the output");
    sockets_[stream == Stream::error ? 1 : 0] = os::Fd(result.socket.release());
  }

  void fail(const std::string& why) {
    problem_ = why;
    context_.stop();
  }

  boost::asio::io_context context_;
  std::vector<std::unique_ptr<net::FirstDial>> dials_;
  std::vector<os::Fd> sockets_;
  Milliseconds limit_;  // limit of each wait for the other side
  std::string host_;
  std::string problem_;
};

}  // namespace

bool OutputLink::connect(const facts::Snapshot& snapshot, const options::Options& options) {
  const auto address = facts::find_variable(snapshot, allocation::k_front_end_variable);
  const auto streams = facts::find_variable(snapshot, allocation::k_started_streams_variable);
  const auto front_end = address && streams ? rendezvous::parse_front_end_address(*address) : std::nullopt;
  if (!front_end) return false;
  Dialing dialing(*front_end, peers::make_lifeline_authenticator(snapshot, options), options);
  const std::vector<os::Fd> sockets = dialing.connect(*streams == "1" ? 1 : 2, snapshot.host.name);
  if (sockets.empty()) {
    console::say_detail(
        fmt::format("the output of {} is sent through {} instead: {}", snapshot.host.name,
                    facts::find_variable(snapshot, allocation::k_started_remote_launcher_variable)
                        .value_or("the launcher"),
                    dialing.problem()));
    return false;
  }
  link(sockets);
  return true;
}

void OutputLink::lead(const std::vector<os::Fd>& sockets) {
  for (const int standard : {STDOUT_FILENO, STDERR_FILENO}) before_.push_back(os::duplicate(standard));
  link(sockets);
}

void OutputLink::link(const std::vector<os::Fd>& sockets) {
  os::lead_to_socket(STDOUT_FILENO, sockets.front().get());
  os::lead_to_socket(STDERR_FILENO, sockets.back().get());
  linked_ = {STDOUT_FILENO};
  if (sockets.size() > 1) linked_.push_back(STDERR_FILENO);
}

std::unique_ptr<OutputLink::Watch> OutputLink::try_watch(boost::asio::io_context& context, int standard) {
  try {
    return std::make_unique<Watch>(context, os::duplicate(standard).release());
  } catch (const std::exception& error) {
    console::say_detail(
        fmt::format("cannot wait until the output is read: {}", event_loop::describe_exception(error)));
    return {};
  }
}

bool OutputLink::restore() {
  if (before_.empty()) return false;
  linked_.clear();
  os::lead_back(STDOUT_FILENO, before_[0].get());
  os::lead_back(STDERR_FILENO, before_[1].get());
  before_.clear();
  return true;
}

void OutputLink::finish(boost::asio::io_context& context, std::optional<Milliseconds> limit,
                        std::function<void()> done) {
  done_ = std::move(done);
  for (const int standard : linked_) {
    // If the end cannot be sent before ours, the other side does not close the connection while we wait.
    if (!os::end_writing(standard)) continue;
    if (auto watch = try_watch(context, standard)) watches_.push_back(std::move(watch));
  }
  unread_ = watches_.size();
  if (unread_ == 0) return boost::asio::post(context, std::exchange(done_, nullptr));
  for (const auto& watch : watches_) {
    watch->async_wait(Watch::wait_read, [this](const error_code& error) {
      if (error != boost::asio::error::operation_aborted) note_read();
    });
  }
  if (!limit) return;
  limit_ = std::make_unique<boost::asio::steady_timer>(context, *limit);
  limit_->async_wait([this](const error_code& error) {
    if (!error) give_up();
  });
}

void OutputLink::note_read() {
  if (--unread_ == 0) give_up();
}

void OutputLink::give_up() {
  const auto done = std::exchange(done_, nullptr);
  cancel();
  if (done) done();
}

void OutputLink::cancel() {
  done_ = nullptr;
  limit_.reset();
  watches_.clear();
}

}  // namespace ddprun::streams
