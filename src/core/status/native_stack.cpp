#include "status/native_stack.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include <utility>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "status/json_values.hpp"
#include "status/module_answer.hpp"

namespace ddprun::status {

namespace {

struct NativeThread {
  std::int64_t id = 0;
  std::vector<NativeCall> calls;
};

// Returns a function's name without its return type, parameters and template arguments.
std::string bare_name(std::string_view text) {
  if (text.find("operator") != std::string_view::npos) return std::string(text);
  std::string name;
  int angles = 0, braces = 0;  // in "{lambda(int)#1}" nothing is taken away
  for (const char each : text) {
    if (each == '{') ++braces;
    if (each == '<') ++angles;
    const bool outside = angles == 0 && braces == 0;
    if (outside && each == '(' && !name.empty()) break;
    if (outside && each == ' ')
      name.clear();
    else if (angles == 0)
      name += each;
    if (each == '>') --angles;
    if (each == '}') --braces;
  }
  return name;
}

std::string file_name(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

// Removes "#3  0x000055ae4c5fa1ca "; false for a line that is no call.
bool take_number_and_address(std::string_view& line) {
  if (!line.starts_with('#')) return false;
  line.remove_prefix(std::min(line.find(' '), line.size()));
  line = trim(line);
  if (line.starts_with("0x")) line = trim(line.substr(std::min(line.find(' '), line.size())));
  return true;
}

// Parses a line like
//     #1  0x00007fa9493b45d8 pthread_cond_wait@@GLIBC_2.3.2 - /usr/lib/x86_64-linux-gnu/libc.so.6
std::optional<NativeCall> parse_eu_stack_call(std::string_view line) {
  if (!take_number_and_address(line)) return std::nullopt;
  const std::size_t module = line.rfind("- /");
  NativeCall call{"", module == std::string_view::npos ? "" : file_name(line.substr(module + 2))};
  const std::string_view name = trim(line.substr(0, module));
  call.function = bare_name(name.substr(0, name.find('@')));
  return call;
}

// Parses a line like
//     #2  0x00007fa9493ffd8a in __sleep (seconds=0) at ../sysdeps/posix/sleep.c:55
//     #3  0x000055ae4c5fa177 in load () from /usr/lib/libload.so
std::optional<NativeCall> parse_gdb_call(std::string_view line) {
  if (!take_number_and_address(line)) return std::nullopt;
  if (line.starts_with("in ")) line.remove_prefix(3);
  NativeCall call;
  const std::size_t closed = line.rfind(')');
  const std::string_view behind = closed == std::string_view::npos ? "" : trim(line.substr(closed + 1));
  if (behind.starts_with("at ") || behind.starts_with("from "))
    call.from = file_name(behind.substr(behind.find(' ') + 1));
  // Parameters stand behind a blank, and so does a return type: what is in front of the former.
  const std::size_t arguments = line.find(" (");
  const bool plain = line.substr(0, arguments).find_first_of("<({ ") == std::string_view::npos;
  call.function = plain ? std::string(line.substr(0, arguments)) : bare_name(line);
  if (call.function == "??") call.function.clear();
  return call;
}

std::int64_t number_behind(std::string_view line, std::string_view word) {
  const std::size_t at = line.find(word);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = line.substr(at + word.size());
  return parse_integer(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0);
}

std::vector<NativeThread> parse_native(StackTool tool, std::string_view text) {
  const bool gdb = tool == StackTool::gdb;
  std::vector<NativeThread> threads;
  for (const std::string& line : split(text, '\n')) {
    if (!gdb && line.starts_with("TID ")) threads.push_back({number_behind(line, "TID "), {}});
    if (gdb && line.starts_with("Thread ")) {
      const std::int64_t lwp = number_behind(line, "(LWP ");
      threads.push_back({lwp != 0 ? lwp : number_behind(line, "(process "), {}});
    }
    if (threads.empty() || threads.back().calls.size() == k_most_frames) continue;
    if (auto call = gdb ? parse_gdb_call(line) : parse_eu_stack_call(line))
      threads.back().calls.push_back(std::move(*call));
  }
  return threads;
}

bool add_native(RankView& view, StackTool tool, int pid, std::string_view text) {
  std::vector<NativeThread> threads = parse_native(tool, text);
  const auto main = std::ranges::find(threads, pid, &NativeThread::id);
  const auto is_named = [](const NativeCall& call) { return !call.function.empty(); };
  if (main == threads.end() || std::ranges::none_of(main->calls, is_named)) return false;
  std::string all;
  for (const NativeThread& thread : threads) {
    all += fmt::format("thread {}{}, native calls:\n", thread.id, thread.id == pid ? " (main)" : "");
    for (const NativeCall& call : thread.calls) all += "  " + describe(call) + "\n";
  }
  if (view.threads.empty()) view.threads = all.substr(0, k_most_threads_text);
  std::erase_if(main->calls, [&](const NativeCall& call) { return !is_named(call); });
  view.calls = std::move(main->calls);
  return true;
}

bool add_py_spy(RankView& view, int pid, std::string_view text) {
  const nlohmann::json json = read_json_text(text);
  if (!json.is_array()) return false;
  std::string all;
  std::vector<PythonThread> threads;
  for (const nlohmann::json& thread : json) {
    if (!thread.is_object()) continue;
    const bool main = number_in(thread, "os_thread_id") == pid;
    const std::vector<Frame> frames = frames_in(thread, "frames", "filename", "name");
    std::string name = text_in(thread, "thread_name");
    if (name.empty()) name = fmt::format("{}", number_in(thread, "os_thread_id"));
    all += describe_thread(name, main, frames);
    threads.push_back({std::move(name), frames, main});
  }
  const auto main = std::ranges::find_if(threads, &PythonThread::main);
  if (main == threads.end() || main->stack.empty()) return false;
  set_threads(view, std::move(threads));
  view.unseen.clear();
  view.process.clear();
  if (view.threads.empty()) view.threads = all.substr(0, k_most_threads_text);
  return true;
}

}  // namespace

std::string name_of(StackTool tool) {
  return std::array{"py-spy", "eu-stack", "gdb"}.at(static_cast<std::size_t>(tool));
}

std::vector<std::string> stack_command(StackTool tool, const std::string& program, int pid) {
  const std::string process = fmt::format("{}", pid);
  if (tool == StackTool::py_spy) return {program, "dump", "--json", "--pid", process};
  if (tool == StackTool::eu_stack) return {program, "-m", "-p", process};
  // The main thread first, so that it is there when the time is over.
  return {program,
          "-nx",
          "-batch",
          "-iex",
          "set debuginfod enabled off",
          "-iex",
          "set auto-load no",
          "-p",
          process,
          "-ex",
          "thread apply all -ascending bt"};
}

bool add_tool_answer(RankView& view, StackTool tool, int pid, std::string_view text) {
  return tool == StackTool::py_spy ? add_py_spy(view, pid, text) : add_native(view, tool, pid, text);
}

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
