"""Hosts that are not alike (support/unlike_hosts.py): which addresses and interfaces the workers get."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import evidence, programs
from support import hosts as hosts_module
from support.by_hand import PORT, as_text, codes, wait_all
from support.hosts import Process
from support.programs import SCRIPTS
from support.unlike_hosts import UnlikeHosts

ALL_TO_ALL = str(SCRIPTS / "all_to_all.py")


@pytest.fixture(scope="module")
def unlike_group(binary) -> Iterator[UnlikeHosts]:
    reason = hosts_module.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    path = [str(programs.binary_directory()), str(programs.python_directory())]
    with UnlikeHosts(["a", "b", "c"], kept=programs.kept_paths(), path=path) as group:
        yield group


@pytest.fixture
def hosts(unlike_group) -> Iterator[UnlikeHosts]:
    yield unlike_group
    unlike_group.kill_started()


def start_on(hosts: UnlikeHosts, places: str, *arguments: str, address: str = "a", **more) -> list[Process]:
    """"aab": two agents on a and one on b, by hand."""
    return [hosts[name].popen(
        ["ddprun", "--nnodes", str(len(places)), "--node-rank", str(node), "--master-addr", address, "--master-port",
         PORT, *arguments], **more) for node, name in enumerate(places)]


@pytest.mark.usefixtures("torch_python")
def test_two_agents_of_the_coordinator_s_host_and_debian_s_own_names(hosts, key):
    with hosts.own_name_on_loopback():
        results = wait_all(start_on(hosts, "aabb", "--key-file", key, ALL_TO_ALL))
    assert codes(results) == [0] * 4, as_text(results)
    for rank, result in enumerate(results):
        assert f"rank {rank} of 4: sum 6 at {hosts['a'].address} by fabric0 =fabric0" in result.stdout, str(result)


@pytest.mark.usefixtures("torch_python")
@pytest.mark.parametrize("places", ["abc", "cba", "bca"])
def test_two_networks_of_which_one_host_sees_one(hosts, key, places):
    with hosts.only_storage_on("c"):
        results = wait_all(start_on(hosts, places, "--key-file", key, ALL_TO_ALL, address=places[0]))
    assert codes(results) == [0] * 3, as_text(results)
    for rank, result in enumerate(results):
        address = hosts.storage_address(places[0])
        assert f"rank {rank} of 3: sum 3 at {address} by storage0 =storage0" in result.stdout, str(result)
