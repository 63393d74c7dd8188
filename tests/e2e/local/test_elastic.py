"""--nnodes MIN:MAX: jobs that go on without a host, and take in one that comes."""

from __future__ import annotations

import re
import signal
import uuid

import pytest

from support import evidence
from support.hosts import wait_until
from support.manual import as_text, codes, start, wait_all, wait_for_files

NOTED = "echo $TORCHELASTIC_RESTART_COUNT $RANK/$WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE"
# Notes its place, then waits for the end.
WAITING = (f"{NOTED} > {{0}}/$TORCHELASTIC_RESTART_COUNT.$RANK.$$; trap 'exit 0' TERM;"
           "until [ -e {0}/end ]; do sleep 0.05; done")


def marked() -> tuple[str, dict[str, str]]:
    value = str(uuid.uuid4())
    return f"DDPRUN_TEST_MARKER={value}", {"DDPRUN_TEST_MARKER": value}


def run(hosts, directory, key, node, *options, nodes="1:3", program=WAITING, env=None, last_call=20):
    return start(hosts, node, "--key-file", key, "--rdzv-conf", f"last_call_timeout={last_call}", "--events",
                 str(directory / "events"), *options, "--no-python", "sh", "-c", program.format(directory), nodes=nodes, env=env)


def noted(directory, attempt: int) -> list[str]:
    return sorted(path.read_text().strip() for path in directory.glob(f"{attempt}.*"))


def wait_for_attempt(directory, attempt: int, workers: int) -> None:
    wait_for_files(directory, f"{attempt}.*", workers)
    wait_until("all have noted", lambda: all(noted(directory, attempt)))


def test_a_killed_ddprun_leaves_the_others_to_go_on_and_may_come_back(hosts, directory, key):
    marker, env = marked()
    agents = [run(hosts, directory, key, node, env=env) for node in range(3)]
    wait_for_attempt(directory, 0, 3)
    assert noted(directory, 0) == ["0 0/3 0/3", "0 1/3 1/3", "0 2/3 2/3"]
    agents[1].send_signal(signal.SIGKILL)
    wait_for_attempt(directory, 1, 2)
    assert noted(directory, 1) == ["1 0/2 0/2", "1 1/2 1/2"]
    back = run(hosts, directory, key, 1, env=env)
    wait_for_attempt(directory, 2, 3)
    assert noted(directory, 2) == ["2 0/3 0/3", "2 1/3 1/3", "2 2/3 2/3"]
    (directory / "end").touch()
    results = wait_all([agents[0], back, agents[2]])
    assert codes(results) == [0, 0, 0], as_text(results)
    said = results[0].stderr
    assert re.search(r"^ddprun: lost b \(rank 1\): .*; starting all workers again on 2 of 3 nodes$", said, re.M), said
    assert "ddprun: b has joined; starting all workers again on 3 of 3 nodes\n" in said, said
    wait_until("no worker is left", lambda: not hosts.processes_with(marker))


def test_an_unplugged_host_stops_its_workers_before_the_others_start_again(hosts, directory, key):
    marker, env = marked()
    both = [run(hosts, directory, key, node, "--host-timeout", "7", nodes="1:2", env=env,
                program="trap '' TERM; " + WAITING.replace("trap 'exit 0' TERM;", "")) for node in range(2)]
    wait_for_attempt(directory, 0, 2)
    cut_off_worker = next(directory.glob("0.1.*")).name.split(".")[-1]
    hosts["b"].unplug()
    try:
        wait_until("its worker has gone", lambda: cut_off_worker not in hosts["b"].check(["ps", "-eo", "pid="]).split())
        assert noted(directory, 1) == []  # the others have not started again
        wait_for_attempt(directory, 1, 1)
        cut_off = both[1].wait()  # once it has looked for others long enough
    finally:
        hosts["b"].plug_in_again()
    (directory / "end").touch()
    result = both[0].wait()
    assert (result.code, cut_off.code) == (0, 125), as_text([result, cut_off])
    assert noted(directory, 1) == ["1 0/1 0/1"]
    assert "lost the coordinator" in cut_off.stderr, str(cut_off)
    wait_until("no worker is left", lambda: not hosts.processes_with(marker))


