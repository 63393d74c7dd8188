#include "os/machine/capture_gpus.hpp"

#include "catch.hpp"
#include "fake_root.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

// A device below /sys/devices with its link in /sys/bus/pci/devices.
void add_device(const FakeRoot& root, const std::string& folder, const std::string& of_class,
                const std::string& vendor, const std::string& local_cpus = "") {
  const std::string path = "/sys/devices/" + folder;
  root.add(path + "/class", of_class + "\n");
  root.add(path + "/vendor", vendor + "\n");
  root.add(path + "/device", "0x0001\n");
  root.add(path + "/numa_node", local_cpus.empty() ? "-1\n" : "0\n");
  root.add(path + "/local_cpulist", local_cpus.empty() ? "0-7\n" : local_cpus + "\n");
  root.link("/sys/bus/pci/devices/" + folder.substr(folder.rfind('/') + 1), path);
}

}  // namespace

TEST_CASE("GPUs and network cards have names, bridges and near CPUs") {
  const FakeRoot root;
  root.add("/sys/devices/system/cpu/online", "0-7\n");
  const std::string bridge = "pci0000:c0/0000:c0:01.1";
  add_device(root, bridge, "0x060400", "0x1022", "4-7");
  add_device(root, bridge + "/0000:c1:00.0", "0x030200", "0x10de", "4-7");
  root.add("/sys/devices/" + bridge + "/0000:c1:00.0/drm/card1/dev");
  root.add("/sys/devices/" + bridge + "/0000:c1:00.0/drm/renderD129/dev");
  add_device(root, "pci0000:80/0000:81:00.0", "0x020700", "0x15b3", "0-3");
  root.add("/sys/devices/pci0000:80/0000:81:00.0/infiniband/mlx5_0/node_guid");
  root.add("/sys/devices/pci0000:80/0000:81:00.0/net/ib0/mtu");
  add_device(root, "pci0000:80/0000:82:00.0", "0x020000", "0x17db", "0-3");
  root.add("/sys/devices/pci0000:80/0000:82:00.0/cxi/cxi0/dev");
  root.add("/sys/devices/pci0000:80/0000:82:00.0/net/hsn0/mtu");
  add_device(root, "pci0000:00/0000:00:03.0", "0x020000", "0x1af4");
  root.add("/sys/devices/pci0000:00/0000:00:03.0/virtio1/net/eth0/mtu");
  add_device(root, "pci0000:00/0000:00:02.0", "0x030000", "0x1a03");
  const std::vector<int> low{0, 1, 2, 3};
  CHECK(capture_pci_devices(root.path()) ==
        std::vector<facts::PciDevice>{
            {facts::DeviceKind::network, "0000:00:03.0", {"eth0"}, {}, {}},
            {facts::DeviceKind::network, "0000:81:00.0", {"mlx5_0", "ib0"}, {}, low, "", "", 1, "mlx5_0"},
            {facts::DeviceKind::network, "0000:82:00.0", {"cxi0", "hsn0"}, {}, low, "", "", 1, "cxi0"},
            {facts::DeviceKind::gpu, "0000:c1:00.0", {"card1"}, {"0000:c0:01.1"}, {4, 5, 6, 7}, "nvidia"},
        });
}

TEST_CASE("a card is an RDMA device by any name, and linked as one of its ports that is active") {
  const FakeRoot root;
  const auto link_of = [&](int number, const std::vector<std::pair<std::string, std::string>>& ports) {
    const std::string address = "0000:0" + std::to_string(number) + ":00.0";
    add_device(root, "pci0000:00/" + address, "0x020700", "0x15b3", "0-3");
    const std::string device = "/sys/devices/pci0000:00/" + address + "/infiniband/ibp0s0/";
    root.add(device + "node_guid");
    for (std::size_t i = 0; i < ports.size(); ++i) {
      const std::string port = device + "ports/" + std::to_string(i + 1) + "/";
      root.add(port + "state", ports[i].first + "\n");
      root.add(port + "link_layer", ports[i].second + "\n");
    }
    const facts::PciDevice found = capture_pci_devices(root.path()).back();
    CHECK(found.rdma == "ibp0s0");
    return found.link;
  };
  CHECK(link_of(1, {}) == facts::CardLink::unknown);
  CHECK(link_of(2, {{"4: ACTIVE", "InfiniBand"}}) == facts::CardLink::infiniband);
  CHECK(link_of(3, {{"4: ACTIVE", "Ethernet"}}) == facts::CardLink::ethernet);
  CHECK(link_of(4, {{"1: DOWN", "InfiniBand"}}) == facts::CardLink::down);
  CHECK(link_of(5, {{"2: INIT", "InfiniBand"}, {"4: ACTIVE", "InfiniBand"}}) == facts::CardLink::infiniband);
}

TEST_CASE("a machine without a PCI bus has no devices") {
  CHECK(capture_pci_devices(FakeRoot().path()).empty());
}

TEST_CASE("CPUs are near where the firmware tells, or the list is not all of them") {
  const FakeRoot root;
  const std::string device = "/sys/bus/pci/devices/0000:01:00.0/";
  root.add("/sys/devices/system/cpu/online", "0-7\n");
  CHECK(capture_local_cpus("0000:01:00.0", root.path()).empty());
  root.add(device + "numa_node", "-1\n");
  root.add(device + "local_cpulist", "0-7\n");
  CHECK(capture_local_cpus("0000:01:00.0", root.path()).empty());
  root.add(device + "local_cpulist", "0-3\n");
  CHECK(capture_local_cpus("0000:01:00.0", root.path()) == std::vector<int>{0, 1, 2, 3});
  root.add(device + "numa_node", "0\n");
  root.add(device + "local_cpulist", "0-7\n");
  CHECK(capture_local_cpus("0000:01:00.0", root.path()).size() == 8);
  CHECK(capture_local_cpus("", root.path()).empty());
}
