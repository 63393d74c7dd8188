// What workers write, in any pieces and at any times, on its way to the console: merged, folded and labelled
// no byte is lost and no line of one is inside another's; the lines of a report and its hints.
//
// Input: one byte chooses who works on it, then commands of one byte: the stream in the low two bits; 0x80
// lets time pass, as long as the next byte says; 0x40 closes the stream; else a length byte and the text.
#include <algorithm>
#include <array>
#include <set>

#include "output/copy_folder.hpp"
#include "output/line_folder.hpp"
#include "output/line_limits.hpp"
#include "output/line_merger.hpp"
#include "promise.hpp"
#include "report/known_failures.hpp"
#include "report/report.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

constexpr int k_streams = 4;

struct Event {
  enum class Kind { text, close, time } kind;
  int stream;
  std::string_view text;
  Milliseconds passed;
};

std::vector<Event> read_events(fuzz::Input input) {
  std::vector<Event> events;
  std::set<int> closed;
  while (!input.empty()) {
    const int command = input.byte();
    const int stream = command % k_streams;
    const int argument = input.byte();
    if ((command & 0x80) != 0) {
      events.push_back({Event::Kind::time, 0, {}, Milliseconds{argument * 4}});
    } else if (closed.contains(stream)) {
      continue;
    } else if ((command & 0x40) != 0) {
      closed.insert(stream);
      events.push_back({Event::Kind::close, stream, {}, {}});
    } else {
      events.push_back({Event::Kind::text, stream, input.piece(static_cast<std::size_t>(argument)), {}});
    }
  }
  for (int stream = 0; stream < k_streams; ++stream) {
    if (!closed.contains(stream)) events.push_back({Event::Kind::close, stream, {}, {}});
  }
  return events;
}

std::size_t bytes_of(const std::vector<Event>& events) {
  std::size_t count = 0;
  for (const Event& event : events) count += event.text.size();
  return count;
}

std::size_t count_of_line_ends(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// All bytes come out; beside them only the line ends that part two streams.
void merge(const std::vector<Event>& events) {
  output::LineMerger::Settings settings;
  settings.long_line = 64;
  settings.longest_line = 256;
  settings.backlog = 512;
  output::LineMerger merger(settings);
  std::array<output::StreamId, k_streams> ids;
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = merger.open(i == 0);
  TimePoint now{};
  std::string written;
  const auto take = [&] {
    while (!merger.output().empty()) {
      const std::string piece(merger.output().substr(0, 100));
      merger.take(piece.size(), now);
      written += piece;
    }
  };
  for (const Event& event : events) {
    const output::StreamId id = ids[static_cast<std::size_t>(event.stream)];
    now += event.passed;
    if (event.kind == Event::Kind::text) merger.add(id, event.text, now);
    if (event.kind == Event::Kind::close) merger.close(id, now);
    if (event.kind == Event::Kind::time) merger.tick(now);
    take();
  }
  require(merger.streams() == 0);
  std::array<std::size_t, 256> seen{};
  for (const char c : written) ++seen[static_cast<unsigned char>(c)];
  for (const Event& event : events) {
    for (const char c : event.text) --seen[static_cast<unsigned char>(c)];
  }
  seen['\n'] = 0;
  require(seen == std::array<std::size_t, 256>{});
  std::size_t own_ends = 0;
  for (const Event& event : events) own_ends += count_of_line_ends(event.text);
  require(count_of_line_ends(written) >= own_ends);
}

// Every byte is in one piece, or among those that are the same as it.
template <class Folder>
void fold(const std::vector<Event>& events) {
  Folder folder;
  for (int stream = 0; stream < k_streams; ++stream) folder.open(stream, GlobalRank{stream});
  TimePoint now{};
  std::size_t bytes = 0;
  std::set<int> open{0, 1, 2, 3};
  const auto take = [&] {
    for (const output::LineFolder::Piece& piece : folder.take()) {
      if (piece.ended) open.erase(piece.stream);
      bytes += piece.text.size() * std::max<std::size_t>(piece.ranks.size(), 1);
      if (!piece.ranks.empty()) fuzz::require_printable(output::describe_copies(piece));
    }
  };
  for (const Event& event : events) {
    now += event.passed;
    if (event.kind == Event::Kind::text) folder.add(event.stream, event.text, now);
    if (event.kind == Event::Kind::close) folder.close(event.stream, now);
    if (event.kind == Event::Kind::time) folder.tick(now);
    take();
  }
  for (int rounds = 0; rounds < 100 && folder.next_tick(); ++rounds) {
    now = *folder.next_tick();
    folder.tick(now);
    take();
  }
  require(!folder.next_tick() && open.empty());
  require(bytes >= bytes_of(events));
}

void render_reports(const std::vector<Event>& events) {
  output::LineTail tail;
  for (const Event& event : events) tail.add(event.text);
  report::Failure failure;
  failure.host = "n1";
  failure.program = "python";
  failure.status = {ExitStatus::Kind::exited, 1, {}, false};
  failure.last_lines = tail.lines();
  require(failure.last_lines.size() <= output::LineTail::k_lines);
  for (const std::string& line : failure.last_lines) {
    require(line.size() <= output::LineTail::k_line_length && line.find('\n') == std::string::npos);
  }
  failure.hint = report::find_failure_hint(failure, 8);
  report::Cause cause;
  cause.kind = report::Cause::Kind::worker_failed;
  cause.failure = failure;
  fuzz::require_printable(report::render_report(cause, {0, 3, {}}));
  failure.last_lines.clear();
  for (const Event& event : events) failure.message += event.text;
  cause.failure = failure;
  fuzz::require_printable(report::render_report(cause, {0, 3, {}}));
  report::render_report_json({cause, {failure}, {1, 2}, {}, "29", "n1"});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const int choice = input.byte() % 4;
  const std::vector<Event> events = read_events(input);
  if (choice == 0) merge(events);
  if (choice == 1) fold<output::LineFolder>(events);
  if (choice == 2) fold<output::CopyFolder>(events);
  if (choice == 3) render_reports(events);
  return 0;
}
