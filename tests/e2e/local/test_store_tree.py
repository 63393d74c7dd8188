"""--store tree: the workers of a host reach the store through a relay on it."""

from __future__ import annotations

import signal

import pytest

from support import evidence
from support.manual import as_text, codes, start, wait_all, wait_for_files

# Says whether this process has a connection to the store itself, and what a group of gloo computes.
MEET = """
import os, sys, time
import torch, torch.distributed as dist

def holds_connection_to(port):
    mine = {os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{number}")}
    for name in ("tcp", "tcp6"):
        for row in open(f"/proc/net/{name}").readlines()[1:]:
            fields = row.split()
            if int(fields[2].split(":")[1], 16) == port and f"socket:[{fields[9]}]" in mine:
                return True
    return False

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GROUP
store.set(f"from/{rank}", str(rank))
seen = [int(store.get(f"from/{other}")) for other in range(world)]
store.add("counted", 1)
while store.add("counted", 0) < world:
    time.sleep(0.01)
if rank == 0:
    store.set("from/0", "changed")
    store.set("told", "1")
assert store.get("told") == b"1" and store.get("from/0") == b"changed"
direct = holds_connection_to(int(os.environ["MASTER_PORT"]))
print(f"rank {rank} seen {seen} {'direct' if direct else 'by relay'}", flush=True)
FINISH
"""
GROUP = """
dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
group = dist.new_group(range(world))
dist.all_reduce(value, group=group)
assert int(value) == world * world
store = dist.distributed_c10d._get_default_store()
"""
STORE = 'store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world)'
END = "dist.barrier(); dist.destroy_process_group()"


def run(hosts, directory, key, node, *options, nodes, meet: str = GROUP, finish: str = END, env=None):
    path = directory / "meet.py"
    path.write_text(MEET.replace("GROUP", meet).replace("FINISH", finish))
    return start(hosts, node, "--key-file", key, "--nproc-per-node", "2", *options, str(path), nodes=nodes, env=env)


def lines_of(results) -> list[str]:
    return sorted(line for result in results for line in result.stdout.splitlines() if line.startswith("rank "))


def expected(world: int, on_root: int) -> list[str]:
    return sorted(f"rank {rank} seen {list(range(world))} {'direct' if rank < on_root else 'by relay'}"
                  for rank in range(world))


def test_workers_of_other_hosts_meet_through_relays(hosts, directory, key):
    agents = [run(hosts, directory, key, node, "--store", "tree:2", nodes="4") for node in range(4)]
    results = wait_all(agents)
    assert codes(results) == [0, 0, 0, 0], as_text(results)
    assert lines_of(results) == expected(8, on_root=2), as_text(results)


@pytest.mark.parametrize("switches", [("GLOO_ENABLE_STORE_V2_API", "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER"), ("TORCH_GLOO_LAZY_INIT",)])
def test_switches_of_gloo_that_the_user_sets_work_through_relays(hosts, directory, key, switches):
    """ddprun sets none of them (docs/store.md)."""
    agents = [run(hosts, directory, key, node, "--store", "tree:2", nodes="4", env=dict.fromkeys(switches, "1")) for node in range(4)]
    results = wait_all(agents)
    assert codes(results) == [0, 0, 0, 0], as_text(results)
    assert lines_of(results) == expected(8, on_root=2), as_text(results)


@pytest.mark.parametrize("options", [("--store", "flat"), ("--store", "tree", "--no-inspect"), ()])
def test_without_relays_workers_reach_the_store_itself(hosts, directory, key, options):
    results = wait_all([run(hosts, directory, key, node, *options, nodes="2") for node in range(2)])
    assert codes(results) == [0, 0], as_text(results)
    assert lines_of(results) == expected(4, on_root=4), as_text(results)


def test_a_relay_that_cannot_reach_its_parent_connects_to_the_store(hosts, directory, key):
    """That of d is the one on b."""
    hosts["b"].check(["ip", "route", "add", "blackhole", hosts["d"].address + "/32"])
    try:
        agents = [run(hosts, directory, key, node, "--store", "tree:2", "-v", nodes="4", meet=STORE, finish="") for node in range(4)]
        results = wait_all(agents)
    finally:
        hosts["b"].check(["ip", "route", "del", "blackhole", hosts["d"].address + "/32"])
    assert codes(results) == [0, 0, 0, 0], as_text(results)
    assert lines_of(results) == expected(8, on_root=2), as_text(results)
    assert "the relay to the store on d does not reach its parent" in results[3].stderr, as_text(results)


def test_a_lost_inner_host_is_a_lost_host(hosts, directory, key):
    """b serves d's relay. Its loss starts all again, without a key of the attempt before."""
    meet = ("first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'\n" + STORE +
            "\nif not first: assert not store.check(['of the first'])\nstore.add('arrived', 1)"
            "\nwhile store.add('arrived', 0) < world: time.sleep(0.01)\n")
    finish = f"""
if first:
    store.set("of the first", "1")
    open(f"{directory}/met.{{rank}}", "w").close()
    time.sleep(600)
"""
    agents = [run(hosts, directory, key, node, "--store", "tree:2", "--host-timeout", "7", "--rdzv-conf", "last_call_timeout=20", nodes="3:4", meet=meet, finish=finish)
              for node in range(4)]
    wait_for_files(directory, "met.*", 8)
    agents[1].send_signal(signal.SIGKILL)
    results = wait_all([agents[0], agents[2], agents[3]])
    assert codes(results) == [0, 0, 0], as_text(results)
    assert [line for line in lines_of(results) if f"seen {list(range(6))} " in line] == expected(6, on_root=2), as_text(results)
    assert evidence.times_said(results[0].stderr, "lost b") == 1, as_text(results)