def test_a_launch_starts_with_those_that_came_when_the_last_call_is_over(hosts, directory, key):
    (directory / "end").touch()
    agents = [run(hosts, directory, key, node, nodes="2:3", last_call=1) for node in (0, 2)]
    results = wait_all(agents)
    assert codes(results) == [0, 0], as_text(results)
    assert noted(directory, 0) == ["0 0/2 0/2", "0 1/2 1/2"]


def test_with_too_few_hosts_left_the_job_ends_on_all(hosts, directory, key):
    agents = [run(hosts, directory, key, node, nodes="2:3") for node in range(3)]
    wait_for_attempt(directory, 0, 3)
    agents[2].send_signal(signal.SIGKILL)
    wait_for_attempt(directory, 1, 2)
    agents[1].send_signal(signal.SIGKILL)
    result = agents[0].wait()
    assert result.code == 125, str(result)
    assert "; 1 node left, and --nnodes asks for 2 at least" in result.stderr, str(result)


@pytest.mark.parametrize("grow", ["at-restart", "never"])
def test_a_late_host_waits_for_a_restart_or_is_told_that_it_is_too_late(hosts, directory, key, grow):
    program = (WAITING + "; [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 3; exit 0").replace("/end", "/$TORCHELASTIC_RESTART_COUNT")
    options = ["--grow", grow, "--max-restarts", "1"]
    first = run(hosts, directory, key, 0, *options, nodes="1:2", program=program, last_call=1)
    wait_for_attempt(directory, 0, 1)
    (directory / "1").touch()
    late = run(hosts, directory, key, 1, *options, nodes="1:2", program=program, last_call=1)
    if grow == "never":
        refused = late.wait()
        assert refused.code != 0 and "has already started" in refused.stderr, str(refused)
    else:
        wait_until("it has joined", lambda: len(evidence.events(directory / "events", "joined")) == 2)
    (directory / "0").touch()
    results = [first.wait()] + ([late.wait()] if grow == "at-restart" else [])
    assert codes(results) == [0] * len(results), as_text(results)
    assert len(noted(directory, 1)) == len(results)


def test_hosts_without_numbers_come_and_go(hosts, directory, key):
    def arrive(name: str):
        return hosts[name].popen(
            ["ddprun", "--nnodes", "1:3", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{hosts['a'].address}:29500",
             "--rdzv-conf", "last_call_timeout=20", "--key-file", key, "--no-python", "sh", "-c", WAITING.format(directory)])

    agents = {name: arrive(name) for name in "abc"}
    wait_for_attempt(directory, 0, 3)
    agents["b"].send_signal(signal.SIGKILL)
    wait_for_attempt(directory, 1, 2)
    agents["b"] = arrive("b")
    wait_for_attempt(directory, 2, 3)
    (directory / "end").touch()
    results = wait_all(list(agents.values()))
    assert codes(results) == [0, 0, 0], as_text(results)


@pytest.mark.parametrize(("nodes", "options", "sentence"), [
    ("2:3", ["--host-timeout", "60"], "a has a host timeout of 7 s and c has 60 s"),
    ("3", [], "a continues when a node is lost, but c ends"),
])
def test_hosts_whose_limits_do_not_fit_together_do_not_start(hosts, directory, key, nodes, options, sentence):
    same = ["--rdzv-id", "x"]  # else different command lines are different launches
    agents = [run(hosts, directory, key, node, *same, "--host-timeout", "7", nodes="2:3") for node in range(2)]
    agents.append(run(hosts, directory, key, 2, *same, *options, nodes=nodes))
    results = wait_all(agents)
    assert codes(results) == [125] * 3, as_text(results)
    assert sentence in results[0].stderr, as_text(results)
    assert not noted(directory, 0)
