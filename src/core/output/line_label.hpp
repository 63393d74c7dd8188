// Labels in front of a worker's lines on the console.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"

namespace ddprun::output {

struct LabelFacts {
  GlobalRank rank;
  LocalRank local_rank;
  Attempt attempt;
  std::string host;
  std::string role;
};

// A text, with the time of day (UTC) wherever the template asks for it.
class LineLabel {
 public:
  LineLabel() = default;  // none
  explicit LineLabel(std::string text) : parts_{std::move(text)} {}
  explicit LineLabel(std::vector<std::string> parts) : parts_(std::move(parts)) {}

  bool empty() const { return parts_.empty(); }
  // Returns the label at a time. `day_time`: the wall clock's time since midnight.
  std::string at(Milliseconds day_time) const;
  bool shows_time() const { return parts_.size() > 1; }

 private:
  std::vector<std::string> parts_;  // the time stands between them
};

inline constexpr const char* k_label_of_one_host = "[{rank}] ";
inline constexpr const char* k_label_of_hosts = "[{rank} {host}] ";

// Makes the label of --label: {rank}, {local_rank}, {host}, {attempt} and {time}; "{{" is a brace. `colour`:
// for a terminal, by rank. Throws UsageError for any other macro.
LineLabel make_label(const std::string& text, const LabelFacts& facts, bool colour,
                     const std::string& origin);
// torchrun's template, as Python's Template.safe_substitute: $rank, ${local_rank}, $role_name, $hostname,
// "$$"; what it does not know stays. An empty one is "[ROLE LOCAL_RANK]:".
LineLabel make_torchrun_prefix(const std::string& text, const LabelFacts& facts);

// Puts labels in front of the lines of one stream, of which every byte stays as it is. A '\r' ends a line too
// (progress bars redraw their label with it), but "\r\n" is one end.
class Labeller {
 public:
  void append(std::string& to, std::string_view text, std::string_view label);
  // Notes that another stream has written meanwhile, and ended its line.
  void interrupt() {
    if (start_ == Start::within) start_ = Start::fresh;
  }

 private:
  enum class Start { fresh, returned, within };
  Start start_ = Start::fresh;
};

// Decides whether labels have colours: by the variables NO_COLOR and CLICOLOR_FORCE, else on a terminal only.
// Empty: not set. https://no-color.org, https://bixense.com/clicolors
bool decide_colour(std::string_view no_color, std::string_view clicolor_force, bool terminal);

}  // namespace ddprun::output
