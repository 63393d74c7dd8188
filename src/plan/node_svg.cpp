// draw_node_svg: packages as boxes, in them NUMA nodes, in these a square a core, and devices beside them.
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/facts/proc_text.hpp"
#include "ddprun/plan/node_picture.hpp"
#include "node_words.hpp"
#include "svg_marks.hpp"

namespace ddprun {

namespace {

constexpr int k_step = k_square + 2;  // from core to core
constexpr int k_group_gap = 8;        // between cores that share a cache and the next
constexpr int k_device = 20;          // height of a device
constexpr int k_device_step = 24;
constexpr int k_pad = 10;
constexpr int k_title = 20;  // height of a box's title
constexpr int k_margin = 20;
constexpr int k_character = 7;  // width of one, at most
constexpr std::size_t k_core_columns = 35;
constexpr std::size_t k_workers_shown = 16;

std::string holder_title(const Holder& holder) {
  switch (holder.kind) {
    case Holder::Kind::worker:
      return fmt::format("local rank {}", holder.local_rank);
    case Holder::Kind::several:
      return "several workers";
    case Holder::Kind::spare:
      return "no worker";
    case Holder::Kind::elsewhere:
      return "not given to one of these workers";
    case Holder::Kind::forbidden:
      return "not allowed";
  }
  return {};
}

std::string cpus_text(const std::vector<int>& cpus) {
  const std::string list = render_cpu_list(cpus);
  return "CPUs " + (list.size() > 80 ? list.substr(0, 77) + "..." : list);
}

int width_of(const CoreLine& line) {
  int width = -k_group_gap;
  for (const CoreGroup& group : line) width += static_cast<int>(group.size()) * k_step + k_group_gap;
  return width;
}

int rows_of(const std::vector<DeviceMark>& devices, DeviceKind kind) {
  return static_cast<int>(std::count_if(devices.begin(), devices.end(),
                                        [&](const DeviceMark& device) { return device.kind == kind; }));
}

int height_of(const std::vector<DeviceMark>& devices) {
  return std::max(rows_of(devices, DeviceKind::gpu), rows_of(devices, DeviceKind::network)) * k_device_step;
}

// One picture: what is drawn where follows from the widths, which are the same for all boxes.
class NodeSvg {
 public:
  NodeSvg(const NodePlan& plan, const Snapshot& snapshot)
      : plan_(plan), host_(snapshot.host), layout_(make_node_layout(plan, snapshot)) {
    measure();
  }

  std::string draw() {
    const std::string title = fmt::format("{}: {}", plan_.host, describe_node(layout_, host_));

    svg_.text(k_margin, k_margin + 12, "heading", title);
    if (!plan_.binding.origin.empty()) svg_.text(k_margin, k_margin + 30, "faint", plan_.binding.origin);
    int y = draw_packages(k_margin + 44);
    y = draw_apart(y);
    y = draw_legend(y);
    const int text_width = static_cast<int>(title.size()) * 9;
    const int width = std::max({2 * k_margin + columns_ * (package_width() + k_margin) - k_margin,
                                2 * k_margin + text_width, legend_width_});
    return svg_.document(
        width, y + k_margin, title,
        svg_head() + fmt::format("<rect class=\"page\" width=\"{}\" height=\"{}\"/>\n", width, y + k_margin));
  }

 private:
  void measure() {
    columns_ = layout_.packages.size() > 1 ? 2 : 1;
    for (const NodeBox* box : boxes_of(layout_)) {
      cores_width_ = std::max(cores_width_, static_cast<int>(node_title(*box).size()) * k_character);
      for (const CoreLine& line : arrange(box->groups, k_core_columns))
        cores_width_ = std::max(cores_width_, width_of(line));
    }
    for (const DeviceMark* device : devices_of(layout_)) {
      int& width = device->kind == DeviceKind::gpu ? gpu_width_ : card_width_;
      width = std::max(width, static_cast<int>(device_text(*device).size()) * k_character + k_pad);
    }
  }

  int devices_width() const {
    return (gpu_width_ > 0 ? gpu_width_ + k_pad : 0) + (card_width_ > 0 ? card_width_ + k_pad : 0);
  }
  int node_width() const { return k_pad + cores_width_ + k_pad + devices_width(); }
  int package_width() const { return node_width() + 2 * k_pad; }
  int devices_x() const { return k_pad + cores_width_ + k_pad; }  // in a node's box

  std::string node_title(const NodeBox& box) const {
    std::string title = fmt::format("node {}", box.number);
    if (!box.groups.empty()) {
      const std::string list = core_list(layout_, box);
      const std::string shown = list.size() > 40 ? list.substr(0, 37) + "..." : list;
      title += fmt::format(", {} {}", layout_.sibling_distance > 1 ? "cores" : "CPUs", shown);
    }
    if (box.bytes > 0) title += ", " + describe_bytes(box.bytes);
    return box.groups.empty() ? title + ", memory only" : title;
  }

  int node_height(const NodeBox& box) const {
    const int cores = static_cast<int>(arrange(box.groups, k_core_columns).size()) * k_step;
    const int inside = std::max(cores, height_of(box.devices));
    return inside == 0 ? k_title + k_pad / 2 : k_title + inside + k_pad;
  }

  int package_height(const PackageBox& package) const {
    int height = k_title + k_pad;
    for (const NodeBox& box : package.nodes) height += node_height(box) + k_pad;
    return height + (package.devices.empty() ? 0 : height_of(package.devices) + k_pad);
  }

