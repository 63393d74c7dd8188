"""Hosts that are not alike (support/unlike_hosts.py): which addresses and interfaces the workers get."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from support import evidence, programs
from support import hosts as hosts_module
from support.manual import PORT, as_text, codes, start, wait_all, wait_for_files, wait_for_listener
from support.hosts import Process, wait_until
from support.programs import SCRIPTS
from support.unlike_hosts import UnlikeHosts

ALL_TO_ALL = str(SCRIPTS / "all_to_all.py")
PRINT = str(SCRIPTS / "print_env.py")


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


def test_gpus_that_no_host_has_are_missed_in_one_sentence(hosts, key):
    """Also by the host that coordinates, which would know its own before the others have come."""
    results = wait_all(start_on(hosts, "abc", "--key-file", key, "--no-python", "true", env={"CUDA_VISIBLE_DEVICES": "0,1"}))
    assert codes(results) == [0, 0, 0], as_text(results)
    said = [line for result in results for line in result.stderr.splitlines() if "CUDA_VISIBLE_DEVICES" in line]
    assert said == ["ddprun: a,b,c: CUDA_VISIBLE_DEVICES names 2 GPUs, none is visible"], as_text(results)


@pytest.mark.usefixtures("torch_python")
@pytest.mark.parametrize("places", ["abc", "cba", "bca"])
def test_two_networks_of_which_one_host_sees_one(hosts, key, places):
    with hosts.only_storage_on("c"):
        results = wait_all(start_on(hosts, places, "--key-file", key, ALL_TO_ALL, address=places[0]))
    assert codes(results) == [0] * 3, as_text(results)
    for rank, result in enumerate(results):
        address = hosts.storage_address(places[0])
        assert f"rank {rank} of 3: sum 3 at {address} by storage0 =storage0" in result.stdout, str(result)


WAIT_FOR_END = "touch {0}/up.$RANK; until [ -e {0}/end ]; do sleep 0.1; done"


@pytest.mark.parametrize("before, cut, after, limit",
                         [(9, 7, 6, []), (0, 15, 8, []), (0, 3, 3, ["--host-timeout", "4"])], ids=["7", "15", "3-of-4"])
def test_a_link_that_is_cut_for_less_than_the_limit_ends_nothing(hosts, directory, key, before, cut, after, limit):
    both = start_on(hosts, "ab", "--key-file", key, *limit, "--no-python", "sh", "-c", WAIT_FOR_END.format(directory))
    wait_for_files(directory, "up.*", 2)
    time.sleep(before)  # what the kernel last heard of the other host is that old
    hosts["b"].unplug()
    time.sleep(cut)
    hosts["b"].plug_in_again()
    time.sleep(after)  # and the job goes on
    (directory / "end").touch()
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)


def test_what_is_said_while_the_link_is_cut_arrives_afterwards(hosts, directory, key):
    program = (f"touch {directory}/up.$RANK; [ $RANK = 0 ] && end={directory}/end || end={directory}/cut;"
               "until [ -e $end ]; do sleep 0.1; done")
    both = start_on(hosts, "ab", "--key-file", key, "--no-python", "sh", "-c", program)
    wait_for_files(directory, "up.*", 2)
    hosts["b"].unplug()
    (directory / "cut").touch()  # b's worker ends, and a is not to hear of it for longer than TCP repeats soon
    time.sleep(15)
    hosts["b"].plug_in_again()
    (directory / "end").touch()
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)


def test_a_host_that_is_out_of_reach_for_longer_than_the_limit_ends_the_job(hosts, directory, key):
    both = start_on(hosts, "ab", "--key-file", key, "--host-timeout", "2", "--no-python", "sh", "-c",
                    WAIT_FOR_END.format(directory))
    wait_for_files(directory, "up.*", 2)
    hosts["b"].unplug()
    try:
        results = wait_all(both)
    finally:
        hosts["b"].plug_in_again()
    assert codes(results) == [125, 125], as_text(results)
    assert re.search(r"lost b \(rank 1\): (the host no longer answers|no route to the host)", results[0].stderr)


def test_a_stray_ddprun_does_not_end_a_running_job(hosts, directory, key):
    worker = ["--no-python", "sh", "-c", WAIT_FOR_END.format(directory)]
    both = start_on(hosts, "ab", "--key-file", key, *worker)
    wait_for_files(directory, "up.*", 2)
    stray = hosts["c"].run(["ddprun", "--nnodes", "3", "--node-rank", "1", "--master-addr", "a", "--master-port", PORT,
                            "--key-file", key, *worker])
    (directory / "end").touch()
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
    assert stray.code == 125, str(stray)
    assert ("the job on a has already started with 2 ddprun processes; c cannot join it as number 1 of 3"
            in stray.stderr), str(stray)


def test_a_name_that_comes_late_and_leads_elsewhere_first(hosts, directory, key):
    nowhere = "192.168.77.99"
    with hosts.names_on("b", {}):
        both = start_on(hosts, "ab", "--key-file", key, PRINT, str(directory))
        hosts["b"].write_names([f"{nowhere} a"])
        wait_until("b tries it", lambda: nowhere in hosts["b"].check(["ip", "neighbour"]))
        hosts["b"].write_names([f"{hosts['a'].address} a"])
        results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
    assert {worker["MASTER_ADDR"] for worker in evidence.workers(directory)} == {hosts["a"].address}


LISTEN = f"import socket, sys; s = socket.create_server(('', {PORT})); print('up', flush=True); sys.stdin.read()"


def test_a_port_that_is_taken_on_the_coordinator_is_told_to_the_others(hosts, directory, key):
    stranger = hosts["a"].popen([sys.executable, "-c", LISTEN], stdin=subprocess.PIPE)
    wait_for_listener(hosts, "a")
    both = start_on(hosts, "ab", "--key-file", key, PRINT, str(directory))
    results = wait_all(both)
    stranger.wait()
    assert codes(results) == [125, 125], as_text(results)
    for result in results:
        assert f"cannot listen for the other nodes on port {PORT} (address already in use)" in result.stderr, str(result)
    assert not evidence.workers(directory)


def test_a_coordinator_that_is_killed_before_the_start_is_lost(hosts, directory, key):
    agents = [start(hosts, node, "--key-file", key, PRINT, str(directory), address="a", nodes=3) for node in (0, 1)]
    assert any("waiting for 1 of 3 nodes" in line for line in agents[0].popen.stderr)  # b has joined
    agents[0].send_signal(signal.SIGKILL)
    results = wait_all(agents)
    assert results[1].code == 125, str(results[1])
    assert "lost the coordinator node 0 (192.168.77.1)" in results[1].stderr, str(results[1])


def test_two_agents_of_a_machine_with_nothing_but_loopback_meet(hosts, directory, key):
    alone = ["unshare", "--net", "sh", "-ec"]
    script = "ip link set lo up; for rank in 0 1; do ddprun --nnodes 2 --node-rank $rank --master-addr 127.0.0.1 " \
             f"--join-timeout 10 --key-file {key} {PRINT} {directory} & pids=\"$pids $!\"; done; for pid in $pids; do wait $pid; done"
    result = hosts["a"].run([*alone, script])
    assert result.code == 0, str(result)
    assert {worker["MASTER_ADDR"] for worker in evidence.workers(directory)} == {"127.0.0.1"}


@pytest.mark.usefixtures("torch_python")
def test_local_addr_chooses_the_interface_on_every_host(hosts, key):
    agents = [start(hosts, node, "--local-addr", hosts.storage_address(name), "--key-file", key, ALL_TO_ALL)
              for node, name in enumerate("ab")]
    results = wait_all(agents)
    assert codes(results) == [0, 0], as_text(results)
    for rank, result in enumerate(results):
        expected = f"rank {rank} of 2: sum 1 at {hosts.storage_address('a')} by storage0 =storage0"
        assert expected in result.stdout, str(result)


@pytest.mark.parametrize("address, why", [("nosuchname", "resolves to no address on a"), ("192.168.77.99", "is not an address of a")])
def test_a_local_addr_that_cannot_be_right_is_an_error(hosts, address, why):
    result = hosts["a"].run(["ddprun", "--local-addr", address, "--no-python", "true"])
    assert result.code == 2, str(result)
    assert f"--local-addr {address} {why}" in result.stderr, str(result)
