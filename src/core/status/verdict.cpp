#include "status/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::status {

namespace {

constexpr std::size_t k_most_groups = 12, k_most_calls = 14;  // with them a report shows all of it
constexpr std::size_t k_most_lines = 29;                      // number that a report shows

std::string verb(const RankGroup& group, std::string place) {
  if (group.ranks.size() == 1) return place;
  for (const auto& [one, several] : {std::pair("waits ", "wait "), std::pair("is ", "are "),
                                     std::pair("has ", "have "), std::pair("shows ", "show ")}) {
    if (place.starts_with(one)) return several + place.substr(std::string_view(one).size());
  }
  return place;
}

std::string line_of(const RankGroup& group) { return name_of(group) + " " + verb(group, group.place); }

std::string native_stack_of(const RankGroup& group) {
  const std::vector<status::NativeCall>& calls = group.first->view.calls;
  if (calls.empty()) return {};
  std::string text = fmt::format("native stack of rank {}, innermost call first:\n", group.first->rank);
  for (const status::NativeCall& call : std::span(calls).first(std::min(calls.size(), k_most_calls)))
    text += "  " + status::describe(call) + "\n";
  return text;
}

std::string frames_of(const std::vector<status::Frame>& stack, std::size_t most) {
  std::string text;
  for (const status::Frame& frame : std::span(stack).first(std::min(stack.size(), most)))
    text += fmt::format("  {}:{} in {}\n", printable(frame.file, 300), frame.line,
                        printable(frame.function, 120));
  return text;
}

std::string stack_of(const RankGroup& group) {
  const status::RankView& view = group.first->view;
  if (view.stack.empty()) return native_stack_of(group);
  const std::string thread = view.thread.empty() ? "" : ", thread " + printable(view.thread, 64);
  return fmt::format("stack of rank {}{}, innermost call first:\n", group.first->rank, thread) +
         frames_of(view.stack, k_most_calls);
}

// The other threads of the user's own, as far as the report has room for them.
std::string other_stacks_of(const RankGroup& group, std::size_t lines) {
  std::string text;
  for (const status::Thread& thread : group.first->view.others) {
    if (lines + 2 > k_most_lines) break;
    const std::string frames = frames_of(thread.stack, k_most_lines - lines - 1);
    text += fmt::format("its thread {}:\n", printable(thread.name, 64)) + frames;
    lines += 1 + static_cast<std::size_t>(std::ranges::count(frames, '\n'));
  }
  return text;
}

std::string places_of(const std::vector<RankGroup>& groups, const RankGroup& blamed, const JobStatus& job) {
  std::string text;
  for (std::size_t i = 0; i < groups.size() && i < k_most_groups; ++i) text += line_of(groups[i]) + "\n";
  if (groups.size() > k_most_groups) text += fmt::format("{} more places\n", groups.size() - k_most_groups);
  if (!job.silent.empty()) text += "no answer from " + printable(join(job.silent, ", "), 400) + "\n";
  text += stack_of(blamed);
  return text + other_stacks_of(blamed, static_cast<std::size_t>(std::ranges::count(text, '\n')));
}

// All are there, in the same call.
std::string hint_for_waiting(const WorkerStatus& worker) {
  const bool recorded = worker.view.collective && worker.view.collective->pending;
  const std::string call = recorded ? "" : status::waiting_call(worker.view);
  if (call == "init_process_group")
    return "every rank waits for more ranks: leave out world_size= and rank=, which ddprun sets in the "
           "environment, or the backend's network does not connect them";
  if (call.starts_with("store."))
    return "no rank sets the key that all wait for; a rank that waits for it cannot set it";
  return "no rank is missing: the network or the backend does not deliver; NCCL_DEBUG=INFO shows NCCL's "
         "connections";
}

// Python's main thread waits for the threads that are no daemons before it exits.
bool waits_for_thread(const status::RankView& view) {
  const bool shows_it = !view.thread.empty();  // instead of the main thread, which waits for it
  return shows_it || std::ranges::any_of(view.stack, [](const status::Frame& frame) {
           return frame.function == "_shutdown" && frame.file.ends_with("threading.py");
         });
}

bool is_stopped(Blame blame, const WorkerStatus& worker) {
  return (blame == Blame::elsewhere || blame == Blame::behind) && worker.view.process.starts_with("stopped");
}

std::string hint_for(Blame blame, const WorkerStatus& worker, const std::string& host) {
  switch (blame) {
    case Blame::raised:
      return "the exception cannot leave the script: a `finally` or `with` on its way waits for the other "
             "ranks; call barrier() and destroy_process_group() where no exception is pending";
    case Blame::ended:
      return "all ranks must make the same collective calls; a rank with fewer batches ends early "
             "(drop_last=True, or torch.distributed.algorithms.Join)";
    case Blame::ending:
      if (waits_for_thread(worker.view))
        return "Python waits for a thread of the script that has not ended (--stacks shows it): start it "
               "with "
               "daemon=True, or end it and join() it at the end of the script";
      return "the interpreter hangs while it exits; call dist.destroy_process_group() at the end of the "
             "script";
    case Blame::mismatched:
      return "all ranks must call the same collectives, in the same order and with the same sizes";
    case Blame::crossed:
      return "the ranks use these process groups in different orders, so that each waits for the other; all "
             "ranks must use the groups that they share in the same order";
    case Blame::prompt:
      return "it waits for input: answer it (c continues), or remove breakpoint() from the script; "
             "torch.distributed.breakpoint() stops one rank and lets the others wait";
    case Blame::waiting:
      return hint_for_waiting(worker);
    case Blame::elsewhere:
    case Blame::behind:
      break;
  }
  if (is_stopped(blame, worker))
    return fmt::format("kill -CONT {} on {} continues it", worker.pid, printable(host, 128));
  return "its stack shows what it is waiting for";
}

}  // namespace

