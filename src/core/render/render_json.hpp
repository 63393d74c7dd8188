// Parts of the objects that render_json makes of a node's plan and of a remote launcher's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/duration.hpp"
#include "facts/snapshot.hpp"
#include "plan/finalise.hpp"

namespace ddprun::render {

template <class T>
nlohmann::ordered_json with_origin(const T& value, const std::string& origin) {
  return {{"value", value}, {"origin", origin}};
}

inline double seconds(Milliseconds duration) { return static_cast<double>(duration.count()) / 1000; }

nlohmann::ordered_json allocation_json(const allocation::Allocation& allocation);
nlohmann::ordered_json notices_json(const std::vector<allocation::Notice>& notices);
nlohmann::ordered_json binding_json(const plan::LaunchPlan& plan,
                                    const facts::HostFacts& host);  // null without a topology
nlohmann::ordered_json worker_binding_json(const facts::Binding& binding,
                                           const facts::HostFacts& host);  // null: unbound
nlohmann::ordered_json worker_gpus_json(const plan::PlannedWorker& worker, const facts::HostFacts& host);

}  // namespace ddprun::render
