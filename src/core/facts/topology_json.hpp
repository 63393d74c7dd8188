// The JSON of a topology, alone or inside a snapshot.
#pragma once

#include <nlohmann/json.hpp>

#include "facts/json_reader.hpp"
#include "facts/topology.hpp"

namespace ddprun::facts {

using OrderedJson = nlohmann::ordered_json;

inline constexpr const char* k_cpu_list = "a list of CPUs such as 0-3,8";

OrderedJson render_topology_object(const Topology& topology);
Topology read_topology(JsonReader object);

}  // namespace ddprun::facts