std::optional<Verdict> make_verdict(const JobStatus& job, const std::string& why) {
  const std::vector<RankGroup> groups = group_ranks(job);
  if (groups.empty()) return std::nullopt;
  // A rank that has ended does not hang: the ranks that wait for it do.
  const RankGroup& blamed = groups.front().blame == Blame::ended ? groups.back() : groups.front();
  const RankGroup& others = &blamed == &groups.front() ? groups.back() : groups.front();
  Verdict verdict{blamed.first->rank,
                  blamed.first->local_rank,
                  blamed.host,
                  blamed.first->pid,
                  blamed.first->gpu,
                  {},
                  places_of(groups, blamed, job),
                  hint_for(groups.front().blame, *blamed.first, blamed.host),
                  {}};
  verdict.hint_after =
      is_stopped(groups.front().blame, *blamed.first)
          ? "a signal had stopped it (SIGSTOP or SIGTSTP, from kill, a debugger or the scheduler)"
          : verdict.hint;
  const bool one = blamed.ranks.size() == 1;
  verdict.reason =
      one ? "it " + blamed.place : fmt::format("{} {}", name_of(blamed), verb(blamed, blamed.place));
  if (groups.size() > 1) {
    verdict.reason += fmt::format(", while {} {}", name_of(others), verb(others, others.place));
  }
  verdict.reason += "; " + why;
  return verdict;
}

std::string describe(const Verdict& verdict) {
  return fmt::format("rank {} on {} hangs: {}", verdict.rank, verdict.host, verdict.reason);
}

