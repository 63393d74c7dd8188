#include "status/stack_dump.hpp"

#include <optional>

#include "base/text.hpp"
#include "status/python_threads.hpp"

namespace ddprun::status {

namespace {

constexpr std::string_view k_file = "  File \"", k_line = "\", line ";

std::optional<Frame> parse_frame(const std::string& line) {
  const std::size_t end = line.find(k_line);
  if (!line.starts_with(k_file) || end == std::string::npos) return std::nullopt;
  const std::string rest = line.substr(end + k_line.size());
  const std::size_t in = rest.find(" in ");
  const auto number = parse_integer(rest.substr(0, in));
  if (in == std::string::npos || !number || *number < 0 || *number > 1'000'000'000) return std::nullopt;
  return Frame{line.substr(k_file.size(), end - k_file.size()), static_cast<int>(*number),
               rest.substr(in + 4)};
}

constexpr std::string_view k_fatal = "Fatal Python error: ";
constexpr std::size_t k_most_crash_frames = 12;

bool begins_thread(const std::string& line) { return line.ends_with("(most recent call first):"); }

}  // namespace

bool add_stack_dump(RankView& view, std::string_view text) {
  std::vector<PythonThread> threads;
  for (const std::string& line : split(text, '\n')) {
    if (begins_thread(line)) {
      // "Thread 0x00007f01 [prefetch] (most recent call first):"
      const std::vector<std::string> words = split(line, ' ');
      threads.push_back({words.size() > 1 ? words[1] : "", {}, line.starts_with("Current thread")});
    } else if (const auto frame = parse_frame(line); frame && !threads.empty()) {
      if (threads.back().stack.size() < k_most_frames) threads.back().stack.push_back(*frame);
    }
  }
  if (threads.empty()) return false;
  set_threads(view, std::move(threads));
  view.threads = std::string(text.substr(0, k_most_threads_text));
  return true;
}

// faulthandler writes the main thread last.
std::vector<std::string> crash_lines(std::string_view text) {
  const std::size_t begin = text.rfind(k_fatal);
  if (begin == std::string_view::npos) return {};
  const std::vector<std::string> lines = split(text.substr(begin), '\n');
  std::vector<std::string> stack;
  bool of_crash = false;
  for (const std::string& line : lines) {
    if (begins_thread(line)) {
      if (of_crash && !stack.empty()) break;
      of_crash = line.starts_with("Current thread");
      stack.clear();
    } else if (parse_frame(line) && stack.size() < k_most_crash_frames) {
      stack.push_back(line);
    }
  }
  if (stack.empty()) return {};
  const std::string heading =
      of_crash ? "most recent call first:" : "the main thread, most recent call first:";
  stack.insert(stack.begin(), {lines.front(), heading});
  return stack;
}

}  // namespace ddprun::status
