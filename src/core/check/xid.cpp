#include "check/xid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "facts/topology.hpp"

namespace ddprun::check {

namespace {

constexpr std::size_t k_most_kept = 64;
constexpr std::string_view k_driver = "NVRM: Xid (";
constexpr int k_recovery_changed = 154;
constexpr std::string_view k_no_recovery = " to 0x0 ";

constexpr const char* k_reset = "have the site reset the GPU (nvidia-smi -r); leave the node out until then";
constexpr const char* k_reboot = "have the site reboot the node; leave it out until then";
constexpr const char* k_as_told =
    "have the site do what its Xid 154 in the kernel's log asks for; leave the node out until then";
constexpr const char* k_links =
    "have the site check its NVLinks (nvidia-smi nvlink -e shows their errors) and reset the node";
constexpr const char* k_memory =
    "have the site check its memory (nvidia-smi -q -d ECC,ROW_REMAPPER) and reset or replace it";

constexpr XidMeaning k_hardware_faults[] = {
    {46, "it stopped processing", k_reset},
    {48, "a double-bit ECC error", k_reset},
    {62, "its power controller halted", k_reset},
    {63, "a memory row is to be remapped", k_reset, Mark::warning},
    {64, "a memory row could not be remapped", k_memory},
    {74, "an NVLink error", k_links},
    {79, "it fell off the bus", k_reboot},
    {92, "many single-bit ECC errors", k_memory, Mark::warning},
    {94, "a contained ECC error", k_memory, Mark::warning},
    {95, "an uncontained ECC error", k_reset},
    {110, "a security fault", k_reset},
    {119, "its firmware (GSP) does not answer", k_reset},
    {120, "its firmware (GSP) failed", k_reset},
    {136, "its NVLinks could not be trained", k_links},
    {140, "an ECC error it cannot recover from", k_reset},
    {143, "it could not be initialized", k_reset},
    {k_recovery_changed, "its driver asks for a reset", k_as_told},
    {155, "an NVLink error", k_links},
    {156, "a part of it is to be retired", k_reset},
    {158, "a fatal timeout", k_reset},
};

// The kernel's own records have facility 0 (syslog(2)).
bool is_of_kernel(std::int64_t level) { return level >= 0 && level < 8; }

// "PCI:0000:41:00", without "PCI:" from old drivers, "PCI:0000:41:00 GPU-I:05" of a MIG instance.
std::string address_of(std::string_view device) {
  if (device.starts_with("PCI:")) device.remove_prefix(4);
  std::string address(device.substr(0, device.find(' ')));
  if (address.find('.') == std::string::npos) address += ".0";
  return facts::normal_pci_address(address);
}

}  // namespace

std::optional<Xid> parse_xid(std::string_view record) {
  const auto semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  const std::vector<std::string> fields = split(record.substr(0, semicolon), ',');
  std::string_view text = record.substr(semicolon + 1);
  text = text.substr(0, text.find('\n'));
  const auto end = text.find("): ");
  if (fields.size() < 4 || !text.starts_with(k_driver) || end == std::string_view::npos) return std::nullopt;
  const std::string_view message = text.substr(end + 3);
  const auto comma = message.find(',');
  const auto level = parse_integer(fields[0]), sequence = parse_integer(fields[1]),
             time = parse_integer(fields[2]), number = parse_integer(message.substr(0, comma));
  if (!level || !is_of_kernel(*level) || !sequence || !time || !number || *number < 1 || *number > 9999)
    return std::nullopt;
  Xid xid;
  xid.number = static_cast<int>(*number);
  xid.gpu = address_of(text.substr(k_driver.size(), end - k_driver.size()));
  xid.sequence = *sequence;
  xid.time = static_cast<double>(*time) / 1e6;
  if (comma != std::string_view::npos) xid.text = printable(trim(message.substr(comma + 1)));
  return xid;
}

const XidMeaning* find_hardware_fault(const Xid& xid) {
  if (xid.number == k_recovery_changed && xid.text.find(k_no_recovery) != std::string::npos) return nullptr;
  const auto* const found = std::ranges::find(k_hardware_faults, xid.number, &XidMeaning::number);
  return found == std::end(k_hardware_faults) ? nullptr : found;
}

std::string describe(const Xid& xid, const XidMeaning& fault) {
  return fmt::format("GPU {}: Xid {}, {}", xid.gpu, xid.number, fault.what);
}

void note_kernel_record(std::string_view record, KernelLog& log) {
  const std::string_view head = record.substr(0, record.find(';'));
  const std::vector<std::string> fields = split(head, ',');
  if (head.size() == record.size() || fields.size() < 4) return;  // a line that belongs to the one before
  if (const auto sequence = parse_integer(fields[1])) log.newest = std::max(log.newest, *sequence);
  const auto xid = parse_xid(record);
  if (!xid || find_hardware_fault(*xid) == nullptr) return;
  std::erase_if(log.xids,
                [&](const Xid& each) { return each.number == xid->number && each.gpu == xid->gpu; });
  if (log.xids.size() == k_most_kept) log.xids.erase(log.xids.begin());
  log.xids.push_back(*xid);
}

}  // namespace ddprun::check
