#include "status/rank_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace ddprun::status {

namespace {

void describe_counts(OrderedFields& fields, NcclCounts& counts) {
  fields.value("started", counts.started);
  fields.value("behind", counts.behind);
}

void describe_frame(OrderedFields& fields, Frame& frame) {
  fields.value("file", frame.file);
  fields.value("line", frame.line);
  fields.value("function", frame.function);
}

void describe_thread_of(OrderedFields& fields, Thread& thread) {
  fields.value("name", thread.name);
  fields.value("stack", thread.stack, k_most_other_frames, describe_frame);
}

void describe_call(OrderedFields& fields, NativeCall& call) {
  fields.value("function", call.function);
  fields.optional("from", call.from);
}

// Reports whether the call is in the C library, or has one of the system's own names.
bool is_system(const NativeCall& call) {
  return call.function.starts_with("__") || call.from.starts_with("libc.") ||
         call.from.starts_with("libc-") || call.from.starts_with("libpthread") ||
         call.from.starts_with("ld-");
}

// Returns "sleep" for "__sleep", "nanosleep" for "__GI___nanosleep".
std::string public_name(const NativeCall& call) {
  std::string_view name = call.function;
  if (name.starts_with("__GI_")) name.remove_prefix(5);
  name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
  return name.empty() || !call.function.starts_with("__") ? call.function : std::string(name);
}

// Reports whether a call runs before main(), or before the first function of a thread.
bool is_start(const NativeCall& call) {
  const std::string name = public_name(call);
  return name == "_start" || name.starts_with("libc_start_") || name == "start_thread" || name == "clone" ||
         name == "clone3";
}

// Describes the function of the system that was called, and by whom: "in sleep, called by load, main".
std::string describe_calls(const std::vector<NativeCall>& calls) {
  constexpr std::size_t k_callers = 3;
  const auto start = std::ranges::find_if(calls, is_start);
  auto outer = std::find_if_not(calls.begin(), start, is_system);
  if (outer == calls.begin()) ++outer;
  std::vector<std::string> callers;
  for (auto caller = outer; caller < start && callers.size() < k_callers; ++caller)
    callers.push_back(printable(caller->function, 80));
  const std::string in = "in " + printable(public_name(*std::prev(outer)), 80);
  return callers.empty() ? in : in + ", called by " + join(callers, ", ");
}

// Describes where a rank without a Python stack is. If it runs, the calls are those of one moment.
std::string describe_process(const RankView& view) {
  if (view.calls.empty()) return printable(view.process, 160);
  return (view.process == "running" ? "running " : "") + describe_calls(view.calls);
}

// "train.py:88 in step", and further in where that says more.
std::string describe_stack(const RankView& view, const Frame& at, bool waits) {
  const Frame& innermost = view.stack.front();
  std::string where = "at " + describe(at);
  if (!view.thread.empty()) where += " of thread " + printable(view.thread, 64);
  if (at == innermost || waits) return where;
  return where + " (" + describe(innermost) + ")";
}

}  // namespace

void describe_collective(OrderedFields& fields, Collective& collective) {
  fields.value("operation", collective.operation);
  fields.value("group", collective.group);
  fields.value("sequence", collective.sequence);
  fields.optional("sizes", collective.sizes);
  fields.value("pending", collective.pending);
  fields.seconds("age_seconds", collective.age);
  fields.optional("ranks", collective.members);
}

bool is_default_group(const std::string& group) {
  return group.empty() || group == "default_pg" || group == "0";
}

std::string describe(const Collective& collective) {
  std::string text = fmt::format("{} #{}", printable(collective.operation, 64), collective.sequence);
  if (!is_default_group(collective.group)) text += " of group " + printable(collective.group, 64);
  if (!collective.sizes.empty()) text += " (" + printable(collective.sizes, 80) + ")";
  return text;
}

std::string describe(const NcclCounts& counts) {
  const std::string behind =
      counts.behind > 0 ? fmt::format(", {} fewer than another rank", counts.behind) : "";
  return fmt::format("{} NCCL collectives started{}", counts.started, behind);
}

std::string describe(const Frame& frame) {
  const std::string name = frame.file.substr(frame.file.rfind('/') + 1);
  const std::string in =
      frame.function.empty() || frame.function == "<module>" ? "" : " in " + frame.function;
  return printable(fmt::format("{}:{}{}", name, frame.line, in), 160);
}

std::string describe(const NativeCall& call) {
  const std::string name = call.function.empty() ? "??" : printable(call.function, 160);
  return call.from.empty() ? name : name + " (" + printable(call.from, 80) + ")";
}

void describe_view(OrderedFields& fields, RankView& view) {
  fields.optional("answers", view.answers);
  fields.optional("collective", view.collective, describe_collective);
  fields.optional("nccl", view.nccl, describe_counts);
  fields.optional("stack", view.stack, k_most_frames, describe_frame);
  fields.optional("thread", view.thread);
  fields.optional("other_threads", view.others, k_most_other_threads, describe_thread_of);
  fields.optional("store_call", view.store_call);
  fields.optional("native_stack", view.calls, k_most_frames, describe_call);
  fields.optional("raised", view.raised);
  fields.optional("ending", view.ending);
  fields.optional("process", view.process);
  fields.optional("no_stack_because", view.unseen);
  fields.optional("threads", view.threads);
}

std::string describe_place(const RankView& view) {
  std::vector<std::string> parts;
  if (!view.raised.empty()) parts.push_back("has raised " + printable(view.raised, 240));
  if (view.ending) parts.emplace_back("has run its script to the end, and its process does not exit");
  const bool waits = view.collective && view.collective->pending;
  const std::string call = waits ? describe(*view.collective) : printable(waiting_call(view), 64);
  if (!call.empty()) parts.push_back("waits in " + call);
  const Frame* const at = own_frame(view);
  if (at != nullptr) {
    const bool prompt = call.empty() && at_prompt(view);
    const std::string where =
        (prompt ? "at a (Pdb) prompt " : "") + describe_stack(view, *at, prompt || !call.empty());
    call.empty() ? parts.push_back("is " + where) : void(parts.back() += " " + where);
  }
  const std::string unseen = at == nullptr && !view.ending ? printable(view.unseen, 160) : "";
  if (!view.process.empty() || !view.calls.empty())
    parts.push_back("is " + describe_process(view) +
                    (unseen.empty() ? "" : " (no Python stack: " + unseen + ")"));
  else if (!unseen.empty())
    parts.push_back("shows no Python stack: " + unseen);
  if (view.nccl) parts.push_back(describe(*view.nccl));
  if (!waits && view.collective) parts.push_back("last collective: " + describe(*view.collective));
  return parts.empty() ? "shows no stack and no collective" : join(parts, ", ");
}

}  // namespace ddprun::status
