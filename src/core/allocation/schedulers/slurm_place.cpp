#include "allocation/schedulers/slurm_place.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

// Takes the digits off the start of `text` and returns their number.
std::optional<std::int64_t> take_number(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  const auto number = parse_integer(digits);
  if (number) text.remove_prefix(digits.size());
  return number;
}

bool take(std::string_view& text, std::string_view word) {
  if (text.substr(0, word.size()) != word) return false;
  text.remove_prefix(word.size());
  return true;
}

// Takes "0", "batch", "extern" or "interactive" off the start of `text`.
bool take_step(std::string_view& text, SlurmPlace& place) {
  if (take(text, "batch")) {
    place.context = SlurmContext::batch;
  } else if (take(text, "extern")) {
    place.context = SlurmContext::external;
  } else if (take(text, "interactive")) {
    place.context = SlurmContext::interactive;
  } else {
    const auto step = take_number(text);
    if (!step) return false;
    place.step = *step;
  }
  return true;
}

bool take_offset(std::string_view& text) { return !take(text, "+") || take_number(text).has_value(); }

}  // namespace

std::optional<SlurmPlace> parse_stepd_title(std::string_view title) {
  SlurmPlace place;
  place.origin = printable(trim(title));
  std::string_view rest = title;
  if (!take(rest, "slurmstepd: [")) return std::nullopt;
  const auto job = take_number(rest);
  if (!job || !take_offset(rest) || !take(rest, ".") || !take_step(rest, place) || !take_offset(rest))
    return std::nullopt;
  take(rest, " stepmgr");
  if (!take(rest, "]")) return std::nullopt;
  place.job = *job;
  return place;
}

std::optional<SlurmPlace> parse_slurm_cgroup(std::string_view cgroup) {
  for (std::size_t at = cgroup.find("/job_"); at != std::string_view::npos;
       at = cgroup.find("/job_", at + 1)) {
    SlurmPlace place;
    std::string_view rest = cgroup.substr(at + 5);
    const auto job = take_number(rest);
    if (!job || !take(rest, "/step_") || !take_step(rest, place)) continue;
    if (!rest.empty() && rest[0] != '/' && rest[0] != '\n') continue;
    place.job = *job;
    place.origin = fmt::format("cgroup {}", cgroup.substr(at + 1, cgroup.size() - rest.size() - at - 1));
    return place;
  }
  return std::nullopt;
}

std::optional<SlurmPlace> find_slurm_place(const facts::HostFacts& host) {
  for (const facts::Ancestor& ancestor : host.ancestors) {
    if (auto place = parse_stepd_title(ancestor.title)) return place;
  }
  return parse_slurm_cgroup(host.cgroup);
}

bool signals_each_process(const facts::HostFacts& host) {
  const bool in_step = std::any_of(
      host.ancestors.begin(), host.ancestors.end(),
      [](const facts::Ancestor& ancestor) { return parse_stepd_title(ancestor.title).has_value(); });
  const auto is_in = [&](std::string_view folder) { return host.cgroup.find(folder) != std::string::npos; };
  return in_step && !is_in("/slurmstepd.scope") && !is_in("/slurm/") && !is_in("/slurm_") && !is_in("/step_");
}

bool ends_with_batch_shell(const facts::HostFacts& host) {
  for (std::size_t i = 0; i < host.ancestors.size(); ++i) {
    const auto place = parse_stepd_title(host.ancestors[i].title);
    if (place) return i > 0 && place->context == SlurmContext::batch && !signals_each_process(host);
  }
  return false;
}

}  // namespace ddprun::allocation
