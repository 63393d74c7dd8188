#include "options/bind_choice.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::options;

namespace {

using Lists = std::vector<std::vector<int>>;

Lists lists_of(const std::string& text) {
  const BindChoice choice = parse_bind(text, "--bind");
  CHECK(choice.mode == BindMode::lists);
  return choice.lists;
}

std::string bind_error(const std::string& text) {
  return usage_error_of([&] { parse_bind(text, "--bind"); });
}

}  // namespace

TEST_CASE("a way to bind is one word") {
  for (const BindMode mode : {BindMode::automatic, BindMode::none, BindMode::node, BindMode::socket,
                              BindMode::exclusive, BindMode::core_complex}) {
    const BindChoice choice = parse_bind(to_string(mode), "--numa-binding");
    CHECK(choice.mode == mode);
    CHECK(choice.lists.empty());
    CHECK(choice.origin == "--numa-binding");
  }
  CHECK(to_string(BindMode::automatic) == "auto");
  CHECK(to_string(BindMode::core_complex) == "core-complex");
  CHECK(to_string(BindMode::lists) == "lists");
}

TEST_CASE("CPUs are lists with colons between the workers") {
  CHECK(lists_of("cpu:0-2,8") == Lists{{0, 1, 2, 8}});
  CHECK(lists_of("cpu:0-1:4:6-7") == Lists{{0, 1}, {4}, {6, 7}});
  CHECK(lists_of("list:1-2:9-10") == Lists{{1, 2}, {9, 10}});
  CHECK(lists_of("core:9,3,0-1,3") == Lists{{0, 1, 3, 9}});
  CHECK(lists_of("cpu:65535") == Lists{{65535}});
}

TEST_CASE("only core: means the siblings too") {
  CHECK(parse_bind("core:0-3", "").whole_cores);
  for (const char* text : {"cpu:0-3", "list:0-3", "mask:f", "mask_cpu:f", "map_cpu:0", "node"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bind(text, "").whole_cores);
  }
}

TEST_CASE("masks are hexadecimal with commas between the workers") {
  CHECK(lists_of("mask:f") == Lists{{0, 1, 2, 3}});
  CHECK(lists_of("mask:0x81,C000") == Lists{{0, 7}, {14, 15}});
  CHECK(lists_of("mask_cpu:0x3*2,0xc") == Lists{{0, 1}, {0, 1}, {2, 3}});
  // LUMI's documented mask of the cores that are left in the seventh L3.
  CHECK(lists_of("mask_cpu:fe000000000000") == Lists{{49, 50, 51, 52, 53, 54, 55}});
}

TEST_CASE("srun's map names one CPU a worker") {
  CHECK(lists_of("map_cpu:49,57,17") == Lists{{49}, {57}, {17}});
  CHECK(lists_of("map_cpu:4*3") == Lists{{4}, {4}, {4}});
}

TEST_CASE("what is no binding is named with the nearest that is") {
  CHECK(bind_error("sockets") == "unknown --bind mode 'sockets' | did you mean socket?");
  const std::string forms =
      " | give one of auto, near, none, node, socket, exclusive, core-complex, or CPUs as in core:0-7:8-15, "
      "cpu:0-7 or mask:ff,ff00";
  CHECK(bind_error("") == "unknown --bind mode ''" + forms);
  CHECK(bind_error("0-7") == "unknown --bind mode '0-7'" + forms);
  CHECK(bind_error("numa:0") == "unknown --bind mode 'numa:0'" + forms);
  CHECK(bind_error("\x1b[m") == "unknown --bind mode '\\x1b[m'" + forms);
}

TEST_CASE("a list, a mask or a CPU that cannot be read is shown") {
  const std::string list = " | write a list for each worker, as in core:0-7:8-15";
  for (const char* piece : {"", "x", "3-1", "1,,2", "-1", "65536", "0-31/2"}) {
    CHECK(bind_error(std::string("core:0-7:") + piece) ==
          "--bind has '" + std::string(piece) + "' where a list of CPUs belongs" + list);
  }
  const std::string mask = " | write a hexadecimal mask for each worker, as in mask:ff,ff00; bit 0 is CPU 0";
  for (const char* piece : {"", "0x", "fg", "f*", "f*0", "f*-1", "*2"}) {
    CHECK(bind_error(std::string("mask:f,") + piece) ==
          "--bind has '" + std::string(piece) + "' where a mask of CPUs belongs" + mask);
  }
  CHECK(bind_error("mask:0x00") == "--bind has an empty mask: '0x00'" + mask);
  CHECK(bind_error("map_cpu:0,a") ==
        "--bind has 'a' where a CPU belongs | write a CPU for each worker, as in map_cpu:0,8,16,24");
  CHECK(bind_error("map_cpu:65536") ==
        "--bind has '65536' where a CPU belongs | write a CPU for each worker, as in map_cpu:0,8,16,24");
}

TEST_CASE("lists have limits") {
  CHECK(lists_of("map_cpu:0*4096").size() == 4096);
  CHECK(bind_error("map_cpu:0*4097") ==
        "--bind describes more than 4096 workers | write a CPU for each worker, as in map_cpu:0,8,16,24");
  CHECK(bind_error("map_cpu:1,0*4096") ==
        "--bind describes more than 4096 workers | write a CPU for each worker, as in map_cpu:0,8,16,24");
  CHECK(lists_of("cpu:0-32767:32768-65535").size() == 2);
  CHECK(bind_error("cpu:0-65535:0") ==
        "--bind names more than 65536 CPUs | write a list for each worker, as in core:0-7:8-15");
  const std::string digits(16384, 'f');
  CHECK(lists_of("mask:" + digits).front().back() == 65535);
  CHECK(bind_error("mask:" + digits + "f").starts_with("--bind has 'ffff"));
}
