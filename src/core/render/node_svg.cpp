// draw_node_svg: packages as boxes, in them NUMA nodes, in these a square a core, and devices beside them.
// How many cores are in a line and how many packages beside each other is what makes the page most like a
// screen.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/assumed_topology.hpp"
#include "render/node_picture.hpp"
#include "render/node_words.hpp"
#include "render/svg_marks.hpp"

namespace ddprun::render {

namespace {

constexpr int k_step = k_square + 2;  // from core to core
constexpr int k_group_gap = 8;        // between cores that share a cache and the next
constexpr int k_group_edge = 3;       // around these cores
constexpr int k_line_step = k_step + 6;
constexpr int k_device = 20;  // height of a device
constexpr int k_device_step = 24;
constexpr int k_pair_gap = 36;  // between GPUs and cards: lines lead across it
constexpr int k_pad = 10;
constexpr int k_title = 20;  // height of a box's title
constexpr int k_top = 44;    // height of the page's heading
constexpr int k_margin = 20;
constexpr int k_character = 7;     // width of one, at most
constexpr int k_card_columns = 2;  // columns of a NUMA node with more cards than GPUs

constexpr double k_screen = 16.0 / 9.0;

std::string holder_title(const CpuHolder& holder) {
  return holder.kind == CpuHolder::Kind::worker ? fmt::format("local rank {}", holder.local_rank)
                                                : look_of(holder.kind).title;
}

// Returns "CPUs 0-15,64-79", not too long.
std::string cpus_text(const std::vector<int>& cpus) {
  const std::string list = facts::render_cpu_list(cpus);
  return "CPUs " + (list.size() > 80 ? list.substr(0, 77) + "..." : list);
}

// Returns "rank 3: CPUs 0-15; memory of node 0, preferred; GPU 3".
std::string worker_text(const plan::PlannedWorker& worker) {
  std::vector<std::string> parts;
  parts.push_back(worker.binding.cpus.empty() ? "not bound" : cpus_text(worker.binding.cpus));
  const std::string memory = describe_memory(worker.binding);
  if (!memory.empty()) parts.push_back("memory of " + memory);
  for (const int gpu : worker.gpus) parts.push_back(fmt::format("GPU {}", gpu));
  if (!worker.network_card.empty()) parts.push_back(worker.network_card);
  return fmt::format("rank {}: {}", worker.rank.value, join(parts, "; "));
}

// Returns "node 3, cores 48-63, 126 GiB", "nodes 4-9, 95 GiB each, memory only".
std::string box_title(const NodeLayout& layout, const NodeBox& box) {
  std::string title = box_name(box);
  if (!box.groups.empty()) {
    const std::string list = core_list(layout, box);
    const std::string shown = list.size() > 40 ? list.substr(0, 37) + "..." : list;
    title += fmt::format(", {} {}", layout.sibling_distance > 1 ? "cores" : "CPUs", shown);
  }
  if (box.bytes > 0) title += ", " + describe_bytes(box.bytes) + (box.numbers.size() > 1 ? " each" : "");
  return box.groups.empty() ? title + ", memory only" : title;
}

// Returns "[0] GPU 0 A100-SXM4-40GB 0000:07:00.0".
std::string device_words(const DeviceMark& device, bool numbers) {
  const std::string text = device_text(device, numbers);
  return device.model.empty() ? text : text + ", " + device.model;
}

int width_of(const CoreLine& line) {
  int width = -k_group_gap;
  for (const CoreGroup& group : line) width += static_cast<int>(group.size()) * k_step + k_group_gap;
  return width;
}

int rows_of(const std::vector<DeviceMark>& devices, facts::DeviceKind kind) {
  return static_cast<int>(
      std::ranges::count_if(devices, [&](const DeviceMark& device) { return device.kind == kind; }));
}

// Returns the columns for cards: cards that would make a box higher than its GPUs do stand in several.
int card_columns(const std::vector<DeviceMark>& devices) {
  return rows_of(devices, facts::DeviceKind::network) > std::max(1, rows_of(devices, facts::DeviceKind::gpu))
             ? k_card_columns
             : 1;
}

int height_of(const std::vector<DeviceMark>& devices) {
  const int columns = card_columns(devices);
  const int cards = (rows_of(devices, facts::DeviceKind::network) + columns - 1) / columns;
  return std::max(rows_of(devices, facts::DeviceKind::gpu), cards) * k_device_step;
}

// Picture of a node: the places in it follow from the widths, which are the same for all boxes.
class NodeSvg {
 public:
  NodeSvg(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot)
      : plan_(plan),
        host_(snapshot.host),
        layout_(make_node_layout(plan, snapshot)),
        numbers_(needs_numbers(plan)) {
    measure_devices();
    choose_shape();
  }

