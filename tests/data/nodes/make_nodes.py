#!/usr/bin/env python3
"""Writes the node of each machine below as <machine>/node.json (a topology as --topology reads it) and
<machine>/facts.json: where the map is from, which CPUs a job may use, and for each device that gets a worker
the CPUs near it and those its worker is expected to have. Expected CPUs and maps are written by hand.

GPUs are in the order of their PCI addresses; the addresses themselves only have to give that order.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

GIB = 1 << 30


def numbers(text: str) -> list[int]:
    found = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def as_list(cpus: list[int]) -> str:
    parts = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


@dataclass
class Machine:
    name: str
    source: str
    caches: list[int]  # cores of each L3 group, in core order
    caches_per_node: int
    nodes_per_package: int
    gigabytes: int  # of each NUMA node with cores
    distances: list[str]
    # For each GPU: PCI address, the NUMA node it is near, the CPUs each of its workers is expected to have.
    gpus: list[tuple[str, int, list[str]]] = field(default_factory=list)
    threads: int = 2
    reserved: str = ""  # CPUs kept from jobs
    memory_only: dict[int, int] = field(default_factory=dict)  # further NUMA nodes and their GiB
    siblings: list[str] | None = None  # the CPUs of each core, where they are numbered another way
    slow: str = ""  # CPUs of the slow cores of a hybrid processor
    vendor: str = ""  # of the GPUs

    def cores(self) -> list[tuple[int, list[int]]]:
        """The L3 group and the CPUs of each core: first all first threads, then all second ones."""
        groups = [group for group, size in enumerate(self.caches) for _ in range(size)]
        if self.siblings:
            return [(group, numbers(cpus)) for group, cpus in zip(groups, self.siblings, strict=True)]
        return [(group, [core + thread * len(groups) for thread in range(self.threads)])
                for core, group in enumerate(groups)]

    def node_of(self, group: int) -> int:
        return group // self.caches_per_node

    def node_cpus(self, node: int) -> list[int]:
        return [cpu for group, cpus in self.cores() for cpu in cpus if self.node_of(group) == node]

    def kind(self, cpus: list[int]) -> int:
        return 1 if cpus[0] in numbers(self.slow) else 0

    def device(self, address: str, node: int, workers: list[str]) -> dict:
        """A GPU; with several workers it has as many parts."""
        found = {"kind": "gpu", "address": address, "cpus": as_list(self.node_cpus(node))}
        if self.vendor:
            found["vendor"] = self.vendor
        if len(workers) > 1:
            found["parts"] = len(workers)
        return found

    def topology(self) -> dict:
        count = self.node_of(len(self.caches) - 1) + 1
        nodes = [{"number": node, "cpus": as_list(self.node_cpus(node)), "bytes": self.gigabytes * GIB}
                 for node in range(count)]
        nodes += [{"number": node, "cpus": "", "bytes": size * GIB} for node, size in self.memory_only.items()]
        rows = []
        for group in range(len(self.caches)):
            node = self.node_of(group)
            for kind in (0, 1):
                cores = [as_list(cpus) for each, cpus in self.cores() if each == group and self.kind(cpus) == kind]
                row = {"package": node // self.nodes_per_package, "node": node, "cache": group}
                if kind:
                    row["kind"] = kind
                if cores:
                    rows.append(row | {"cores": " ".join(cores)})
        found = {"source": f"{self.name}/node.json", "packages": count // self.nodes_per_package, "nodes": nodes,
                 "cores": rows, "distances": self.distances}
        if self.gpus:
            found["devices"] = [self.device(*gpu) for gpu in self.gpus]
        return found

    def facts(self) -> dict:
        every = [cpu for _, cpus in self.cores() for cpu in cpus]
        workers = [{"near": as_list(self.node_cpus(node)), "expected": cpus}
                   for _, node, each in self.gpus for cpus in each]
        return {"source": self.source,
                "allowed": as_list(sorted(set(every) - set(numbers(self.reserved)))), "workers": workers}


def table(count: int, package: int, near: int, far: int, own: int = 10) -> list[str]:
    """Distances of `count` nodes, `package` of them in each package."""
    return [" ".join(str(own if a == b else near if a // package == b // package else far) for b in range(count))
            for a in range(count)]


def grace_hopper_distances() -> list[str]:
    """Nodes 0-3 have the CPUs, 4-11 belong to the GPU of node 0, and so on."""
    def owner(node: int) -> int:
        return node if node < 4 else (node - 4) // 8

    def distance(a: int, b: int) -> int:
        if a == b:
            return 10
        if a < 4 and b < 4:
            return 40
        if a >= 4 and b >= 4:
            return 255
        return 80 if owner(a) == owner(b) else 120

    return [" ".join(str(distance(a, b)) for b in range(36)) for a in range(36)]


MACHINES = [
    Machine("polaris", "argonne-lcf/user-guides, docs/polaris/index.md", [4] * 8, 2, 4, 128, table(4, 4, 12, 12),
            [("0000:07:00.0", 3, ["24-31,56-63"]), ("0000:46:00.0", 2, ["16-23,48-55"]),
             ("0000:85:00.0", 1, ["8-15,40-47"]), ("0000:c7:00.0", 0, ["0-7,32-39"])]),
    Machine("perlmutter", "NERSC documentation, Perlmutter architecture", [8] * 8, 2, 4, 64, table(4, 4, 12, 12),
            [("0000:03:00.0", 3, ["48-63,112-127"]), ("0000:41:00.0", 2, ["32-47,96-111"]),
             ("0000:82:00.0", 1, ["16-31,80-95"]), ("0000:c1:00.0", 0, ["0-15,64-79"])]),
    # The first core of each L3 group is the system's.
    Machine("frontier", "OLCF Frontier user guide; LUMI distribution and binding", [8] * 8, 2, 4, 128,
            table(4, 4, 12, 12),
            [("0000:c1:00.0", 3, ["49-55,113-119"]), ("0000:c6:00.0", 3, ["57-63,121-127"]),
             ("0000:c9:00.0", 1, ["17-23,81-87"]), ("0000:ce:00.0", 1, ["25-31,89-95"]),
             ("0000:d1:00.0", 0, ["1-7,65-71"]), ("0000:d6:00.0", 0, ["9-15,73-79"]),
             ("0000:d9:00.0", 2, ["33-39,97-103"]), ("0000:de:00.0", 2, ["41-47,105-111"])],
            reserved="0,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120"),
    Machine("juwels-booster", "nvidia-smi topo -m in a public report; POP gpu-affinity", [3] * 16, 2, 4, 64,
            table(8, 4, 12, 32),
            [("0000:03:00.0", 3, ["12-23,60-71"]), ("0000:44:00.0", 1, ["0-11,48-59"]),
             ("0000:84:00.0", 7, ["36-47,84-95"]), ("0000:c4:00.0", 5, ["24-35,72-83"])]),
    Machine("jusuf", "constructed: 2 EPYC 7742 in NPS4 and a single GPU, as JSC documents JUSUF", [4] * 32, 4, 4, 32,
            table(8, 4, 12, 32), [("0000:01:00.0", 3, ["0-63,128-191"])]),
    Machine("h100-snc4", "constructed: 2 Xeon 8480+ in SNC4 and four H100", [14] * 8, 1, 4, 128, table(8, 4, 12, 21),
            [("0000:1b:00.0", 0, ["0-13,42-55,112-125,154-167"]), ("0000:43:00.0", 1, ["14-41,126-153"]),
             ("0000:9d:00.0", 5, ["56-83,168-195"]), ("0000:df:00.0", 7, ["84-111,196-223"])]),
    Machine("dgx-a100", "public script for DGX A100", [4] * 32, 4, 4, 128, table(8, 4, 12, 32),
            [("0000:07:00.0", 3, ["32-39,48-55,160-167,176-183"]), ("0000:0f:00.0", 3, ["40-47,56-63,168-175,184-191"]),
             ("0000:47:00.0", 1, ["0-7,16-23,128-135,144-151"]), ("0000:4e:00.0", 1, ["8-15,24-31,136-143,152-159"]),
             ("0000:87:00.0", 7, ["96-103,112-119,224-231,240-247"]),
             ("0000:90:00.0", 7, ["104-111,120-127,232-239,248-255"]),
             ("0000:b7:00.0", 5, ["64-71,80-87,192-199,208-215"]),
             ("0000:bd:00.0", 5, ["72-79,88-95,200-207,216-223"])]),
    Machine("dgx-h100", "public script for DGX H100", [56] * 2, 1, 1, 1024, table(2, 1, 21, 21),
            [("0000:1b:00.0", 0, ["0-13,112-125"]), ("0000:43:00.0", 0, ["14-27,126-139"]),
             ("0000:52:00.0", 0, ["28-41,140-153"]), ("0000:61:00.0", 0, ["42-55,154-167"]),
             ("0000:9d:00.0", 1, ["56-69,168-181"]), ("0000:c3:00.0", 1, ["70-83,182-195"]),
             ("0000:d1:00.0", 1, ["84-97,196-209"]), ("0000:df:00.0", 1, ["98-111,210-223"])]),
    # 36 NUMA nodes: 4, 12, 20 and 28 are the GPUs' memory, their neighbours are kept for MIG instances.
    Machine("gh200", "JSC, JEDI affinity", [72] * 4, 1, 1, 120, grace_hopper_distances(),
            [("0009:01:00.0", 0, ["0-71"]), ("0019:01:00.0", 1, ["72-143"]),
             ("0029:01:00.0", 2, ["144-215"]), ("0039:01:00.0", 3, ["216-287"])],
            threads=1, memory_only={node: 96 if node % 8 == 4 else 0 for node in range(4, 36)}),
    # Nodes 2 and 3 are HBM. Cores 0 and 52 are the system's: 51 are left for six tiles. The site's own list
    # (1-8:9-16:17-24:...) has eight for each and leaves three over.
    Machine("aurora", "argonne-lcf/user-guides, running-jobs-aurora.md", [52] * 2, 1, 1, 512,
            ["10 21 13 23", "21 10 23 13", "13 23 10 23", "23 13 23 10"],
            [("0000:18:00.0", 0, ["1-9,105-113", "10-18,114-122"]),
             ("0000:42:00.0", 0, ["19-27,123-131", "28-35,132-139"]),
             ("0000:6c:00.0", 0, ["36-43,140-147", "44-51,148-155"]),
             ("0001:18:00.0", 1, ["53-61,157-165", "62-70,166-174"]),
             ("0001:42:00.0", 1, ["71-79,175-183", "80-87,184-191"]),
             ("0001:6c:00.0", 1, ["88-95,192-199", "96-103,200-207"])],
            reserved="0,52,104,156", memory_only={2: 64, 3: 64}, vendor="intel"),
    Machine("max-1550", "constructed: 2 Xeon 8480+ and four Max 1550, whose two tiles are devices in flat mode",
            [56] * 2, 1, 1, 512, table(2, 1, 21, 21),
            [("0000:29:00.0", 0, ["0-13,112-125", "14-27,126-139"]), ("0000:3a:00.0", 0, ["28-41,140-153", "42-55,154-167"]),
             ("0000:9a:00.0", 1, ["56-69,168-181", "70-83,182-195"]),
             ("0000:ca:00.0", 1, ["84-97,196-209", "98-111,210-223"])], vendor="intel"),
    Machine("mi300a", "flux-core, t/hwloc-data/tuo", [8] * 12, 3, 1, 128, table(4, 1, 32, 32),
            [("0000:01:00.0", 0, ["0-23,96-119"]), ("0001:01:00.0", 1, ["24-47,120-143"]),
             ("0002:01:00.0", 2, ["48-71,144-167"]), ("0003:01:00.0", 3, ["72-95,168-191"])]),
    # The same in CPX mode, six devices a socket, and in TPX mode, three.
    Machine("mi300a-cpx", "flux-core, t/hwloc-data/tuo.CPX.xml", [8] * 12, 3, 1, 128, table(4, 1, 32, 32),
            [(f"000{n}:01:00.0", n, [f"{c}-{c + 3},{c + 96}-{c + 99}" for c in range(24 * n, 24 * n + 24, 4)])
             for n in range(4)], vendor="amd"),
    Machine("mi300a-tpx", "flux-core, t/hwloc-data/tuo.TPX.xml", [8] * 12, 3, 1, 128, table(4, 1, 32, 32),
            [(f"000{n}:01:00.0", n, [f"{c}-{c + 7},{c + 96}-{c + 103}" for c in range(24 * n, 24 * n + 24, 8)])
             for n in range(4)], vendor="amd"),
    Machine("sd665-n", "prrte, test/topologies/turin-4gpu-nvml.xml", [8] * 16, 2, 4, 96, table(8, 4, 12, 32),
            [("0000:03:00.0", 1, ["0-31,128-159"]), ("0000:44:00.0", 2, ["32-63,160-191"]),
             ("0000:84:00.0", 6, ["64-79,96-111,192-207,224-239"]),
             ("0000:c4:00.0", 7, ["80-95,112-127,208-223,240-255"])]),
    Machine("four-l3", "constructed: 176 threads in two packages, four NUMA nodes with an L3 each", [22] * 4, 1, 2, 176,
            table(4, 2, 12, 21)),
    Machine("hybrid", "constructed: six fast cores with two threads, eight slow ones with one", [14], 1, 1, 32, ["10"],
            siblings=[*(f"{2 * core}-{2 * core + 1}" for core in range(6)), *map(str, range(12, 20))], slow="12-19"),
    # Four fast cores with two threads, eight slow ones with one; no GPU that counts.
    Machine("laptop", "constructed: a laptop's processor with two kinds of cores", [12], 1, 1, 16, ["10"],
            siblings=["0-1", "2-3", "4-5", "6-7", *map(str, range(8, 16))], slow="8-15"),
    # Even CPUs in one socket, odd ones in the other, as some firmware numbers them.
    Machine("two-sockets", "constructed: two sockets of 12 cores without GPUs", [12] * 2, 1, 1, 256,
            table(2, 1, 21, 21),
            siblings=[f"{2 * core + package},{2 * core + package + 24}" for package in (0, 1) for core in range(12)]),
]


def main() -> None:
    for machine in MACHINES:
        folder = Path(__file__).parent / machine.name
        folder.mkdir(exist_ok=True)
        for name, content in (("node", machine.topology()), ("facts", machine.facts())):
            (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
