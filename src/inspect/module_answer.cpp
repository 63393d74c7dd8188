#include "inspect/module_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "inspect/json_values.hpp"

namespace ddprun::inspect {

namespace {

using Json = nlohmann::json;

std::vector<Frame> frames_in(const Json& thread, std::size_t most = k_most_frames) {
  std::vector<Frame> frames;
  const auto stack = thread.find("stack");
  if (stack == thread.end() || !stack->is_array()) return frames;
  for (const Json& each : *stack) {
    if (!each.is_object() || frames.size() == most) break;
    frames.push_back({text_in(each, "file"), number_in<int>(each, "line"), text_in(each, "function")});
  }
  return frames;
}

// "ValueError: bad loss (train.py:31)"
std::string exception_in(const Json& thread) {
  const auto found = thread.find("exception");
  if (found == thread.end() || !found->is_object()) return {};
  std::string text = text_in(*found, "type");
  if (const std::string message = text_in(*found, "message"); !message.empty()) text += ": " + message;
  if (const std::string file = text_in(*found, "file"); !file.empty())
    text += fmt::format(" ({}:{})", file.substr(file.rfind('/') + 1), number_in(*found, "line"));
  return text;
}

std::string thread_text(const Json& thread, bool is_main, std::size_t most = k_most_frames) {
  std::string text = fmt::format("thread {}{}:\n", text_in(thread, "name"), is_main ? " (main)" : "");
  for (const Frame& frame : frames_in(thread, most))
    text += fmt::format("  {}:{} in {}\n", frame.file, frame.line, frame.function);
  return text;
}

void add_thread(RankView& view, const Json& thread, bool is_main) {
  view.threads += thread_text(thread, is_main);
  if (!is_main) return;
  view.stack = frames_in(thread);
  view.raised = exception_in(thread);
}

// The threads of an answer; nothing in what is none.
std::optional<std::vector<Json>> threads_in(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto threads = json.find("threads");
  if (threads == json.end() || !threads->is_array()) return std::nullopt;
  std::vector<Json> found;
  std::ranges::copy_if(*threads, std::back_inserter(found),
                       [](const Json& each) { return each.is_object(); });
  return found;
}

bool is_main_of(const Json& json, const Json& thread) {
  return number_in(thread, "id") == number_in(json, "main_thread");
}

}  // namespace

bool add_module_answer(RankView& view, std::string_view text) {
  const Json json = read_json_text(text);
  const auto threads = threads_in(json);
  if (!threads) return false;
  view.threads.clear();
  for (const Json& thread : *threads) add_thread(view, thread, is_main_of(json, thread));
  if (view.threads.size() > k_most_threads_text) view.threads.resize(k_most_threads_text);
  view.ending = view.ending || flag_in(json, "script_ended") || flag_in(json, "finalizing");
  return true;
}

std::string render_threads(std::string_view text) {
  const Json json = read_json_text(text);
  std::string all;
  for (const Json& thread : threads_in(json).value_or(std::vector<Json>())) {
    all += thread_text(thread, is_main_of(json, thread), std::numeric_limits<std::size_t>::max());
    if (const std::string raised = exception_in(thread); !raised.empty()) all += "  raised " + raised + "\n";
  }
  return all;
}

}  // namespace ddprun::inspect
