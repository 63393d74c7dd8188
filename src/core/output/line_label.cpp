#include "output/line_label.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::output {

namespace {

// Colours that are readable on a dark and on a light background; local peers differ.
constexpr std::array<int, 6> k_colours{36, 33, 35, 32, 34, 31};

struct LabelBuilder {
  std::vector<std::string> parts{1};

  void macro(const std::string& name, const LabelFacts& facts, const std::string& origin) {
    if (name == "time") {
      parts.emplace_back();
    } else if (name == "host") {
      parts.back() += facts.host;
    } else if (name == "rank") {
      parts.back() += std::to_string(facts.rank.value);
    } else if (name == "local_rank") {
      parts.back() += std::to_string(facts.local_rank.value);
    } else if (name == "attempt") {
      parts.back() += std::to_string(facts.attempt.value);
    } else {
      throw UsageError(fmt::format("{} has an unknown macro: '{{{}}}'", origin, printable(name)),
                       "the macros are {rank}, {local_rank}, {host}, {attempt} and {time}; {{ is a brace");
    }
  }
};

// Colours the label; blanks at the end stay without colour.
void paint(std::vector<std::string>& parts, int rank) {
  const int colour = k_colours[static_cast<std::size_t>(rank) % k_colours.size()];
  parts.front().insert(0, fmt::format("\x1b[{}m", colour));
  std::string& last = parts.back();
  const std::size_t end = last.find_last_not_of(' ') + 1;
  last.insert(end, "\x1b[0m");
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Returns the name after a '$', as in "rank" or "{rank}"; empty: there is none.
std::string_view find_name(std::string_view text) {
  const bool braced = text.starts_with('{');
  const std::size_t first = braced ? 1 : 0;
  std::size_t end = first;
  while (end < text.size() &&
         (is_name_start(text[end]) || (end > first && text[end] >= '0' && text[end] <= '9')))
    ++end;
  if (end == first || (braced && (end == text.size() || text[end] != '}'))) return {};
  return text.substr(0, end + first);
}

}  // namespace

std::string LineLabel::at(Milliseconds day_time) const {
  if (parts_.empty()) return {};
  if (parts_.size() == 1) return parts_.front();
  const auto ms = day_time.count();
  return join(parts_, fmt::format("{:02}:{:02}:{:02}.{:03}", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60,
                                  ms % 1000));
}

LineLabel make_label(const std::string& text, const LabelFacts& facts, bool colour,
                     const std::string& origin) {
  LabelBuilder builder;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool doubled = i + 1 < text.size() && text[i + 1] == text[i];
    if (text[i] == '{' && !doubled) {
      const std::size_t end = std::min(text.find('}', i), text.size());
      builder.macro(text.substr(i + 1, end - i - 1), facts, origin);
      i = end;
      continue;
    }
    builder.parts.back() += text[i];
    if ((text[i] == '{' || text[i] == '}') && doubled) ++i;
  }
  if (colour) paint(builder.parts, facts.rank.value);
  return LineLabel(std::move(builder.parts));
}

LineLabel make_torchrun_prefix(const std::string& text, const LabelFacts& facts) {
  if (text.empty()) return LineLabel(fmt::format("[{}{}]:", facts.role, facts.local_rank.value));
  std::string label;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view name = text[i] == '$' ? find_name(std::string_view(text).substr(i + 1)) : "";
    const std::string bare(name.starts_with('{') ? name.substr(1, name.size() - 2) : name);
    if (bare == "rank" || bare == "local_rank" || bare == "role_name" || bare == "hostname") {
      label += bare == "rank"         ? std::to_string(facts.rank.value)
               : bare == "local_rank" ? std::to_string(facts.local_rank.value)
               : bare == "hostname"   ? facts.host
                                      : facts.role;
      i += name.size();
    } else {
      label += text[i];
      if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '$') ++i;
    }
  }
  return LineLabel(std::move(label));
}

void Labeller::append(std::string& to, std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const bool at_start = start_ != Start::within;
    const bool second_half = start_ == Start::returned && text.front() == '\n';
    if (at_start && !second_half && text.front() != '\r') to += label;
    std::string_view line =
        text.substr(0, text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1);
    if (const std::size_t returned = line.find('\r'); returned != std::string_view::npos)
      line = line.substr(0, returned + 1);
    to += line;
    text.remove_prefix(line.size());
    start_ = line.back() == '\n' ? Start::fresh : line.back() == '\r' ? Start::returned : Start::within;
  }
}

bool decide_colour(std::string_view no_color, std::string_view clicolor_force, bool terminal) {
  if (!no_color.empty()) return false;
  return terminal || (!clicolor_force.empty() && clicolor_force != "0");
}

}  // namespace ddprun::output
