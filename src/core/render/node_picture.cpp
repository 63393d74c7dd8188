// draw_node_text: one symbol a core, one row a NUMA node, one line a rank.
#include "render/node_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/placement_parts.hpp"
#include "render/node_words.hpp"
#include "render/text_table.hpp"

namespace ddprun::render {

namespace {

using Cell = CellTable::Cell;

constexpr std::size_t k_columns = 98;  // the plan as text indents the picture by two
constexpr std::size_t k_indent = 2;
constexpr std::size_t k_gap = 2;  // between columns
constexpr std::size_t k_list_columns = 24;
constexpr std::size_t k_core_columns = 48;
constexpr std::size_t k_device_columns = 30;  // one device: "[0123] GPU 15 0000:c1:00.0"
constexpr const char* k_core_heading = "held by";
constexpr std::size_t k_memory_columns = 18;

struct Widths {
  std::size_t cores = 0;
  std::size_t devices = 0;
  bool numbers = false;  // shows local ranks as numbers, instead of symbols
};

std::string core_text(const CoreLine& line) {
  std::string text;
  for (const CoreGroup& group : line) {
    if (!text.empty()) text += ' ';
    for (const CoreMark& core : group) text += symbol_of(core.holder);
  }
  return text;
}

// Returns "7" for a core, "8..8" for several with the same holder, "...." for as many that are spare.
std::vector<std::string> run_texts(const CoreGroup& group) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < group.size();) {
    std::size_t end = i;
    while (end < group.size() && group[end].holder == group[i].holder) ++end;
    const std::string mark = mark_of(group[i].holder, true);
    const bool worker = group[i].holder.kind == CpuHolder::Kind::worker;
    runs.push_back(!worker ? std::string(end - i, mark.front()) : end - i == 1 ? mark : mark + ".." + mark);
    i = end;
  }
  return runs;
}

// Makes a cell, with two blanks between cores that share a cache and the next.
Cell run_cell(const std::vector<CoreGroup>& groups, std::size_t columns) {
  Cell lines(1);
  for (const CoreGroup& group : groups) {
    std::string gap = "  ";
    for (const std::string& run : run_texts(group)) {
      if (!lines.back().empty() && lines.back().size() + gap.size() + run.size() > columns)
        lines.emplace_back();
      lines.back() += (lines.back().empty() ? "" : gap) + run.substr(0, columns);
      gap = " ";
    }
  }
  return lines;
}

Cell list_cell(const NodeLayout& layout, const NodeBox& box) {
  return break_list(core_list(layout, box), k_list_columns);
}

Cell core_cell(const NodeBox& box, std::size_t columns, bool numbers) {
  if (box.groups.empty())
    return {"memory only, " + describe_bytes(box.bytes) + (box.numbers.size() > 1 ? " each" : "")};
  if (numbers) return run_cell(box.groups, columns);
  Cell lines;
  for (const CoreLine& line : arrange(box.groups, columns)) lines.push_back(core_text(line));
  return lines;
}

Widths find_widths(const NodeLayout& layout, bool numbers) {
  const std::vector<const NodeBox*> boxes = boxes_of(layout);
  std::size_t name = 0;
  std::size_t list = 0;
  for (const NodeBox* box : boxes) {
    name = std::max(name, box_name(*box).size());
    for (const std::string& line : list_cell(layout, *box)) list = std::max(list, line.size());
  }
  const std::size_t room = k_columns - (k_indent + name + k_gap + list + k_gap);
  if (devices_of(layout).empty()) return {room, 0, numbers};
  const std::size_t most = std::min(k_core_columns, room - k_gap - k_device_columns);
  std::size_t cores = std::string_view(k_core_heading).size();
  for (const NodeBox* box : boxes) {
    for (const std::string& line : core_cell(*box, most, numbers)) cores = std::max(cores, line.size());
  }
  return {cores, room - k_gap - cores, numbers};
}