  std::string draw() {
    const std::string title = heading();
    svg_.text(k_margin, k_margin + 12, "heading", title);
    if (!plan_.binding.origin.empty()) svg_.text(k_margin, k_margin + 30, "faint", plan_.binding.origin);
    int y = draw_packages(k_margin + k_top);
    y = draw_apart(y);
    draw_pairs();
    y = draw_legend(y) + k_margin;
    int width =
        std::max({packages_width(), 2 * k_margin + static_cast<int>(title.size()) * 9, legend_width_});
    const int height = std::max(y, static_cast<int>(width / k_screen));
    width = std::max(width, static_cast<int>(height * k_screen));
    return svg_.document(
        width, height, title,
        svg_head() + fmt::format("<rect class=\"page\" width=\"{}\" height=\"{}\"/>\n", width, height));
  }

 private:
  std::string heading() const {
    return fmt::format("{}: {}", placement::node_name(host_, plan_.node->host),
                       describe_node(layout_, host_));
  }

  void measure_devices() {
    for (const DeviceMark* device : devices_of(layout_)) {
      int& width = device->kind == facts::DeviceKind::gpu ? gpu_width_ : card_width_;
      width = std::max(width, static_cast<int>(device_words(*device, numbers_).size()) * k_character + k_pad);
    }
    const auto columns = [&](const std::vector<DeviceMark>& devices) {
      if (card_width_ > 0) card_columns_ = std::max(card_columns_, card_columns(devices));
    };
    columns(layout_.devices);
    for (const PackageBox& package : layout_.packages) columns(package.devices);
    for (const NodeBox* box : boxes_of(layout_)) columns(box->devices);
  }

  // Chooses among a few shapes the one whose page is most like a screen.
  void choose_shape() {
    double best = HUGE_VAL;
    std::pair<std::size_t, int> shape{35, 1};
    const int most = std::clamp(static_cast<int>(layout_.packages.size()), 1, 4);
    for (const std::size_t columns : {9U, 17U, 26U, 35U, 53U, 71U}) {
      take_core_columns(columns);
      for (columns_ = 1; columns_ <= most; ++columns_) {
        const double misfit = std::abs(std::log(packages_width() / (packages_height() * k_screen)));
        if (misfit >= best) continue;
        best = misfit;
        shape = {columns, columns_};
      }
    }
    take_core_columns(shape.first);
    columns_ = shape.second;
  }

  void take_core_columns(std::size_t core_columns) {
    core_columns_ = core_columns;
    cores_width_ = 0;
    for (const NodeBox* box : boxes_of(layout_)) {
      cores_width_ = std::max(cores_width_, static_cast<int>(box_title(layout_, *box).size()) * k_character);
      for (const CoreLine& line : arrange(box->groups, core_columns_))
        cores_width_ = std::max(cores_width_, width_of(line) + 2 * k_group_edge);
    }
  }

  int cards_width() const { return card_width_ > 0 ? card_columns_ * (card_width_ + k_pad) : 0; }
  int devices_width() const {
    const int gpus = gpu_width_ > 0 ? gpu_width_ + (card_width_ > 0 ? k_pair_gap : k_pad) : 0;
    return gpus + cards_width();
  }
  int node_width() const { return k_pad + cores_width_ + k_pad + devices_width(); }
  int package_width() const { return node_width() + 2 * k_pad; }
  int packages_width() const { return k_margin + columns_ * (package_width() + k_margin); }
  int devices_x() const { return k_pad + cores_width_ + k_pad; }  // in a node's box

  int node_height(const NodeBox& box) const {
    const int cores = static_cast<int>(arrange(box.groups, core_columns_).size()) * k_line_step;
    const int inside = std::max(cores, height_of(box.devices));
    return inside == 0 ? k_title + k_pad / 2 : k_title + inside + k_pad;
  }

  // Returns the height of all packages, which is the highest one's.
  int package_height() const {
    int highest = 0;
    for (const PackageBox& package : layout_.packages) {
      int height = k_title + k_pad;
      for (const NodeBox& box : package.nodes) height += node_height(box) + k_pad;
      height += package.devices.empty() ? 0 : height_of(package.devices) + k_pad;
      highest = std::max(highest, height);
    }
    return highest;
  }

