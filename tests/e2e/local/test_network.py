"""Addresses, ports and strangers: who may reach what, and what is said when it does not work."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import sys

import pytest

from support import evidence, programs
from support.manual import PORT, as_text, codes, start, start_all, wait_all, wait_for_files, wait_for_listener
from support.hosts import Host, wait_until
from support.programs import SCRIPTS

ALLREDUCE_TCP = str(SCRIPTS / "allreduce_tcp.py")
PRINT = str(SCRIPTS / "print_env.py")
PYTHON = sys.executable

LISTEN = f"import socket, sys; s = socket.create_server(('', {PORT})); print('up', flush=True); sys.stdin.read()"
# Connects from an address of its own choice, speaks, and prints what comes back; nothing when it is shut out.
SPEAK = """
import socket, sys
address, port, source, words = sys.argv[1:]
peer = socket.create_connection((address, int(port)), 10, source_address=(source, 0) if source else None)
peer.settimeout(10)
peer.sendall(bytes.fromhex(words))
try:
    print(peer.recv(64).hex())
except ConnectionResetError:
    print()
"""
STORE_PING = "00" + "cef7853c" + "0d" + "01020304"  # torch 2.2 and newer: validate, then ping


def master(directory) -> set[str]:
    return {f"{worker['MASTER_ADDR']} {worker['MASTER_PORT']}" for worker in evidence.workers(directory)}


def speak(host: Host, address: str, port: str, words: str, source: str = "") -> str:
    return host.check([PYTHON, "-c", SPEAK, address, port, source, words]).strip()


def test_the_store_is_on_the_named_port_and_on_the_ones_after_it_in_later_attempts(hosts, directory, key):
    # The failing rank waits for the other's line: its failure stops the other, which may not have come so far.
    written = f"[ $(cat {directory}/rank.0 2> /dev/null | wc -l) -gt $TORCHELASTIC_RESTART_COUNT ]"
    program = (f"echo $MASTER_ADDR $MASTER_PORT >> {directory}/rank.$RANK;"
               f"[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; [ $RANK = 0 ] && exec sleep 600;"
               f"until {written}; do sleep 0.02; done; exit 9")
    results = wait_all(start_all(hosts, "--key-file", key, "--max-restarts", "2",
                                 "--restart-policy", "always", "--no-python", "sh", "-c", program))
    assert codes(results) == [0, 0], as_text(results)
    address = hosts["a"].address
    for rank in (0, 1):
        assert (directory / f"rank.{rank}").read_text().splitlines() == [
            f"{address} {int(PORT) + attempt}" for attempt in range(3)]


def pythons_with_torch() -> list[str]:
    named = str(programs.torch_python())
    here = [sys.executable] if importlib.util.find_spec("torch") else []
    return list(dict.fromkeys([named, *here]))


@pytest.mark.usefixtures("torch_python")
@pytest.mark.parametrize("python", pythons_with_torch())
def test_torch_reaches_the_store_on_the_named_port_from_another_host(hosts, key, python):
    results = wait_all(start_all(hosts, "--key-file", key, "--no-python", python, ALLREDUCE_TCP))
    assert codes(results) == [0, 0], as_text(results)
    for rank, result in enumerate(results):
        assert f"rank {rank} of 2: sum 1 tcp://{hosts['a'].address}:{PORT}" in result.stdout, str(result)


@pytest.mark.parametrize("names", ["own_name_on_loopback", "unreachable_network_first"])
def test_names_that_lead_astray(hosts, directory, key, names):
    with getattr(hosts, names)():
        results = wait_all(start_all(hosts, "--key-file", key, PRINT, str(directory), address="a"))
    assert codes(results) == [0, 0], as_text(results)
    assert master(directory) == {f"{hosts['a'].address} {PORT}"}


def test_an_endpoint_alone_says_where_node_0_is(hosts, directory, key):
    options = ["ddprun", "--nnodes", "2", "--rdzv-endpoint", "a:29511", "--key-file", key]
    both = [hosts["ab"[node]].popen([*options, "--node-rank", str(node), PRINT, str(directory)]) for node in (0, 1)]
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
    assert master(directory) == {f"{hosts['a'].address} 29511"}


@pytest.fixture
def second_network(hosts):
    """Hosts a and b with an address each in another network, too."""
    addresses = {"a": "10.79.0.1", "b": "10.79.0.2"}
    for name, address in addresses.items():
        hosts[name].add_address(address)
    yield addresses
    for name, address in addresses.items():
        hosts[name].remove_address(address)


def test_local_addr_is_what_the_workers_are_told(hosts, second_network, directory, key):
    both = [start(hosts, 0, "--local-addr", second_network["a"], "--key-file", key, PRINT, str(directory)),
            start(hosts, 1, "--key-file", key, PRINT, str(directory))]
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
    assert master(directory) == {f"{second_network['a']} {PORT}"}


def test_a_local_addr_that_the_others_cannot_reach_is_refused(hosts, directory, key):
    both = [start(hosts, 0, "--local-addr", "10.99.0.1", "--key-file", key, PRINT, str(directory)),
            start(hosts, 1, "--key-file", key, PRINT, str(directory))]
    results = wait_all(both)
    assert codes(results) == [125, 125], as_text(results)
    assert "no address of a is reached by all nodes (tried 10.99.0.1)" in results[0].stderr, str(results[0])
    assert not evidence.workers(directory)


def test_a_taken_port_is_an_error_with_a_hint(hosts, key):
    stranger = hosts["a"].popen([PYTHON, "-c", LISTEN], stdin=-1)
    wait_for_listener(hosts, "a")
    try:
        result = start(hosts, 0, "--key-file", key, PRINT, ".").wait()
    finally:
        stranger.wait()
    assert result.code == 125, str(result)
    assert f"cannot listen for the other nodes on port {PORT} (address already in use)" in result.stderr
    assert re.search(r"^hint: python\S* \(pid \d+\) uses the port; choose another --master-port", result.stderr,
                     re.MULTILINE), str(result)


def test_a_second_node_0_on_one_host_is_told_which_process_is_the_first(hosts, key):
    first = start(hosts, 0, "--key-file", key, PRINT, ".")
    wait_for_listener(hosts, "a")
    try:
        second = start(hosts, 0, "--key-file", key, PRINT, ".").wait()
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait()
    assert second.code == 125, str(second)
    assert re.search(r"^hint: ddprun with pid \d+ listens there: nodes of one job on one host need different numbers for "
                     r"--node-rank; for another job choose another --master-port", second.stderr, re.MULTILINE), str(second)


def test_nodes_with_different_commands_are_told_both(hosts, directory, key):
    both = [start(hosts, node, "--join-timeout", "3", "--key-file", key, PRINT, str(directory), f"run-{node}")
            for node in (0, 1)]
    results = wait_all(both)
    assert codes(results) == [124, 124], as_text(results)
    assert re.search(r"the commands differ: \S+ (\S+ )?run-0 on this side, \S+ (\S+ )?run-1 on the peer's", results[1].stderr), (
        as_text(results))


# Holds each of the given ports of all addresses: every other one listens and never speaks.
HOLD = """
import socket, sys
held = [socket.socket() for _ in sys.argv[1:]]
for place, (each, port) in enumerate(zip(held, sys.argv[1:])):
    each.bind(("", int(port)))
    if place % 2: each.listen()
