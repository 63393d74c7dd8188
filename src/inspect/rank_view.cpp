#include "inspect/rank_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace ddprun::inspect {

namespace {

void describe_collective(OrderedFields& fields, Collective& collective) {
  fields.value("operation", collective.operation);
  fields.value("group", collective.group);
  fields.value("sequence", collective.sequence);
  fields.optional("sizes", collective.sizes);
  fields.value("pending", collective.pending);
  fields.seconds("age_seconds", collective.age);
}

void describe_frame(OrderedFields& fields, Frame& frame) {
  fields.value("file", frame.file);
  fields.value("line", frame.line);
  fields.value("function", frame.function);
}

bool is_installed(const std::string& file) {
  return file.find("/site-packages/") != std::string::npos ||
         file.find("/dist-packages/") != std::string::npos || file.find("/lib/python") != std::string::npos ||
         file.starts_with("<frozen");
}

bool is_default(const std::string& group) { return group.empty() || group == "default_pg" || group == "0"; }

}  // namespace

std::string describe(const Collective& collective) {
  std::string text = fmt::format("{} #{}", printable(collective.operation, 64), collective.sequence);
  if (!is_default(collective.group)) text += " of group " + printable(collective.group, 64);
  if (!collective.sizes.empty()) text += " (" + printable(collective.sizes, 80) + ")";
  return text;
}

std::string describe(const Frame& frame) {
  const std::string name = frame.file.substr(frame.file.rfind('/') + 1);
  const std::string in =
      frame.function.empty() || frame.function == "<module>" ? "" : " in " + frame.function;
  return printable(fmt::format("{}:{}{}", name, frame.line, in), 160);
}

void describe_view(OrderedFields& fields, RankView& view) {
  fields.optional("answers", view.answers);
  fields.optional("collective", view.collective, describe_collective);
  fields.optional("stack", view.stack, k_most_frames, describe_frame);
  fields.optional("raised", view.raised);
  fields.optional("ending", view.ending);
  fields.optional("process", view.process);
  fields.optional("no_stack_because", view.unseen);
  fields.optional("threads", view.threads);
}

const Frame* own_frame(const RankView& view) {
  const auto own =
      std::ranges::find_if(view.stack, [](const Frame& frame) { return !is_installed(frame.file); });
  if (own != view.stack.end()) return &*own;
  return view.stack.empty() ? nullptr : &view.stack.front();
}

std::string describe_place(const RankView& view) {
  std::vector<std::string> parts;
  if (!view.raised.empty()) parts.push_back("has raised " + printable(view.raised, 240));
  if (view.ending) parts.emplace_back("has run its script to the end, and its process does not exit");
  const bool waits = view.collective && view.collective->pending;
  if (waits) parts.push_back("waits in " + describe(*view.collective));
  const Frame* const at = own_frame(view);
  if (at != nullptr) {
    const Frame& innermost = view.stack.front();
    const std::string inside = *at == innermost || waits ? "" : " (" + describe(innermost) + ")";
    const std::string where = "at " + describe(*at) + inside;
    waits ? parts.back() += " " + where : (parts.push_back("is " + where), parts.back());
  }
  const std::string unseen = at == nullptr && !view.ending ? printable(view.unseen, 160) : "";
  if (!view.process.empty())
    parts.push_back("is " + printable(view.process, 160) +
                    (unseen.empty() ? "" : " (no Python stack: " + unseen + ")"));
  else if (!unseen.empty())
    parts.push_back("shows no Python stack: " + unseen);
  if (!waits && view.collective) parts.push_back("last collective: " + describe(*view.collective));
  return parts.empty() ? "shows nothing of where it is" : join(parts, ", ");
}

}  // namespace ddprun::inspect