  // Returns the height with the parts above and below them, as far as it is known before it is drawn.
  int packages_height() const {
    const int rows = (static_cast<int>(layout_.packages.size()) + columns_ - 1) / columns_;
    const auto lines = static_cast<int>(std::min(plan_.planned.size(), k_workers_shown)) + 2;
    int apart = layout_.devices.empty() ? 0 : k_title + height_of(layout_.devices);
    for (const NodeBox& box : layout_.memory) apart += node_height(box) + k_pad;
    return 2 * k_margin + k_top + rows * (package_height() + k_margin) + apart + lines * (k_step + 2);
  }

  // Draws a device in as many colours as it has holders.
  void draw_device(const DeviceMark& device, const Frame& frame) {
    frames_[device.number] = frame;
    svg_.open_group(device.model.empty() ? device.label : device.label + ", " + device.model);
    const int count = static_cast<int>(device.holders.size());
    for (int i = 0; i < count; ++i) {
      const int left = frame.x + frame.width * i / count;
      const int right = frame.x + frame.width * (i + 1) / count;
      draw_area(svg_, {left, frame.y, right - left, frame.height},
                device.holders[static_cast<std::size_t>(i)]);
    }
    svg_.rectangle(frame, "frame");
    const bool dark = count == 1 && device.holders[0].kind == CpuHolder::Kind::several;
    svg_.text(frame.x + 6, frame.y + 14, dark ? "pale" : "label", device_words(device, numbers_));
    svg_.close_group();
  }

  void draw_devices(const std::vector<DeviceMark>& devices, int x, int y) {
    int gpus = 0;
    int cards = 0;
    const int columns = card_columns(devices);
    const int cards_x = x + (gpu_width_ > 0 ? gpu_width_ + k_pair_gap : 0);
    for (const DeviceMark& device : devices) {
      if (device.kind == facts::DeviceKind::gpu) {
        draw_device(device, {x, y + k_device_step * gpus++, gpu_width_, k_device});
        continue;
      }
      const int column = cards % columns;
      draw_device(device, {cards_x + column * (card_width_ + k_pad), y + k_device_step * (cards++ / columns),
                           card_width_, k_device});
    }
  }

  // Draws a line from each worker's GPU to its card, in its colour.
  void draw_pairs() {
    for (const DevicePair& pair : layout_.pairs) {
      const auto gpu = frames_.find(pair.gpu);
      const auto card = frames_.find(pair.card);
      if (gpu == frames_.end() || card == frames_.end()) continue;
      const bool forward = card->second.x > gpu->second.x;
      const int from = gpu->second.x + (forward ? gpu->second.width : 0);
      const int to = card->second.x + (forward ? 0 : card->second.width);
      const int from_y = gpu->second.y + k_device / 2;
      const int to_y = card->second.y + k_device / 2;
      svg_.open_group(fmt::format("local rank {}: its GPU and its card", pair.local_rank));
      svg_.line(from, from_y, to, to_y, "edge", "#555");
      svg_.line(from, from_y, to, to_y, "pair", colour_of(pair.local_rank));
      svg_.close_group();
    }
  }

  void draw_group(const CoreGroup& group, int x, int y) {
    for (const CoreMark& core : group) {
      svg_.open_group(
          fmt::format("CPU {}: {}", facts::render_cpu_list(core.cpus), holder_title(core.holder)));
      draw_square(svg_, x, y, core.holder, numbers_);
      svg_.close_group();
      x += k_step;
    }
  }

  // Draws lines of groups beside each other; returns the y below them.
  int draw_lines(const std::vector<CoreGroup>& groups, int left, int y, bool outlined) {
    for (const CoreLine& line : arrange(groups, core_columns_)) {
      int x = left + k_group_edge;
      for (const CoreGroup& group : line) {
        if (outlined) outline(x, y + k_group_edge, width_of({group}), k_square);
        draw_group(group, x, y + k_group_edge);
        x += static_cast<int>(group.size()) * k_step + k_group_gap;
      }
      y += k_line_step;
    }
    return y;
  }

  // Draws cores that share a cache; those that share one with no other have no outline.
  void draw_cores(const NodeBox& box, int left, int y) {
    std::size_t widest = 0;
    for (const CoreGroup& group : box.groups) widest = std::max(widest, group.size());
    if (widest <= core_columns_) {
      draw_lines(box.groups, left, y, widest > 1);
      return;
    }
    for (const CoreGroup& group : box.groups) {
      const CoreLine first = arrange({group}, core_columns_).front();
      const int below = draw_lines({group}, left, y, false);
      outline(left + k_group_edge, y + k_group_edge, width_of(first), below - y - (k_line_step - k_square));
      y = below;
    }
  }

