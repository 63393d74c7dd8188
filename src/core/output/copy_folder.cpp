#include "output/copy_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"

namespace ddprun::output {

namespace {

constexpr std::size_t k_quoted = 200;

constexpr GlobalRank k_no_rank{-1};  // rank of a text that bears no mark of one

template <class Value>
std::vector<Value> without_repeats(std::vector<Value> sorted) {
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

std::string_view whole_lines(std::string_view text) { return text.substr(0, text.rfind('\n') + 1); }

}  // namespace

void CopyFolder::open(int stream, GlobalRank rank, Blocks blocks) {
  streams_[stream] = {.rank = rank, .blocks = blocks};
  ++opened_;
}

void CopyFolder::open_host(int stream, const std::string& host) {
  streams_[stream] = {.rank = k_no_rank, .blocks = Blocks::tracebacks, .host = host};
  ++opened_;
}

void CopyFolder::add(int id, std::string_view text, TimePoint now) {
  forget_old(now);
  if (streams_.at(id).host.empty()) return add_part(id, text, now);
  for (const TracebackSplitter::Part& part : streams_.at(id).splitter.split(text)) {
    if (part.begins) end_block(id, now);
    Stream& stream = streams_.at(id);
    if (stream.held.empty()) stream.rank = part.rank ? GlobalRank{*part.rank} : k_no_rank;
    add_part(id, part.text, now);
  }
}

// Ends the block that the stream writes: what follows is of another rank.
void CopyFolder::end_block(int id, TimePoint now) {
  if (!streams_.at(id).held.empty()) cut(id, now);
  for (Block& block : blocks_) block.ended = block.ended || block.stream == id;
}

void CopyFolder::add_part(int id, std::string_view text, TimePoint now) {
  Stream& stream = streams_.at(id);
  if (stream.held.empty()) {
    stream.first = now;
    const bool begins = stream.fresh && stream.blocks == Blocks::tracebacks;
    const std::size_t before = begins ? std::min(find_traceback(text), text.size()) : 0;
    stream.held = text.substr(0, before);
    if (before > 0) show(id, now);
    text.remove_prefix(before);
  }
  stream.held += text;
  stream.changed = now;
  if (!stream.held.empty() && !may_be_copy(id, stream, now)) show(id, now);
}

bool CopyFolder::may_be_copy(int id, const Stream& stream, TimePoint now) const {
  if (!stream.fresh || stream.held.size() > settings_.longest || is_rewritten(stream.held)) return false;
  const auto may_be_first = [&](const Block& block) {
    return block.stream != id && now - block.changed <= settings_.recent;
  };
  if (std::ranges::none_of(blocks_, may_be_first)) return false;
  const std::string key = make_comparable(whole_lines(stream.held), stream.rank).text;
  return std::ranges::any_of(
      blocks_, [&](const Block& block) { return may_be_first(block) && is_like(stream, key, block); });
}

// Compares as far as both have come: by whole lines, else as they are.
bool CopyFolder::is_like(const Stream& stream, const std::string& key, const Block& block) {
  const auto goes_with = [](const std::string& one, const std::string& other) {
    return one.starts_with(other) || other.starts_with(one);
  };
  if (!key.empty() && block.whole > 0) return goes_with(key, block.lines.text);
  return goes_with(without_rank(stream.held, stream.rank), without_rank(block.text, block.rank));
}

TimePoint CopyFolder::cut_at(const Stream& stream) const {
  if (is_unfinished_traceback(stream.held, stream.rank)) return stream.first + settings_.unfinished;
  const TimePoint last = stream.first + settings_.held;
  const TimePoint usual =
      stream.held.ends_with('\n') ? std::min(stream.changed + settings_.quiet, last) : last;
  return std::max(usual, stream.not_before);
}

// Reports whether the stream holds more of a traceback that another stream has begun and not ended.
bool CopyFolder::is_ahead(int id, const Stream& stream) const {
  const std::string key = make_comparable(whole_lines(stream.held), stream.rank).text;
  return std::ranges::any_of(blocks_, [&](const Block& block) {
    const auto writer = streams_.find(block.stream);
    return block.stream != id && writer != streams_.end() && !writer->second.closed &&
           is_unfinished_traceback(block.text, block.rank) && is_like(stream, key, block);
  });
}

// Decides whether the held text is a copy.
void CopyFolder::cut(int id, TimePoint now) {
  Stream& stream = streams_.at(id);
  Comparable lines = make_comparable(stream.held, stream.rank);
  const auto block = std::ranges::find_if(blocks_, [&](const Block& each) {
    return each.stream != id && each.whole == each.text.size() && are_alike(each.lines, lines) &&
           stream.first - each.changed <= settings_.recent;
  });
  if (block == blocks_.end() && now < stream.first + settings_.unfinished && is_ahead(id, stream)) {
    stream.not_before = now + settings_.quiet;
    return;
  }
  if (block == blocks_.end() || !stream.held.ends_with('\n')) return show(id, now);
  add_copy(*block, id, std::move(lines.parts), now);
}

void CopyFolder::add_copy(Block& block, int id, std::vector<Difference> parts, TimePoint now) {
  Stream& stream = streams_.at(id);
  const auto own = std::ranges::count(block.copies, id, &Copy::stream);
  const bool in_one = !stream.host.empty() && own == stream.copies;  // its ranks are one line
  if (stream.copies > 0 && !in_one) release_own(id);                 // an earlier one comes out earlier
  const TimePoint last = (block.copies.empty() ? now : block.first_copy) + settings_.recent;
  if (block.copies.empty()) block.first_copy = now;
  block.due = std::min(now + settings_.moment, last);
  block.copies.push_back({id, stream.rank, std::exchange(stream.held, {}), std::move(parts)});
  ++stream.copies;
  const std::size_t first = streams_.contains(block.stream) ? 1 : 0;
  if (stream.host.empty() && block.copies.size() + first == streams_.size()) release(block);
}

void CopyFolder::show(int id, TimePoint now) {
  release_own(id);
  Stream& stream = streams_.at(id);
  std::string text = std::exchange(stream.held, {});
  note_shown(id, text, now);
  stream.fresh = text.ends_with('\n');
  ready_.push_back({id, {}, std::move(text), false});
}

// Notes shown text. The text of a stream that is quiet before it and begins a line begins a block.
void CopyFolder::note_shown(int id, std::string_view text, TimePoint now) {
  const Stream& stream = streams_.at(id);
  const auto last =
      std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const Block& block) { return block.stream == id; });
  const auto pause = [&](const Block& block) {
    return is_unfinished_traceback(block.text, block.rank) ? settings_.unfinished : settings_.quiet;
  };
  const bool goes_on = last != blocks_.rend() && !last->ended &&
                       (last->whole != last->text.size() || now - last->changed < pause(*last));
  const bool large = text.size() + (goes_on ? last->text.size() : 0) > settings_.longest;
  if (large || is_rewritten(text)) {
    if (!goes_on) return;
    release(*last);
    blocks_.erase(std::next(last).base());
    return;
  }
  if (goes_on) {
    release(*last);  // a copy of the beginning is none of the whole
    append(*last, text);
    last->changed = now;
  } else if (stream.fresh && (stream.blocks == Blocks::all || find_traceback(text) == 0)) {
    append(
        blocks_.emplace_back(Block{.stream = id, .rank = stream.rank, .host = stream.host, .changed = now}),
        text);
  }
}

