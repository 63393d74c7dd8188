// A description of a node that anybody may have written: refused with a sentence, or the same when it is
// written again.
#include "facts/topology.hpp"
#include "promise.hpp"

using namespace ddprun;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  fuzz::try_to([&] {
    const facts::Topology topology = facts::parse_topology(text, "fuzz.json");
    require(!topology.cores.empty() && !topology.nodes.empty());
    for (const facts::Core& core : topology.cores) {
      require(core.package >= 0 && core.package < topology.packages);
      require(core.node >= 0 && static_cast<std::size_t>(core.node) < topology.nodes.size());
    }
    require(facts::parse_topology(facts::render_topology(topology), "fuzz.json") == topology);
  });
  return 0;
}
