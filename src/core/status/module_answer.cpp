#include "status/module_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "status/flight_record.hpp"
#include "status/json_values.hpp"
#include "status/python_threads.hpp"

namespace ddprun::status {

namespace {

using Json = nlohmann::json;

// Returns "ValueError: bad loss (train.py:31)".
std::string exception_in(const Json& thread) {
  const auto found = thread.find("exception");
  if (found == thread.end() || !found->is_object()) return {};
  std::string text = text_in(*found, "type");
  if (const std::string message = text_in(*found, "message"); !message.empty()) text += ": " + message;
  if (const std::string file = text_in(*found, "file"); !file.empty())
    text += fmt::format(" ({}:{})", file.substr(file.rfind('/') + 1), number_in(*found, "line"));
  return text;
}

std::vector<Frame> stack_in(const Json& thread, std::size_t most = k_most_frames) {
  return frames_in(thread, "stack", "file", "function", most);
}

// Returns the threads of an answer; nullopt for any other JSON.
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

// The ranks of the group in which the rank waits, where one of the answer has its name.
void add_members(RankView& view, const Json& json) {
  if (!view.collective) return;
  std::vector<std::string> found;
  for (const Json& group : list_in(json, "groups")) {
    if (group.is_object() &&
        name_of_group(text_in(group, "name"), text_in(group, "description")) == view.collective->group)
      found.push_back(text_in(group, "ranks"));
  }
  if (found.size() == 1) view.collective->members = found.front();
}

}  // namespace

bool add_module_answer(RankView& view, std::string_view text) {
  const Json json = read_json_text(text);
  const auto threads = threads_in(json);
  if (!threads) return false;
  view.threads.clear();
  std::vector<PythonThread> seen;
  for (const Json& thread : *threads) {
    const bool main = is_main_of(json, thread);
    seen.push_back({text_in(thread, "name"), stack_in(thread), main, number_in(thread, "id"),
                    number_in(thread, "joins"), text_in(thread, "store_call")});
    view.threads += describe_thread(seen.back().name, main, seen.back().stack);
    if (main) view.raised = exception_in(thread);
  }
  set_threads(view, std::move(seen));
  add_members(view, json);
  if (view.threads.size() > k_most_threads_text) view.threads.resize(k_most_threads_text);
  view.ending = view.ending || flag_in(json, "script_ended") || flag_in(json, "finalizing");
  return true;
}

std::string render_threads(std::string_view text) {
  const Json json = read_json_text(text);
  std::string all;
  for (const Json& thread : threads_in(json).value_or(std::vector<Json>())) {
    all += describe_thread(text_in(thread, "name"), is_main_of(json, thread), stack_in(thread, SIZE_MAX));
    if (const std::string raised = exception_in(thread); !raised.empty()) all += "  raised " + raised + "\n";
  }
  return all;
}

}  // namespace ddprun::status
