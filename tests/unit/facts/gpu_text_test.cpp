#include "ddprun/facts/gpu_text.hpp"

#include "catch.hpp"

using namespace ddprun;

TEST_CASE("the NVIDIA driver's text tells the device file") {
  const NvidiaInformation information = parse_nvidia_information(
      "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-1\nBus Location: \t 0000:c1:00.0\nDevice Minor: \t 3\n"
      "GPU Excluded:\t No\n");
  CHECK(information.minor == 3);
  CHECK_FALSE(information.excluded);
  CHECK(parse_nvidia_information("GPU Excluded:\t Yes\n").excluded);
  CHECK_FALSE(parse_nvidia_information("Device Minor: \t -1\nno colon\n").minor);
}

TEST_CASE("a KFD node is a GPU when it has SIMDs") {
  const auto gpu = parse_kfd_properties(
      "cpu_cores_count 0\nsimd_count 440\nlocation_id 49408\ndomain 1\ndrm_render_minor 131\n");
  REQUIRE(gpu);
  CHECK(gpu->pci_address == "0001:c1:00.0");
  CHECK(gpu->render_minor == 131);
  CHECK_FALSE(parse_kfd_properties("cpu_cores_count 64\nsimd_count 0\n"));
  CHECK_FALSE(parse_kfd_properties(""));
}

TEST_CASE("Intel's data-centre GPUs are told from graphics") {
  CHECK(parse_pci_id("0x8086\n") == 0x8086u);
  for (const char* text : {"", "0x", "8086", "0x80zz", "0x123456789"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_pci_id(text));
  }
  CHECK(is_intel_accelerator(0x8086, 0x0bd6));
  CHECK_FALSE(is_intel_accelerator(0x8086, 0x9a49));
  CHECK_FALSE(is_intel_accelerator(0x1a03, 0x0bd6));
}