print("held", flush=True)
sys.stdin.read()
"""


def test_where_others_hold_all_ports_of_a_launch_its_nodes_meet_at_a_further_one(hosts, directory, key):
    step = [{"SLURM_JOB_ID": "29", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "a,b", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
             "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": str(node), "SLURM_PROCID": str(node), "SLURM_LOCALID": "0"}
            for node in (0, 1)]
    command = ["ddprun", "--key-file", key, "--nproc-per-node", "1", PRINT, str(directory)]
    plan = json.loads(hosts["a"].check([command[0], "--dry-run=json", *command[1:]], env=step[0]))
    ports = [str(port) for port in plan["rendezvous"]["ports"]["value"]]
    assert len(ports) == 8
    stranger = hosts["a"].popen([PYTHON, "-c", HOLD, *ports], stdin=-1)
    try:
        wait_for_listener(hosts, "a", ports[7])
        results = wait_all([hosts["ab"[node]].popen(command, env=step[node]) for node in (0, 1)])
    finally:
        stranger.wait()
    assert codes(results) == [0, 0], as_text(results)
    assert len(evidence.workers(directory)) == 2
    said = f"other programs on a use all ports of this launch ({', '.join(ports)}); the rendezvous uses port "
    assert evidence.times_said(results[0].stderr, said) == 1, as_text(results)


def test_strangers_on_the_port_are_named_and_do_not_disturb(hosts, directory, key):
    first = start(hosts, 0, "--key-file", key, PRINT, str(directory))
    wait_for_listener(hosts, "a")
    address = hosts["a"].address
    half_hello = b"ddprun\0\2".hex()
    speakers = [hosts["c"].popen([PYTHON, "-c", SPEAK, address, PORT, "", words])
                for words in (b"GET / HTTP/1.0\r\n\r\n".hex(), "", half_hello)]
    assert speakers[0].wait().stdout == "\n"
    assert speakers[1].wait().stdout == "\n"
    second = start(hosts, 1, "--key-file", key, PRINT, str(directory))
    results = wait_all([first, second])
    assert codes(results) == [0, 0], as_text(results)
    speakers[2].wait()
    assert "waiting for 1 of 2 nodes: node rank 1" in results[0].stderr, str(results[0])
    assert f"refused {hosts['c'].address}: it is not ddprun (its first bytes: GET / HTTP" in results[0].stderr


# 500 of each kind at once, given by their first bytes (and what follows an answer); prints, for each kind, what was
# answered and how often.
CROWD = """
import asyncio, collections, json, sys
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