std::optional<EarlyExitNotice> describe_early_exit(const JobStatus& job, const std::string& why) {
  std::vector<RankGroup> groups = group_ranks(job);
  std::erase_if(groups, [](const RankGroup& group) { return group.blame == Blame::ended; });
  if (groups.empty()) return std::nullopt;
  std::size_t running = 0;
  for (const RankGroup& group : groups) running += group.ranks.size();
  const RankGroup& shown = groups.front().blame == Blame::ending ? groups.front() : groups.back();
  return EarlyExitNotice{
      fmt::format("{}, and {} still running: {}", why,
                  running == 1 ? "1 rank is" : fmt::format("{} ranks are", running),
                  name_of(shown) + " " + verb(shown, shown.place)),
      hint_for(shown.blame == Blame::ending ? shown.blame : Blame::ended, *shown.first, shown.host)};
}

std::string render_stacks(const JobStatus& job) { return render_heading(job) + render_ranks(job); }

std::string render_ranks(const JobStatus& job) {
  std::string text;
  for (const RankGroup& group : group_ranks(job)) {
    text += "\n" + line_of(group) + "\n";
    std::string threads = group.first->view.threads;
    if (threads.empty()) continue;
    if (group.ranks.size() > 1)
      text += fmt::format("  threads of rank {} on {}:\n", group.first->rank, printable(group.host, 128));
    for (const std::string& line : split(trim(threads), '\n')) text += "  " + printable(line, 400) + "\n";
  }
  if (!job.silent.empty())
    text += fmt::format("\nno answer from {}\n", printable(join(job.silent, ", "), 4096));
  if (!job.coordinator.empty())
    text += fmt::format("\nonly the ranks of this node: the coordinator on {} has not answered\n",
                        printable(job.coordinator, 128));
  return text;
}

namespace {

using status::Collective;

// Place that most ranks wait in: a collective that torch records, or another call.
struct Common {
  int count = 0;
  const Collective* collective = nullptr;
  std::string call{};
};

bool is_pending(const WorkerStatus& worker) {
  return worker.view.collective && worker.view.collective->pending;
}

Common find_common(const JobStatus& job) {
  std::map<std::string, Common> counted;
  for_each_worker(job, [&](const NodeStatus&, const WorkerStatus& worker) {
    const bool recorded = is_pending(worker);
    const std::string call =
        recorded ? status::describe(*worker.view.collective) : status::waiting_call(worker.view);
    if (call.empty()) return;
    Common& found = counted[call];
    ++found.count;
    if (recorded) found.collective = &*worker.view.collective;
    found.call = call;
  });
  const auto order = [](const auto& each) {
    return std::pair(each.second.count, each.second.collective != nullptr);
  };
  const auto most = std::ranges::max_element(counted, {}, order);
  return most == counted.end() ? Common{} : most->second;
}

Blame blame_of(const WorkerStatus& worker, const Common& common, const std::set<int>& crossed) {
  const status::RankView& view = worker.view;
  if (worker.pid == 0) return Blame::ended;
  if (!view.raised.empty()) return Blame::raised;
  if (view.ending) return Blame::ending;
  if (view.process.starts_with("stopped") || view.process.starts_with("traced")) return Blame::elsewhere;
  if (!is_pending(worker)) {
    if (status::at_prompt(view)) return Blame::prompt;
    const std::string call = status::waiting_call(view);
    if (!call.empty()) return call == common.call ? Blame::waiting : Blame::mismatched;
    if (!view.collective && view.nccl) return view.nccl->behind > 0 ? Blame::behind : Blame::waiting;
    return Blame::elsewhere;
  }
  if (crossed.contains(worker.rank)) return Blame::crossed;
  if (common.collective == nullptr) return Blame::mismatched;
  const Collective& own = *view.collective;
  if (own.group != common.collective->group || own.sequence > common.collective->sequence)
    return Blame::waiting;
  if (own.sequence < common.collective->sequence) return Blame::behind;
  const bool same = own.operation == common.collective->operation && own.sizes == common.collective->sizes;
  return same ? Blame::waiting : Blame::mismatched;
}

std::string place_of(const WorkerStatus& worker) {
  if (worker.pid != 0) return status::describe_place(worker.view);
  return worker.exit_code ? fmt::format("has exited with code {}", *worker.exit_code) : "has ended";
}

}  // namespace

