#include "streams/output_pumps.hpp"

#include <unistd.h>

#include <utility>

#include "os/descriptors.hpp"

namespace ddprun::streams {

OutputPumps::OutputPumps(boost::asio::io_context& context) : output_(context, STDOUT_FILENO) {
  if (!os::same_file(STDOUT_FILENO, STDERR_FILENO)) separate_error_.emplace(context, STDERR_FILENO);
}

void OutputPumps::add_connection(const rendezvous::lifeline::Output& from, os::Fd socket, bool raw,
                                 std::string_view begun, output::Folding folding,
                                 std::function<void()> ended) {
  const bool is_error = from.stream == rendezvous::lifeline::Stream::error;
  StreamTreatment treatment{.name = from.host};
  if (folding != output::Folding::off && (is_error || are_one()))
    treatment.fold = StreamTreatment::Fold::host_tracebacks;
  if (ended) {
    treatment.copy = [ended = std::move(ended)](std::string_view text) {
      if (text.empty()) ended();
    };
  }
  OutputPump& pump = is_error ? error() : output_;
  pump.forget(pump.add(std::move(socket), raw, output::LineTail::k_lines, std::move(treatment), begun));
}

void OutputPumps::allow_lost_hosts() {
  output_.allow_lost_hosts();
  if (separate_error_) separate_error_->allow_lost_hosts();
}

void OutputPumps::before_writing(const std::function<void()>& handler) {
  output_.before_writing(handler);
  if (separate_error_) separate_error_->before_writing(handler);
}

void OutputPumps::reopen() {
  output_.reopen(STDOUT_FILENO);
  if (separate_error_) separate_error_->reopen(STDERR_FILENO);
}

void OutputPumps::end_silent(Milliseconds patience, bool in_any_case) {
  output_.end_silent(patience, in_any_case);
  if (separate_error_) separate_error_->end_silent(patience, in_any_case);
}

void OutputPumps::when_drained(std::optional<Milliseconds> limit, std::function<void()> handler) {
  output_.when_drained(limit, [this, limit, handler = std::move(handler)](bool) {
    error().when_drained(limit, [handler](bool) { handler(); });
  });
}

std::vector<std::string> OutputPumps::losses(const std::string& host) const {
  return describe_losses(output_, error(), host);
}

}  // namespace ddprun::streams
