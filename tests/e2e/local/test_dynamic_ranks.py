"""Hosts started by hand without --node-rank, as most people start torchrun."""

from __future__ import annotations

import os

import pytest

from support import evidence
from support.manual import PORT, as_text, codes, wait_all, wait_for_files, wait_for_listener
from support.hosts import HostGroup, Process
from support.programs import SCRIPTS

ALLREDUCE = str(SCRIPTS / "allreduce.py")
PRINT = str(SCRIPTS / "print_env.py")


def start(hosts: HostGroup, name: str, endpoint: str, *arguments: str, nodes: int = 2) -> Process:
    return hosts[name].popen(["ddprun", "--nnodes", str(nodes), "--rdzv-backend", "c10d", "--rdzv-endpoint",
                              f"{endpoint}:{PORT}", *arguments])


def places(directory) -> list[tuple]:
    return sorted((*evidence.numbers(worker, "RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"), worker["host"])
                  for worker in evidence.workers(directory))


@pytest.mark.usefixtures("torch_python")
def test_two_hosts_without_node_rank(hosts, key):
    results = wait_all([start(hosts, name, hosts["b"].address, "--key-file", key, ALLREDUCE) for name in "ab"])
    assert codes(results) == [0, 0], as_text(results)
    assert "rank 1 of 2: sum 1" in results[0].stdout, str(results[0])
    assert "rank 0 of 2: sum 1" in results[1].stdout, str(results[1])


def test_the_host_of_the_endpoint_is_node_0_and_others_follow_as_they_come(hosts, directory, key):
    arguments = ["--key-file", key, "--nproc-per-node", "2", PRINT, str(directory)]
    early = start(hosts, "a", hosts["b"].address, *arguments)
    owner = start(hosts, "b", hosts["b"].address, *arguments)
    results = wait_all([early, owner])
    assert codes(results) == [0, 0], as_text(results)
    assert places(directory) == [(0, 0, 0, 2, "b"), (1, 0, 1, 2, "b"), (2, 1, 0, 2, "a"), (3, 1, 1, 2, "a")]


def test_two_agents_of_one_host_at_one_endpoint(hosts, directory, key):
    arguments = ["--key-file", key, "--nproc-per-node", "2", PRINT, str(directory)]
    results = wait_all([start(hosts, "a", "localhost", *arguments) for _ in range(2)])
    assert codes(results) == [0, 0], as_text(results)
    assert places(directory) == [(0, 0, 0, 2, "a"), (1, 0, 1, 2, "a"), (2, 1, 0, 2, "a"), (3, 1, 1, 2, "a")]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_two_agents_of_one_host_do_not_share_cores(hosts, directory, key):
    arguments = ["--key-file", key, "--no-python", "sh", "-c", f"taskset -cp $$ > {directory}/cpus.$RANK"]
    results = wait_all([start(hosts, "a", hosts["a"].address, *arguments) for _ in range(2)])
    assert codes(results) == [0, 0], as_text(results)
    first, second = ((directory / f"cpus.{rank}").read_text().split(":")[1].strip() for rank in (0, 1))
    assert first != second


def test_places_are_kept_over_a_restart(hosts, directory, key):
    program = (f"cd {directory}; hostname > $RANK.new; mv $RANK.new $RANK.$TORCHELASTIC_RESTART_COUNT; "
               "until [ $(ls *.$TORCHELASTIC_RESTART_COUNT | wc -l) = 3 ]; do sleep 0.05; done; "
               "[ $TORCHELASTIC_RESTART_COUNT = 2 ]")
    arguments = ["--key-file", key, "--max-restarts", "2", "--restart-policy", "always", "--no-python", "sh", "-c", program]
    owner = start(hosts, "a", hosts["a"].address, *arguments, nodes=3)
    wait_for_listener(hosts, "a")
    results = wait_all([owner, *(start(hosts, name, hosts["a"].address, *arguments, nodes=3) for name in "cb")])
    assert codes(results) == [0, 0, 0], as_text(results)
    for rank in range(3):
        names = {(directory / f"{rank}.{attempt}").read_text() for attempt in range(3)}
        assert len(names) == 1, (rank, names)


def test_one_too_many_is_refused_and_the_others_run(hosts, directory, key):
    program = f"touch {directory}/ready.$RANK; while [ ! -e {directory}/go ]; do sleep 0.05; done"
    arguments = ["--key-file", key, "--no-python", "sh", "-c", program]
    both = [start(hosts, name, hosts["a"].address, *arguments) for name in "ab"]
    wait_for_files(directory, "ready.*", 2)
    third = start(hosts, "c", hosts["a"].address, *arguments).wait()
    assert third.code != 0, str(third)
    (directory / "go").touch()
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