// Makes a cell of GPUs, then on a new line the cards, in columns.
Cell device_cell(const std::vector<DeviceMark>& devices, const Widths& widths) {
  const std::size_t columns = widths.devices;
  Cell lines;
  for (const facts::DeviceKind kind : {facts::DeviceKind::gpu, facts::DeviceKind::network}) {
    std::vector<std::string> texts;
    std::size_t widest = 0;
    for (const DeviceMark& device : devices) {
      if (device.kind != kind) continue;
      texts.push_back(device_text(device, widths.numbers).substr(0, columns));
      widest = std::max(widest, texts.back().size());
    }
    const std::size_t in_line = std::max<std::size_t>(1, (columns + k_gap) / (widest + k_gap));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (i % in_line == 0) lines.emplace_back();
      const std::size_t column = (i % in_line) * (widest + k_gap);
      lines.back() += std::string(column - lines.back().size(), ' ') + texts[i];
    }
  }
  return lines;
}

void draw_box(CellTable& table, const NodeLayout& layout, const NodeBox& box, const Widths& widths) {
  table.row({{box_name(box)},
             list_cell(layout, box),
             core_cell(box, widths.cores, widths.numbers),
             device_cell(box.devices, widths)});
}

void draw_apart(CellTable& table, const NodeLayout& layout, const Widths& widths) {
  if (!layout.memory.empty() || !layout.devices.empty()) table.line("near no single package");
  for (const NodeBox& box : layout.memory) draw_box(table, layout, box, widths);
  if (!layout.devices.empty()) table.row({{}, {}, {}, device_cell(layout.devices, widths)});
}

std::string draw_boxes(const NodeLayout& layout, bool numbers) {
  const Widths widths = find_widths(layout, numbers);
  CellTable table;
  const char* devices = widths.devices > 0 ? "devices" : "";
  table.row({{}, {layout.sibling_distance > 1 ? "cores" : "CPUs"}, {k_core_heading}, {devices}});
  for (const PackageBox& package : layout.packages) {
    table.line(fmt::format("package {}", package.number));
    for (const NodeBox& box : package.nodes) draw_box(table, layout, box, widths);
    if (!package.devices.empty()) table.row({{"all"}, {}, {}, device_cell(package.devices, widths)});
  }
  draw_apart(table, layout, widths);
  return table.text(k_indent);
}

// Wraps words with blanks between them, in lines of the picture's width.
std::string wrapped(const std::vector<std::string>& words, std::string_view gap, std::size_t indent) {
  std::string text(indent, ' ');
  std::size_t width = indent;
  for (const std::string& word : words) {
    if (width > indent && width + gap.size() + word.size() > k_columns) {
      text += "\n" + std::string(indent, ' ');
      width = indent;
    }
    if (width > indent) text += gap;
    text += word;
    width += (width > indent ? gap.size() : 0) + word.size();
  }
  return text + "\n";
}

std::string local_ranks_meaning(const plan::LaunchPlan& plan) {
  const CpuHolder first{CpuHolder::Kind::worker, plan.planned.front().local_rank.value};
  const CpuHolder last{CpuHolder::Kind::worker, plan.planned.back().local_rank.value};
  if (plan.planned.size() == 1) return fmt::format("{} local rank", symbol_of(first));
  return fmt::format("{}-{} local rank", symbol_of(first), symbol_of(last));
}

std::string draw_legend(const NodeLayout& layout, const plan::LaunchPlan& plan) {
  const bool numbers = needs_numbers(plan);
  std::vector<std::string> words{numbers ? "grouped by cache:" : "one symbol per core, grouped by cache:"};
  if (any_bound(plan)) words.push_back(numbers ? "N..N cores of local rank N" : local_ranks_meaning(plan));
  for (const SymbolMeaning& each : meanings_of(layout, plan))
    words.push_back(fmt::format("{} {}", symbol_of(each.holder), each.text));
  if (!layout.empty_nodes.empty()) words.push_back("not drawn: " + empty_nodes_text(layout));
  return wrapped(words, "   ", 0);
}

struct RankRow {
  Cell rank;
  Cell symbol;
  std::string cpus;
  Cell memory;
  Cell gpus;
  Cell card;
};