std::vector<RankGroup> group_ranks(const JobStatus& job) {
  const Common common = find_common(job);
  const std::set<int> crossed = find_crossed(job);
  std::map<std::pair<Blame, std::string>, RankGroup> found;
  for_each_worker(job, [&](const NodeStatus& node, const WorkerStatus& worker) {
    const Blame blame = blame_of(worker, common, crossed);
    std::string place = place_of(worker);
    RankGroup& group = found[{blame, place}];
    if (group.first == nullptr || worker.rank < group.first->rank) {
      group.first = &worker;
      group.host = node.host;
    }
    group.blame = blame;
    group.ranks.push_back(worker.rank);
    group.place = std::move(place);
  });
  std::vector<RankGroup> groups;
  for (auto& [key, group] : found) {
    std::ranges::sort(group.ranks);
    groups.push_back(std::move(group));
  }
  std::ranges::sort(groups, {}, [](const RankGroup& group) {
    return std::tuple(group.blame, group.ranks.size(), group.ranks.front());
  });
  return groups;
}

std::string name_of(const RankGroup& group) {
  const std::string host = group.host.empty() ? "" : " on " + printable(group.host, 128);
  if (group.ranks.size() == 1) return fmt::format("rank {}{}", group.ranks.front(), host);
  return "ranks " + facts::render_cpu_list(group.ranks);
}

namespace {

// The ranks that wait in one collective: each of them for the same others.
struct Waiting {
  std::string group;
  bool all = false;       // every rank is in the group
  std::set<int> members;  // else these
  std::set<int> ranks{};
  std::set<std::size_t> waits_for{};  // further ones, by number
};

std::vector<Waiting> find_waiting(const JobStatus& job) {
  std::map<std::string, Waiting> found;
  for_each_worker(job, [&](const NodeStatus&, const WorkerStatus& worker) {
    const auto& collective = worker.view.collective;
    if (worker.pid == 0 || !collective || !collective->pending) return;
    // Two groups may have one name: what they are is who is in them.
    const std::string group = collective->group + " " + collective->members;
    Waiting& waiting = found[status::describe(*collective) + group];
    waiting.ranks.insert(worker.rank);
    waiting.group = group;
    waiting.all = status::is_default_group(collective->group);
    if (const auto members = facts::parse_cpu_list(collective->members); members && waiting.members.empty())
      waiting.members = std::set<int>(members->begin(), members->end());
  });
  std::vector<Waiting> all;
  for (auto& [name, waiting] : found) all.push_back(std::move(waiting));
  return all;
}

bool waits_for(const Waiting& one, const Waiting& other) {
  if (one.group == other.group) return false;
  return one.all || std::ranges::any_of(other.ranks, [&](int rank) { return one.members.contains(rank); });
}

bool reaches(const std::vector<Waiting>& all, std::size_t from, std::size_t goal) {
  std::set<std::size_t> seen;
  std::vector<std::size_t> next{from};
  while (!next.empty()) {
    const std::size_t at = next.back();
    next.pop_back();
    for (const std::size_t further : all[at].waits_for) {
      if (further == goal) return true;
      if (seen.insert(further).second) next.push_back(further);
    }
  }
  return false;
}

}  // namespace

std::set<int> find_crossed(const JobStatus& job) {
  constexpr std::size_t k_most = 256;  // collectives that are looked at
  std::vector<Waiting> all = find_waiting(job);
  all.resize(std::min(all.size(), k_most));
  for (Waiting& one : all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (waits_for(one, all[i])) one.waits_for.insert(i);
    }
  }
  std::set<int> crossed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (reaches(all, i, i)) crossed.insert(all[i].ranks.begin(), all[i].ranks.end());
  }
  return crossed;
}

}  // namespace ddprun::status
