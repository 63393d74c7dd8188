#include "facts/proc_text.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("the NVIDIA driver's text tells the device file") {
  const NvidiaInformation information = parse_nvidia_information(
      "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-1\nBus Location: \t 0000:c1:00.0\nDevice Minor: \t 3\n"
      "GPU Excluded:\t No\n");
  const NvidiaInformation recorded = parse_nvidia_information(  // driver 580.159.04, one H100
      "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 41\n"
      "GPU UUID: \t GPU-cedf2c17-ecf9-ea2c-2d52-d974c1d9aff1\nVideo BIOS: \t 96.00.da.00.0c\n"
      "Bus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n"
      "Bus Location: \t 0000:00:06.0\nDevice Minor: \t 0\nGPU Firmware: \t 580.159.04\nGPU Excluded:\t No\n");
  CHECK(recorded.minor == 0);
  CHECK(recorded.uuid == "GPU-cedf2c17-ecf9-ea2c-2d52-d974c1d9aff1");
  CHECK(recorded.model == "NVIDIA H100 80GB HBM3");
  CHECK_FALSE(recorded.excluded);
  CHECK(information.minor == 3);
  CHECK(information.uuid == "GPU-1");
  CHECK(information.model == "NVIDIA H100");
  CHECK(parse_nvidia_information("GPU UUID: \t GPU-?\n").uuid.empty());
  CHECK_FALSE(information.excluded);
  CHECK(parse_nvidia_information("GPU Excluded:\t Yes\n").excluded);
  CHECK_FALSE(parse_nvidia_information("Device Minor: \t -1\nno colon\n").minor);
}

TEST_CASE("a KFD node is a GPU when it has SIMDs") {
  const auto gpu = parse_kfd_properties(
      "cpu_cores_count 0\nsimd_count 440\nlocation_id 49408\ndomain 1\ndrm_render_minor 131\n"
      "unique_id 16085394411391424921\n");
  REQUIRE(gpu);
  CHECK(gpu->pci_address == "0001:c1:00.0");
  CHECK(gpu->render_minor == 131);
  CHECK(gpu->uuid == "GPU-df3accfe3b0a1999");
  CHECK(parse_kfd_properties("simd_count 4\nunique_id 0\n")->uuid.empty());
  CHECK_FALSE(parse_kfd_properties("cpu_cores_count 64\nsimd_count 0\n"));
  CHECK_FALSE(parse_kfd_properties(""));
}

TEST_CASE("Intel's cards are told from graphics of processors") {
  CHECK(parse_pci_id("0x8086\n") == 0x8086u);
  for (const char* text : {"", "0x", "8086", "0x80zz", "0x123456789"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_pci_id(text));
  }
  CHECK(is_intel_accelerator(0x8086, 0x0bd6));
  CHECK(tiles_of_intel(0x0bd6) == 2);  // Max 1550
  CHECK(tiles_of_intel(0x0bda) == 1);  // Max 1100
  CHECK_FALSE(is_intel_accelerator(0x8086, 0x9a49));
  CHECK_FALSE(is_intel_accelerator(0x1a03, 0x0bd6));
}

TEST_CASE("a PCI device's class and vendor tell GPUs and network cards from the rest") {
  CHECK(judge_pci_device(0x0302, 0x10de, 0x2330) == DeviceKind::gpu);      // H100
  CHECK(judge_pci_device(0x0300, 0x10de, 0x2684) == DeviceKind::gpu);      // RTX 4090
  CHECK(judge_pci_device(0x0380, 0x1002, 0x7408) == DeviceKind::gpu);      // MI250X
  CHECK(judge_pci_device(0x1200, 0x1002, 0x74a0) == DeviceKind::gpu);      // MI300A
  CHECK(judge_pci_device(0x0300, 0x1002, 0x6860) == DeviceKind::gpu);      // MI25
  CHECK(judge_pci_device(0x0300, 0x1002, 0x66a1) == DeviceKind::gpu);      // MI50, MI60
  CHECK(judge_pci_device(0x0300, 0x1002, 0x7448) == DeviceKind::gpu);      // W7900
  CHECK_FALSE(judge_pci_device(0x0300, 0x1002, 0x164e));                   // graphics of a processor
  CHECK(judge_pci_device(0x0300, 0x8086, 0x56a0) == DeviceKind::gpu);      // Arc A770
  CHECK(judge_pci_device(0x0300, 0x8086, 0xe20b) == DeviceKind::gpu);      // Arc B580
  CHECK(judge_pci_device(0x0380, 0x8086, 0x0bd6) == DeviceKind::gpu);      // Max 1550
  CHECK(judge_pci_device(0x0207, 0x15b3, 0x1021) == DeviceKind::network);  // ConnectX-7
  CHECK(judge_pci_device(0x0200, 0x17db, 0x0501) == DeviceKind::network);  // Slingshot
  CHECK_FALSE(judge_pci_device(0x0300, 0x1a03, 0x2000));                   // ASPEED
  CHECK_FALSE(judge_pci_device(0x0300, 0x102b, 0x0522));                   // Matrox
  CHECK_FALSE(judge_pci_device(0x0300, 0x8086, 0x9a49));
  CHECK_FALSE(judge_pci_device(0x0403, 0x10de, 0x22ba));  // a GPU's sound
  CHECK_FALSE(judge_pci_device(0x0680, 0x10de, 0x22a3));  // NVSwitch
}
