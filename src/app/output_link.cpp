#include "ddprun/app/output_link.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "ddprun/allocation/started.hpp"
#include "ddprun/app/log.hpp"
#include "ddprun/app/started_agent.hpp"
#include "ddprun/net/first_dial.hpp"
#include "ddprun/os/descriptors.hpp"

namespace ddprun {

namespace {

using boost::system::error_code;
using lifeline::Stream;

// One connection for each stream, side by side; none where one of them cannot be had.
class Dialing {
 public:
  Dialing(const StarterAddress& starter, const Prover& prover, const Options& options) {
    for (const auto stream : {Stream::output, Stream::error}) {
      dials_.push_back(
          std::make_unique<FirstDial>(context_, starter, prover, options.link_timeout.value,
                                      [this, stream](AuthenticationResult result) { note(stream, result); }));
    }
  }

  std::vector<Fd> connect(std::size_t streams, const std::string& host) {
    host_ = host;
    sockets_.resize(streams);
    for (std::size_t i = 0; i < streams; ++i) dials_[i]->start();
    context_.run();
    return problem_.empty() ? std::move(sockets_) : std::vector<Fd>();
  }

  const std::string& problem() const { return problem_; }

 private:
  void note(Stream stream, AuthenticationResult& result) {
    if (result.state != HandshakeStep::State::done) return fail(result.text);
    error_code error;
    const std::string hello = encode(lifeline::Message(lifeline::Output{stream, host_}));
    boost::asio::write(result.socket, boost::asio::buffer(hello), error);
    if (error) return fail(describe_error(error));
    sockets_[stream == Stream::error ? 1 : 0] = Fd(result.socket.release());
  }

  void fail(const std::string& why) {
    problem_ = why;
    context_.stop();
  }

  boost::asio::io_context context_;
  std::vector<std::unique_ptr<FirstDial>> dials_;
  std::vector<Fd> sockets_;
  std::string host_;
  std::string problem_;
};

}  // namespace

bool OutputLink::connect(const Snapshot& snapshot, const Options& options) {
  const auto address = find_variable(snapshot, k_starter_variable);
  const auto streams = find_variable(snapshot, k_started_streams_variable);
  const auto starter = address && streams ? parse_starter_address(*address) : std::nullopt;
  if (!starter) return false;
  Dialing dialing(*starter, make_lifeline_prover(snapshot, options), options);
  const std::vector<Fd> sockets = dialing.connect(*streams == "1" ? 1 : 2, snapshot.host.name);
  if (sockets.empty()) {
    say_detail(fmt::format("the output of {} goes through {}'s own channel: {}", snapshot.host.name,
                           find_variable(snapshot, k_started_carrier_variable).value_or("the launcher"),
                           dialing.problem()));
    return false;
  }
  link(sockets);
  return true;
}

void OutputLink::lead(const std::vector<Fd>& sockets) {
  for (const int standard : {STDOUT_FILENO, STDERR_FILENO}) before_.push_back(duplicate(standard));
  link(sockets);
}

void OutputLink::link(const std::vector<Fd>& sockets) {
  lead_to_socket(STDOUT_FILENO, sockets.front().get());
  lead_to_socket(STDERR_FILENO, sockets.back().get());
  linked_ = {STDOUT_FILENO};
  if (sockets.size() > 1) linked_.push_back(STDERR_FILENO);
}

bool OutputLink::restore() {
  if (before_.empty()) return false;
  linked_.clear();
  lead_back(STDOUT_FILENO, before_[0].get());
  lead_back(STDERR_FILENO, before_[1].get());
  before_.clear();
  return true;
}

void OutputLink::finish(boost::asio::io_context& context, std::optional<Milliseconds> limit,
                        std::function<void()> done) {
  done_ = std::move(done);
  unread_ = linked_.size();
  if (unread_ == 0) return boost::asio::post(context, std::exchange(done_, nullptr));
  for (const int standard : linked_) {
    end_writing(standard);
    watches_.push_back(std::make_unique<Watch>(context, duplicate(standard).release()));
    watches_.back()->async_wait(Watch::wait_read, [this](const error_code& error) {
      if (!error) note_read();
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

}  // namespace ddprun
