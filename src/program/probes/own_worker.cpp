#include "probes/own_worker.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::probes {

OwnWorker read_own_worker(const facts::Snapshot& snapshot, const std::string& option) {
  const auto number_of = [&](const char* name) {
    const auto value = facts::find_variable(snapshot, name);
    const auto number = value ? parse_integer(*value) : std::nullopt;
    if (number && *number >= 0) return static_cast<int>(*number);
    throw Error(fmt::format("{} is internal to ddprun: {} is not set", option, name), "leave it out");
  };
  return {number_of("RANK"), number_of("WORLD_SIZE"),
          facts::find_variable(snapshot, "MASTER_ADDR").value_or(""), number_of("MASTER_PORT")};
}

}  // namespace ddprun::probes
