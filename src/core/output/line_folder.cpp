#include "output/line_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "output/line_label.hpp"

namespace ddprun::output {
bool LineFolder::Group::has(int stream) const {
  return std::ranges::any_of(members, [&](const Member& member) { return member.stream == stream; });
}

void LineFolder::open(int stream, GlobalRank rank) { streams_[stream].rank = rank; }

void LineFolder::add(int stream, std::string_view text, TimePoint now) {
  Stream& source = streams_.at(stream);
  if (source.held.empty()) source.first = now;
  source.held += text;
  source.changed = now;
  if (source.held.size() > settings_.longest || is_rewritten(source.held)) pass_through(stream);
}

void LineFolder::close(int stream, TimePoint now) {
  Stream& source = streams_.at(stream);
  source.closed = true;
  if (!source.held.empty()) join(stream, std::exchange(source.held, {}), now);
  forget_ended(stream);
  release_due(now);
}

TimePoint LineFolder::cut_at(const Stream& stream) const {
  return std::min(stream.changed + settings_.quiet, stream.first + settings_.moment);
}

std::optional<TimePoint> LineFolder::next_tick() const {
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [id, stream] : streams_) {
    if (!stream.held.empty()) consider(cut_at(stream));
  }
  if (!groups_.empty()) consider(groups_.front().due);
  return next;
}

void LineFolder::tick(TimePoint now) {
  for (auto& [id, stream] : streams_) {
    if (!stream.held.empty() && now >= cut_at(stream)) cut(id, now);
  }
  release_due(now);
}

void LineFolder::cut(int id, TimePoint now) {
  Stream& stream = streams_.at(id);
  const std::size_t length = stream.held.rfind('\n') + 1;  // npos + 1 is 0
  std::string rest = stream.held.substr(length);
  stream.held.resize(length);
  if (length > 0) join(id, std::exchange(stream.held, {}), now);
  if (rest.empty()) return;
  stream.held = std::move(rest);
  if (now - stream.changed >= settings_.quiet) return pass_through(id);
  stream.first = now;
}

void LineFolder::pass_through(int id) {
  Stream& stream = streams_.at(id);
  while (stream.groups > 0) release_first();
  ready_.push_back({id, {}, std::exchange(stream.held, {}), false});
}

// Joins a group. A stream never joins one that comes out before one it is in already.
void LineFolder::join(int id, std::string text, TimePoint now) {
  Stream& stream = streams_.at(id);
  const std::string key = without_rank(text, stream.rank);
  const auto last_own =
      std::find_if(groups_.rbegin(), groups_.rend(), [&](const Group& group) { return group.has(id); });
  auto group =
      std::find_if(last_own.base(), groups_.end(), [&](const Group& each) { return each.key == key; });
  if (group == groups_.end()) {
    groups_.push_back({key, now + settings_.moment, {}});
    group = std::prev(groups_.end());
  }
  group->members.push_back({id, std::move(text)});
  ++stream.groups;
}

void LineFolder::release_first() {
  Group group = std::move(groups_.front());
  groups_.pop_front();
  if (group.members.size() >= settings_.least) {
    Piece piece{group.members.front().stream, {}, std::move(group.key), false};
    for (const Member& member : group.members) piece.ranks.push_back(streams_.at(member.stream).rank.value);
    std::ranges::sort(piece.ranks);
    ready_.push_back(std::move(piece));
  } else {
    for (Member& member : group.members) ready_.push_back({member.stream, {}, std::move(member.text), false});
  }
  for (const Member& member : group.members) {
    --streams_.at(member.stream).groups;
    forget_ended(member.stream);
  }
}

void LineFolder::release_due(TimePoint now) {
  while (!groups_.empty() &&
         (now >= groups_.front().due || groups_.front().members.size() == streams_.size())) {
    release_first();
  }
}

void LineFolder::forget_ended(int id) {
  const Stream& stream = streams_.at(id);
  if (!stream.closed || stream.groups > 0) return;
  streams_.erase(id);
  ready_.push_back({id, {}, {}, true});
}

std::string without_rank(const std::string& text, GlobalRank rank) {
  const std::string mark = fmt::format("[rank{}]: ", rank.value);
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.starts_with(mark)) line.remove_prefix(mark.size());
    result += line;
    at = end;
  }
  return result;
}

bool is_rewritten(std::string_view text) {
  for (std::size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    if (at + 1 == text.size() || text[at + 1] != '\n') return true;
  }
  return false;
}

std::string describe_alike(const std::vector<int>& ranks, std::string_view text) {
  std::string lines;
  Labeller().append(lines, text, fmt::format("[{}] ", describe_rank_list(ranks)));
  if (lines.back() != '\n') lines += '\n';
  return lines;
}

std::string describe_rank_list(const std::vector<int>& ascending) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    const bool one = end == i + 1;
    parts.push_back(one ? std::to_string(ascending[i])
                        : fmt::format("{}-{}", ascending[i], ascending[end - 1]));
    i = end;
  }
  return join(parts, ", ");
}

}  // namespace ddprun::output
