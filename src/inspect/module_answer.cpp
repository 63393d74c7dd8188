#include "inspect/module_answer.hpp"

#include <fmt/format.h>

#include <string>

#include "base/json_text.hpp"
#include "inspect/json_values.hpp"

namespace ddprun::inspect {

namespace {

using Json = nlohmann::json;

std::vector<Frame> frames_in(const Json& thread) {
  std::vector<Frame> frames;
  const auto stack = thread.find("stack");
  if (stack == thread.end() || !stack->is_array()) return frames;
  for (const Json& each : *stack) {
    if (!each.is_object() || frames.size() == k_most_frames) break;
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

void add_thread(RankView& view, const Json& thread, bool is_main) {
  std::vector<Frame> frames = frames_in(thread);
  view.threads += fmt::format("thread {}{}:\n", text_in(thread, "name"), is_main ? " (main)" : "");
  for (const Frame& frame : frames)
    view.threads += fmt::format("  {}:{} in {}\n", frame.file, frame.line, frame.function);
  if (!is_main) return;
  view.stack = std::move(frames);
  view.raised = exception_in(thread);
}

}  // namespace

bool add_module_answer(RankView& view, std::string_view text) {
  const Json json = read_json_text(text);
  if (!json.is_object()) return false;
  const auto threads = json.find("threads");
  if (threads == json.end() || !threads->is_array()) return false;
  view.threads.clear();
  for (const Json& thread : *threads) {
    if (thread.is_object())
      add_thread(view, thread, number_in(thread, "id") == number_in(json, "main_thread"));
  }
  if (view.threads.size() > k_most_threads_text) view.threads.resize(k_most_threads_text);
  view.ending = view.ending || flag_in(json, "script_ended") || flag_in(json, "finalizing");
  return true;
}

}  // namespace ddprun::inspect
