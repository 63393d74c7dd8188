#include "status/module_answer.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "status/flight_record.hpp"
#include "status/json_values.hpp"

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

namespace {

using Frames = std::vector<Frame>;

constexpr int k_most_joins = 8;

// Files of torch whose functions wait for other ranks.
constexpr std::array<std::string_view, 4> k_waiting_files{
    "/torch/distributed/distributed_c10d.py", "/torch/distributed/rendezvous.py",
    "/torch/distributed/elastic/utils/store.py", "/torch/distributed/rpc/api.py"};
// Files of Python in which one thread waits for another.
constexpr std::array<std::string_view, 4> k_threads_wait{
    "/threading.py", "/queue.py", "/concurrent/futures/_base.py", "/multiprocessing/pool.py"};

template <std::size_t Count>
bool is_of(const Frame& frame, const std::array<std::string_view, Count>& files) {
  return std::ranges::any_of(files, [&](std::string_view file) { return frame.file.ends_with(file); });
}

bool is_installed(const std::string& file) {
  return file.find("/site-packages/") != std::string::npos ||
         file.find("/dist-packages/") != std::string::npos || file.find("/lib/python") != std::string::npos ||
         file.starts_with("<frozen");
}

// Returns the number of calls further in than the innermost one of the user's own code; all if none is.
std::size_t calls_within(const Frames& stack) {
  return static_cast<std::size_t>(std::ranges::find_if(stack, is_own) - stack.begin());
}

// Returns the outermost of those calls that is torch's and waits.
std::string waiting_function(const Frames& stack) {
  for (std::size_t i = calls_within(stack); i-- > 0;) {
    if (is_of(stack[i], k_waiting_files)) return stack[i].function;
  }
  return {};
}

bool waits_for_ranks(const PythonThread& thread) {
  return !thread.store_call.empty() || !waiting_function(thread.stack).empty();
}

using Threads = std::vector<PythonThread>;

Threads::const_iterator choose(const Threads& threads) {
  auto chosen = std::ranges::find_if(threads, &PythonThread::main);
  if (chosen == threads.end() || waits_for_ranks(*chosen)) return chosen;
  for (int step = 0; step < k_most_joins && chosen->joins != 0; ++step) {
    const auto joined = std::ranges::find(threads, chosen->joins, &PythonThread::id);
    if (joined == threads.end()) break;
    chosen = joined;
  }
  if (waits_for_ranks(*chosen) || chosen->stack.empty() || !is_of(chosen->stack.front(), k_threads_wait))
    return chosen;
  const auto waiting = std::ranges::find_if(threads, waits_for_ranks);
  return waiting == threads.end() ? chosen : waiting;
}

// Without what started the thread, outside the user's own code.
Frames own_part(const Frames& stack) {
  const auto outermost = std::find_if(stack.rbegin(), stack.rend(), is_own).base();
  const auto length = std::min<std::ptrdiff_t>(outermost - stack.begin(), k_most_other_frames);
  return {stack.begin(), stack.begin() + length};
}

}  // namespace

bool is_own(const Frame& frame) { return !is_installed(frame.file); }

void set_threads(RankView& view, std::vector<PythonThread> threads) {
  const auto chosen = choose(threads);
  if (chosen == threads.end()) return;
  view.thread = chosen->main ? std::string() : chosen->name;
  view.store_call = chosen->store_call;
  view.others.clear();
  const auto add = [&](const PythonThread& thread) {
    Frames stack = own_part(thread.stack);
    if (&thread == &*chosen || stack.empty() || view.others.size() == k_most_other_threads) return;
    view.others.push_back({thread.main ? "MainThread" : thread.name, std::move(stack)});
  };
  for (const bool main : {true, false}) {
    for (const PythonThread& thread : threads) {
      if (thread.main == main) add(thread);
    }
  }
  view.stack = chosen->stack;
}

const Frame* own_frame(const RankView& view) {
  const std::size_t at = calls_within(view.stack);
  if (at < view.stack.size()) return &view.stack[at];
  return view.stack.empty() ? nullptr : &view.stack.front();
}

std::string waiting_call(const RankView& view) {
  return view.store_call.empty() ? waiting_function(view.stack) : "store." + view.store_call;
}

bool at_prompt(const RankView& view) {
  const std::size_t within = calls_within(view.stack);
  return within < view.stack.size() &&
         std::any_of(view.stack.begin(), view.stack.begin() + static_cast<std::ptrdiff_t>(within),
                     [](const Frame& frame) {
                       return frame.file.ends_with("/pdb.py") || frame.file.ends_with("/bdb.py");
                     });
}

}  // namespace ddprun::status