  void outline(int x, int y, int width, int height) {
    width -= k_step - k_square;
    svg_.rectangle({x - k_group_edge, y - k_group_edge, width + 2 * k_group_edge, height + 2 * k_group_edge},
                   "cache");
  }

  void draw_node(const NodeBox& box, int x, int y) {
    svg_.rectangle({x, y, node_width(), node_height(box)}, box.groups.empty() ? "memory" : "node");
    svg_.text(x + k_pad, y + 14, "name", box_title(layout_, box));
    draw_cores(box, x + k_pad, y + k_title);
    draw_devices(box.devices, x + devices_x(), y + k_title);
  }

  void draw_package(const PackageBox& package, int x, int y) {
    svg_.rectangle({x, y, package_width(), package_height()}, "package");
    svg_.text(x + k_pad, y + 16, "name", fmt::format("package {}", package.number));
    y += k_title + k_pad / 2;
    for (const NodeBox& box : package.nodes) {
      draw_node(box, x + k_pad, y);
      y += node_height(box) + k_pad;
    }
    draw_devices(package.devices, x + k_pad + devices_x(), y);
  }

  // Draws the packages. This and the next ones return the y below what they drew.
  int draw_packages(int y) {
    for (std::size_t i = 0; i < layout_.packages.size(); ++i) {
      const int column = static_cast<int>(i) % columns_;
      if (i > 0 && column == 0) y += package_height() + k_margin;
      draw_package(layout_.packages[i], k_margin + column * (package_width() + k_margin), y);
    }
    return layout_.packages.empty() ? y : y + package_height() + k_margin;
  }

  int draw_apart(int y) {
    if (layout_.memory.empty() && layout_.devices.empty()) return y;
    svg_.text(k_margin, y + 12, "name", "near no single package");
    y += k_title;
    for (const NodeBox& box : layout_.memory) {
      draw_node(box, k_margin, y);
      y += node_height(box) + k_pad;
    }
    draw_devices(layout_.devices, k_margin, y);
    return y + height_of(layout_.devices) + k_pad;
  }

  void draw_legend_line(const CpuHolder& holder, const std::string& text, int y) {
    draw_square(svg_, k_margin, y, holder, numbers_);
    svg_.text(k_margin + 24, y + 12, "label", text);
    legend_width_ = std::max(legend_width_, 2 * k_margin + 24 + static_cast<int>(text.size()) * k_character);
  }

  int draw_legend(int y) {
    for (std::size_t i = 0; i < std::min(plan_.planned.size(), k_workers_shown); ++i) {
      const plan::PlannedWorker& worker = plan_.planned[i];
      draw_legend_line({CpuHolder::Kind::worker, worker.local_rank.value}, worker_text(worker), y);
      y += k_step + 2;
    }
    if (plan_.planned.size() > k_workers_shown) {
      svg_.text(k_margin + 24, y + 12, "faint",
                fmt::format("and {} more workers", plan_.planned.size() - k_workers_shown));
      y += k_step + 2;
    }
    for (const SymbolMeaning& each : meanings_of(layout_, plan_)) {
      const bool own = each.holder.kind == CpuHolder::Kind::spare && !plan_.binding.spare.empty();
      draw_legend_line(each.holder,
                       own ? "no worker; ddprun itself: " + cpus_text(plan_.binding.spare) : each.text, y);
      y += k_step + 2;
    }
    if (!layout_.empty_nodes.empty()) {
      svg_.text(k_margin + 24, y + 12, "faint", "not drawn: " + empty_nodes_text(layout_));
      y += k_step + 2;
    }
    return y;
  }

  const plan::LaunchPlan& plan_;
  const facts::HostFacts& host_;
  NodeLayout layout_;
  SvgWriter svg_;
  bool numbers_ = false;           // shows local ranks as numbers, instead of symbols
  std::map<int, Frame> frames_;    // frames of the devices that are drawn, by number
  std::size_t core_columns_ = 35;  // in a line
  int columns_ = 1;                // packages beside each other
  int card_columns_ = 1;
  int cores_width_ = 0;
  int gpu_width_ = 0;
  int card_width_ = 0;
  int legend_width_ = 0;
};

}  // namespace

std::string draw_node_svg(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (!snapshot.host.topology) {
    throw Error("cannot draw " + plan.node->host + ": its topology is not known",
                "leave out --bind none, or give a --topology file");
  }
  return NodeSvg(plan, snapshot).draw();
}

}  // namespace ddprun::render
