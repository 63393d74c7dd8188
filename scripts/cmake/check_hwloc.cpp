// Whether this static hwloc links with what we link it with.
#include <hwloc.h>

int main() {
  hwloc_topology_t topology;
  return hwloc_topology_init(&topology) + hwloc_topology_load(topology);
}