void CopyFolder::append(Block& block, std::string_view text) {
  block.text += text;
  const std::string_view lines = whole_lines(std::string_view(block.text).substr(block.whole));
  Comparable more = make_comparable(lines, block.rank);
  block.whole += lines.size();
  block.lines.text += more.text;
  std::move(more.parts.begin(), more.parts.end(), std::back_inserter(block.lines.parts));
}

// Reports whether copies of the block become one line, even a single copy.
bool CopyFolder::is_told(const Block& block) const {
  if (block.told || block.copies.size() + 1 >= settings_.least) return true;
  return opened_ >= settings_.least && find_traceback(block.text) == 0;
}

void CopyFolder::release(Block& block) {
  const bool told = is_told(block);
  std::vector<Copy> copies = std::exchange(block.copies, {});
  if (copies.empty()) return;
  if (told) {
    block.told = true;
    LineFolder::Piece piece{copies.front().stream, {}, without_rank(block.text, block.rank), false};
    piece.first = block.rank == k_no_rank ? block.host : fmt::format("rank {}", block.rank.value);
    std::vector<Difference> all;
    for (const Copy& copy : copies) {
      if (copy.rank == k_no_rank) {
        piece.hosts.push_back(streams_.at(copy.stream).host);
      } else {
        piece.ranks.push_back(copy.rank.value);
      }
      for (std::size_t i = 0; i < copy.parts.size(); ++i) {
        if (copy.parts[i] != block.lines.parts[i]) all.push_back(copy.parts[i]);
      }
    }
    piece.differing = describe_kinds(all);
    std::ranges::sort(piece.ranks);
    std::ranges::sort(piece.hosts);
    ready_.push_back(std::move(piece));
  } else {
    for (Copy& copy : copies) ready_.push_back({copy.stream, {}, std::move(copy.text), false});
  }
  for (const Copy& copy : copies) {
    --streams_.at(copy.stream).copies;
    forget_ended(copy.stream);
  }
}