RankRow rank_row(const plan::PlannedWorker& worker, const facts::HostFacts& host, bool numbers) {
  RankRow row;
  row.rank = {std::to_string(worker.rank.value)};
  row.symbol = {mark_of({CpuHolder::Kind::worker, worker.local_rank.value}, numbers)};
  row.cpus = worker.binding.cpus.empty() ? "not bound" : facts::render_cpu_list(worker.binding.cpus);
  row.memory = break_list(describe_memory(worker.binding), k_memory_columns);
  for (const int gpu : worker.gpus) row.gpus.push_back(gpu_name(host, gpu));
  if (!worker.network_card.empty()) row.card = {printable(worker.network_card, 16)};
  return row;
}

std::vector<RankRow> rank_rows(const plan::LaunchPlan& plan, const facts::HostFacts& host) {
  std::vector<RankRow> rows;
  for (const plan::PlannedWorker& worker : plan.planned) {
    if (rows.size() < k_workers_shown) rows.push_back(rank_row(worker, host, needs_numbers(plan)));
  }
  return rows;
}

// Returns "24 of 48 cores are idle, in NUMA nodes 0,2,4,6: ddprun itself keeps to these".
std::string idle_line(const plan::LaunchPlan& plan, const facts::Topology& topology) {
  std::set<int> nodes;
  std::int64_t idle = 0;
  for (const facts::Core& core : topology.cores) {
    if (!placement::overlap(core.cpus, plan.binding.spare)) continue;
    ++idle;
    nodes.insert(topology.nodes.at(static_cast<std::size_t>(core.node)).number);
  }
  if (!any_bound(plan) || idle == 0) return {};
  const std::string list = facts::render_cpu_list({nodes.begin(), nodes.end()});
  const std::string where = list.size() > k_list_columns
                                ? count_of(static_cast<std::int64_t>(nodes.size()), "NUMA node")
                                : (nodes.size() == 1 ? "NUMA node " : "NUMA nodes ") + list;
  return fmt::format("idle  .  {} of {}, {}; ddprun itself runs there", idle,
                     count_of(static_cast<std::int64_t>(topology.cores.size()), "core"), where);
}

std::size_t width_of(const std::vector<RankRow>& rows, Cell RankRow::*column) {
  std::size_t width = 0;
  for (const RankRow& row : rows) {
    for (const std::string& line : row.*column) width = std::max(width, line.size());
  }
  return width;
}

std::string draw_ranks(const plan::LaunchPlan& plan, const facts::HostFacts& host) {
  const std::vector<RankRow> rows = rank_rows(plan, host);
  std::size_t others = 0;
  Cell headings;
  for (const auto& [heading, column] :
       {std::pair{"rank", &RankRow::rank}, std::pair{"as", &RankRow::symbol},
        std::pair{"memory", &RankRow::memory}, std::pair{"GPU", &RankRow::gpus},
        std::pair{"card", &RankRow::card}}) {
    const std::size_t width = width_of(rows, column);
    headings.emplace_back(width > 0 ? heading : "");
    others += std::max(width, headings.back().size()) + k_gap;
  }
  CellTable table;
  table.row({{headings[0]}, {headings[1]}, {"CPUs"}, {headings[2]}, {headings[3]}, {headings[4]}});
  for (const RankRow& row : rows) {
    table.row(
        {row.rank, row.symbol, break_list(row.cpus, k_columns - others), row.memory, row.gpus, row.card});
  }
  if (plan.planned.size() > k_workers_shown)
    table.line(
        fmt::format("and {} more; --dry-run=json has them all", plan.planned.size() - k_workers_shown));
  if (const std::string idle = idle_line(plan, *host.topology); !idle.empty()) table.line(idle);
  return table.text(0);
}

}  // namespace

std::string draw_node_text(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  const facts::HostFacts& host = snapshot.host;
  if (!host.topology) return "";
  const NodeLayout layout = make_node_layout(plan, snapshot);
  return wrapped(split_words(describe_node(layout, host)), " ", 0) + "\n" +
         draw_boxes(layout, needs_numbers(plan)) + "\n" + draw_legend(layout, plan) + "\n" +
         draw_ranks(plan, host);
}

}  // namespace ddprun::render
