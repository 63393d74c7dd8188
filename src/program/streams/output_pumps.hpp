// Standard output and standard error of this process, into which the output of others goes.
// There is one pump if both go to the same file, so that neither splits the other's lines.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "os/descriptors.hpp"
#include "output/output_options.hpp"
#include "rendezvous/lifeline.hpp"
#include "streams/output_pump.hpp"

namespace ddprun::streams {

class OutputPumps {
 public:
  explicit OutputPumps(boost::asio::io_context& context);
  OutputPumps(const OutputPumps&) = delete;
  OutputPumps& operator=(const OutputPumps&) = delete;

  OutputPump& output() { return output_; }
  OutputPump& error() { return separate_error_ ? *separate_error_ : output_; }
  const OutputPump& output() const { return output_; }
  const OutputPump& error() const { return separate_error_ ? *separate_error_ : output_; }
  bool are_one() const { return !separate_error_; }

  // Adds another host's output, from which `begun` was read already; `raw`: unfinished lines are shown.
  // Tracebacks that other hosts have shown are one line, unless `folding` is off. `ended` is called once.
  void add_connection(const rendezvous::lifeline::Output& from, os::Fd socket, bool raw,
                      std::string_view begun, output::Folding folding, std::function<void()> ended = {});
  // Do as OutputPump's, for both.
  void allow_lost_hosts();
  void before_writing(const std::function<void()>& handler);
  void reopen();
  void end_silent(Milliseconds patience, bool in_any_case);
  // Calls when all is written, or after `limit` for each of the two.
  void when_drained(std::optional<Milliseconds> limit, std::function<void()> handler);
  // Sentences about output that was lost, or would be if ddprun ended now.
  std::vector<std::string> losses(const std::string& host) const;

 private:
  OutputPump output_;
  std::optional<OutputPump> separate_error_;
};

}  // namespace ddprun::streams