  // In as many colours as it has holders.
  void draw_device(const DeviceMark& device, const Frame& frame) {
    svg_.open_group(device.label);
    const int count = static_cast<int>(device.holders.size());
    for (int i = 0; i < count; ++i) {
      const int left = frame.x + frame.width * i / count;
      const int right = frame.x + frame.width * (i + 1) / count;
      draw_area(svg_, {left, frame.y, right - left, frame.height},
                device.holders[static_cast<std::size_t>(i)]);
    }
    svg_.rectangle(frame, "frame");
    const bool dark = count == 1 && device.holders[0].kind == Holder::Kind::several;
    svg_.text(frame.x + 6, frame.y + 14, dark ? "pale" : "label", device_text(device));
    svg_.close_group();
  }

  void draw_devices(const std::vector<DeviceMark>& devices, int x, int y) {
    int gpus = 0;
    int cards = 0;
    const int cards_x = x + (gpu_width_ > 0 ? gpu_width_ + k_pad : 0);
    for (const DeviceMark& device : devices) {
      if (device.kind == DeviceKind::gpu)
        draw_device(device, {x, y + k_device_step * gpus++, gpu_width_, k_device});
      else
        draw_device(device, {cards_x, y + k_device_step * cards++, card_width_, k_device});
    }
  }

  void draw_cores(const NodeBox& box, int left, int y) {
    for (const CoreLine& line : arrange(box.groups, k_core_columns)) {
      int x = left;
      for (const CoreGroup& group : line) {
        for (const CoreMark& core : group) {
          svg_.open_group(fmt::format("CPU {}: {}", render_cpu_list(core.cpus), holder_title(core.holder)));
          draw_square(svg_, x, y, core.holder);
          svg_.close_group();
          x += k_step;
        }
        x += k_group_gap;
      }
      y += k_step;
    }
  }

  void draw_node(const NodeBox& box, int x, int y) {
    svg_.rectangle({x, y, node_width(), node_height(box)}, box.groups.empty() ? "memory" : "node");
    svg_.text(x + k_pad, y + 14, "name", node_title(box));
    draw_cores(box, x + k_pad, y + k_title);
    draw_devices(box.devices, x + devices_x(), y + k_title);
  }

  void draw_package(const PackageBox& package, int x, int y) {
    svg_.rectangle({x, y, package_width(), package_height(package)}, "package");
    svg_.text(x + k_pad, y + 16, "name", fmt::format("package {}", package.number));
    y += k_title + k_pad / 2;
    for (const NodeBox& box : package.nodes) {
      draw_node(box, x + k_pad, y);
      y += node_height(box) + k_pad;
    }
    draw_devices(package.devices, x + k_pad + devices_x(), y);
  }

  // All return the y below what they drew.
  int draw_packages(int y) {
    for (std::size_t i = 0; i < layout_.packages.size(); i += static_cast<std::size_t>(columns_)) {
      int height = 0;
      for (std::size_t j = i; j < std::min(i + static_cast<std::size_t>(columns_), layout_.packages.size());
           ++j) {
        const int column = static_cast<int>(j - i);
        draw_package(layout_.packages[j], k_margin + column * (package_width() + k_margin), y);
        height = std::max(height, package_height(layout_.packages[j]));
      }
      y += height + k_margin;
    }
    return y;
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

  std::string worker_text(const PlannedWorker& worker) const {
    std::vector<std::string> parts;
    parts.push_back(worker.binding.cpus.empty() ? "not bound" : cpus_text(worker.binding.cpus));
    const std::string memory = describe_memory(worker.binding);
    if (!memory.empty()) parts.push_back("memory of " + memory);
    for (const int gpu : worker.gpus) parts.push_back(fmt::format("GPU {}", gpu));
    if (!worker.network_card.empty()) parts.push_back(worker.network_card);
    return fmt::format("rank {}: {}", worker.rank.value, join(parts, "; "));
  }

  void draw_legend_line(const Holder& holder, const std::string& text, int y) {
    draw_square(svg_, k_margin, y, holder);
    svg_.text(k_margin + 24, y + 12, "label", text);
    legend_width_ = std::max(legend_width_, 2 * k_margin + 24 + static_cast<int>(text.size()) * k_character);
  }

  int draw_legend(int y) {
    for (std::size_t i = 0; i < std::min(plan_.planned.size(), k_workers_shown); ++i) {
      const PlannedWorker& worker = plan_.planned[i];
      draw_legend_line({Holder::Kind::worker, worker.local_rank.value}, worker_text(worker), y);
      y += k_step + 2;
    }
    if (plan_.planned.size() > k_workers_shown) {
      svg_.text(k_margin + 24, y + 12, "faint",
                fmt::format("and {} more workers", plan_.planned.size() - k_workers_shown));
      y += k_step + 2;
    }
    for (const SymbolMeaning& each : meanings_of(layout_, plan_)) {
      const bool own = each.holder.kind == Holder::Kind::spare && !plan_.binding.spare.empty();
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

  const NodePlan& plan_;
  const HostFacts& host_;
  NodeLayout layout_;
  SvgWriter svg_;
  int columns_ = 1;  // packages beside each other
  int cores_width_ = 0;
  int gpu_width_ = 0;
  int card_width_ = 0;
  int legend_width_ = 0;
};

}  // namespace

std::string draw_node_svg(const NodePlan& plan, const Snapshot& snapshot) {
  if (!snapshot.host.topology) {
    throw Error("no picture of " + plan.host + ": nothing is known of its topology",
                "leave out --bind none, or give a --topology file");
  }
  return NodeSvg(plan, snapshot).draw();
}

}  // namespace ddprun
