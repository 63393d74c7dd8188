#include <fmt/format.h>

#include "allocation/places/host_text.hpp"
#include "allocation/places/place_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::place_rows {

namespace {

constexpr const char* k_hosts_file = "/etc/hosts";

// Returns ".svc.ns.svc.cluster.local" of this pod's line in /etc/hosts, which kubelet writes if the pod has a
// subdomain; empty if it has none.
std::string find_own_domain(const facts::Snapshot& snapshot) {
  const auto file = snapshot.files.find(k_hosts_file);
  if (file == snapshot.files.end()) return {};
  const std::string start = snapshot.host.name + ".";
  for (const std::string& line : split(file->second, '\n')) {
    for (const std::string& word : split_words(line.substr(0, line.find('#')))) {
      if (word.starts_with(start)) return word.substr(start.size() - 1);
    }
  }
  return {};
}

// Counts by the flag, else by one of the names that manifests give it.
std::optional<Sourced<int>> count_pods(const PlaceView& view) {
  if (view.options.nodes) return view.options.nodes;
  if (const auto count = find_node_count(view.variables)) return count;
  return read_count(view.variables, "WORLD_SIZE");
}

}  // namespace

std::optional<FoundPlace> read_indexed_job(const PlaceView& view) {
  const auto index = read_index(view.variables, "JOB_COMPLETION_INDEX");
  const std::string& own = view.snapshot.host.name;
  const std::string ending = index ? fmt::format("-{}", index->value) : std::string();
  if (!index || own.size() <= ending.size() || !own.ends_with(ending)) return std::nullopt;
  const auto count = count_pods(view);
  const std::string domain = find_own_domain(view.snapshot);
  if (!count) {
    if (domain.empty()) return std::nullopt;  // no pod can find another by name
    throw Error(
        fmt::format("JOB_COMPLETION_INDEX={} is set, but not how many pods the job has", index->value),
        "add --nnodes with the completions of the job, or --nnodes 1 to use this pod alone");
  }
  FoundPlace place = make_place("Indexed Job", index->origin, *count);
  place.rank = *index;
  const std::string job = own.substr(0, own.size() - ending.size());
  place.job = sourced(job, "host name");
  place.address =
      sourced(read_host_text(job + "-0" + domain, "the host name").host,
              domain.empty() ? std::string("host name") : fmt::format("host name and {}", k_hosts_file));
  return place;
}

}  // namespace ddprun::allocation::place_rows