// Releases all copies of this stream before what it writes next.
void CopyFolder::release_own(int id) {
  for (Block& block : blocks_) {
    const auto own = [id](const Copy& copy) { return copy.stream == id; };
    if (std::ranges::any_of(block.copies, own)) release(block);
  }
}

void CopyFolder::close(int id, TimePoint now) {
  Stream& stream = streams_.at(id);
  if (!stream.held.empty()) cut(id, now);
  const auto found = streams_.find(id);
  found->second.closed = true;
  forget_ended(id);
  release_if_last(now);
}

void CopyFolder::release_if_last(TimePoint now) {
  if (std::ranges::any_of(streams_, [](const auto& each) { return !each.second.closed; })) return;
  cut_all([](const Stream&) { return true; }, now);
  for (Block& block : blocks_) release(block);
}

// A stream that has ended is forgotten with what it held.
void CopyFolder::cut_all(const std::function<bool(const Stream&)>& due, TimePoint now) {
  std::vector<int> ids;
  for (const auto& [id, stream] : streams_) {
    if (!stream.held.empty() && due(stream)) ids.push_back(id);
  }
  for (const int id : ids) {
    cut(id, now);
    if (streams_.contains(id)) forget_ended(id);
  }
}

void CopyFolder::forget_old(TimePoint now) {
  std::erase_if(blocks_, [&](const Block& block) {
    return block.copies.empty() && now - block.changed > settings_.recent + settings_.held;
  });
}

void CopyFolder::forget_ended(int id) {
  const Stream& stream = streams_.at(id);
  if (!stream.closed || stream.copies > 0 || !stream.held.empty()) return;
  streams_.erase(id);
  ready_.push_back({id, {}, {}, true});
}

std::optional<TimePoint> CopyFolder::next_tick() const {
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [id, stream] : streams_) {
    if (!stream.held.empty()) consider(cut_at(stream));
  }
  for (const Block& block : blocks_) {
    if (!block.copies.empty()) consider(block.due);
  }
  return next;
}

void CopyFolder::tick(TimePoint now) {
  cut_all([&](const Stream& stream) { return now >= cut_at(stream); }, now);
  for (Block& block : blocks_) {
    if (!block.copies.empty() && now >= block.due) release(block);
  }
}

std::string describe_copies(const LineFolder::Piece& copies) {
  const std::string_view text = copies.text;
  const auto lines = std::ranges::count(text, '\n');
  const std::size_t end = text.find_last_not_of(" \t\r\n") + 1;  // npos + 1 is 0
  std::string_view last = text.substr(0, end);
  last = last.substr(last.rfind('\n') + 1).substr(0, k_quoted);
  std::vector<std::string> who = without_repeats(copies.hosts);
  if (!copies.ranks.empty()) who.insert(who.begin(), describe_rank_list(without_repeats(copies.ranks)));
  return fmt::format("[{}] the same{} as {}{}: {}\n", printable(join(who, ", "), k_quoted),
                     lines > 1 ? fmt::format(" {} lines", lines) : "", copies.first,
                     copies.differing.empty() ? "" : " but for " + copies.differing, last);
}

}  // namespace ddprun::output
