#include "status/python_threads.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace ddprun::status {

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
