"""ddprun as a person starts it on every host, and what those runs said."""

from __future__ import annotations

from collections.abc import Sequence

from .hosts import HostGroup, Process, Result, wait_until

PORT = "29500"  # the hosts are this run's own: nobody else can have taken it


def start(hosts: HostGroup, node: int, *arguments: str, address: str = "", nodes: int = 2, env=None) -> Process:
    """ddprun on host a (node 0), b (node 1) and so on."""
    return hosts["abcd"[node]].popen(
        ["ddprun", "--nnodes", str(nodes), "--node-rank", str(node), "--master-addr", address or hosts["a"].address,
         "--master-port", PORT, *arguments], env=env)


def start_all(hosts: HostGroup, *arguments: str, nodes: int = 2, **more) -> list[Process]:
    return [start(hosts, node, *arguments, nodes=nodes, **more) for node in range(nodes)]


def wait_all(processes: Sequence[Process]) -> list[Result]:
    return [process.wait() for process in processes]


def codes(results: Sequence[Result]) -> list[int]:
    return [result.code for result in results]


def as_text(results: Sequence[Result]) -> str:
    return "\n".join(str(result) for result in results)


def wait_for_files(directory, pattern: str, count: int) -> None:
    wait_until(f"{count} workers have left {pattern}", lambda: len(list(directory.glob(pattern))) == count)


def wait_for_listener(hosts: HostGroup, name: str, port: str = PORT) -> None:
    listening = ["ss", "-Hltn", f"sport = :{port}"]
    wait_until(f"{name} listens on port {port}", lambda: hosts[name].check(listening).strip() != "")