async def knock(words, then):
    reader, writer = await asyncio.open_connection(address, port)
    answer = b''
    try:
        writer.write(words)
        answer = await asyncio.wait_for(reader.read(4096), 20)
        if answer and then:
            writer.write(then)
            answer = b'%d bytes, then ' % len(answer) + await asyncio.wait_for(reader.read(4096), 20)
    except (ConnectionError, asyncio.TimeoutError):
        pass
    writer.close()
    return answer.decode('latin-1')

async def crowd():
    for name, (words, then) in json.loads(sys.stdin.readline()).items():
        answers = await asyncio.gather(*[knock(bytes.fromhex(words), bytes.fromhex(then)) for _ in range(count)])
        print(json.dumps({name: collections.Counter(answers)}), flush=True)

asyncio.run(crowd())
"""
HELLO = b"ddprun\0\2" + bytes([255, 255, 255, 255]) + bytes(range(1, 33))  # of all methods


def test_a_crowd_of_strangers_after_the_start_learns_nothing(hosts, directory, key):
    """Who does not speak ddprun's protocol is not answered; who does is greeted and refused, with no word of the job.

    One without the key cannot be told from a ddprun that comes late, and that is to be told so."""
    program = f"touch {directory}/up.$RANK; until [ -e {directory}/end ]; do sleep 0.05; done"
    both = start_all(hosts, "--key-file", key, "--no-python", "sh", "-c", program)
    wait_for_files(directory, "up.*", 2)
    kinds = {"http": (b"GET / HTTP/1.0\r\n\r\n", b""), "tls": (b"\x16\x03\x01\x02\x00\x01", b""), "silent": (b"", b""),
             "c10d": (bytes.fromhex(STORE_PING), b""), "ddprun": (HELLO, bytes([1, 2, 0, 64]) + bytes(64))}
    crowd = hosts["c"].popen([PYTHON, "-c", CROWD, hosts["a"].address, PORT, "400"], stdin=-1)
    crowd.popen.stdin.write(json.dumps({name: [part.hex() for part in parts] for name, parts in kinds.items()}) + "\n")
    answers = {}
    said = crowd.wait()
    for line in said.stdout.splitlines():
        answers |= json.loads(line)
    (directory / "end").touch()
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
    refusal = "the key files of the two hosts differ; copy the file of --key-file from one host to the other"
    greeted = f"44 bytes, then \2\0\0{chr(len(refusal))}{refusal}"
    assert answers == {name: {greeted if name == "ddprun" else "": 400} for name in kinds}, str(said)


@pytest.mark.parametrize("attempt", [0, 1], ids=["on-the-rendezvous-port", "on-a-port-of-its-own"])
def test_the_store_hears_the_job_s_hosts_only(hosts, second_network, directory, key, attempt):
    program = (f"[ $TORCHELASTIC_RESTART_COUNT = {attempt} ] || exit 1; touch {directory}/up.$RANK;"
               f"until [ -e {directory}/end ]; do sleep 0.05; done")
    both = start_all(hosts, "--key-file", key, "--max-restarts", "1", "--no-python", "sh", "-c", program)
    wait_for_files(directory, "up.*", 2)
    address, port = hosts["a"].address, str(int(PORT) + attempt)
    assert speak(hosts["c"], address, port, STORE_PING) == ""
    assert speak(hosts["b"], address, port, STORE_PING) == "01020304"
    assert speak(hosts["b"], second_network["a"], port, STORE_PING, second_network["b"]) == "01020304"
    assert speak(hosts["a"], address, port, STORE_PING) == "01020304"
    new = hosts["b"].address + "7"
    hosts["b"].add_address(new)  # as DHCP or IPv6's privacy does while a job runs
    try:
        assert speak(hosts["b"], address, port, STORE_PING, new) == "01020304"
        assert speak(hosts["b"], address, port, STORE_PING, new) == "01020304"
    finally:
        hosts["b"].remove_address(new)
    hosts["a"].add_address(new)
    try:
        assert speak(hosts["a"], address, port, STORE_PING, new) == "01020304"
    finally:
        hosts["a"].remove_address(new)
    (directory / "end").touch()
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
    refusal = f"the store refused a connection from {hosts['c'].address}, which is not an address of the job's nodes"
    assert evidence.times_said(results[0].stderr, refusal) == 1, str(results[0])


def test_two_jobs_on_the_same_hosts_with_ports_of_their_own(hosts, directory, key):
    jobs = []
    for port in ("29520", "29530"):
        (directory / port).mkdir()
        jobs.append([hosts["ab"[node]].popen(
            ["ddprun", "--nnodes", "2", "--node-rank", str(node), "--master-addr", "a", "--master-port", port,
             "--key-file", key, PRINT, str(directory / port)]) for node in (0, 1)])
    for port, job in zip(("29520", "29530"), jobs):
        results = wait_all(job)
        assert codes(results) == [0, 0], as_text(results)
        assert master(directory / port) == {f"{hosts['a'].address} {port}"}


def test_a_node_of_another_job_on_the_same_port_is_told_so(hosts, directory, key):
    both = [start(hosts, node, "--rdzv-id", job, "--join-timeout", "3", "--key-file", key, PRINT, str(directory))
            for node, job in enumerate(("morning", "evening"))]
    results = wait_all(both)
    assert codes(results) == [124, 124], as_text(results)
    assert "this side has --rdzv-id morning, the peer --rdzv-id evening" in results[1].stderr, str(results[1])
    assert f"refused {hosts['b'].address}: this side has --rdzv-id morning" in results[0].stderr, str(results[0])
    assert not evidence.workers(directory)
