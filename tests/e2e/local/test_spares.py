"""--spares: a host that is lost is replaced by one that waits."""

from __future__ import annotations

import signal

import pytest

from support import evidence
from support.hosts import wait_until
from support.manual import as_text, codes, start, wait_all, wait_for_files

# Notes its place, then waits for the end.
WAITING = ("echo $RANK of $WORLD_SIZE on $(hostname) > {0}/$TORCHELASTIC_RESTART_COUNT.$RANK; trap 'exit 0' TERM;"
           "until [ -e {0}/end ]; do sleep 0.05; done")


def run(hosts, directory, key, node, *options, nodes="3", program=("sh", "-c", WAITING), env=None):
    command = [word.format(directory) for word in program]
    return start(hosts, node, "--key-file", key, "--events", str(directory / "events"), "--rdzv-conf", "last_call_timeout=20", *options, "--no-python", *command,
                 nodes=nodes, env=env)


def noted(directory, attempt: int) -> list[str]:
    return sorted(path.read_text().strip() for path in directory.glob(f"{attempt}.*"))


def wait_for_attempt(directory, attempt: int, workers: int) -> list[str]:
    wait_for_files(directory, f"{attempt}.*", workers)
    wait_until("all have noted", lambda: all(noted(directory, attempt)))
    return noted(directory, attempt)


def test_a_spare_has_the_ranks_of_a_killed_host_until_none_is_left(hosts, directory, key):
    agents = [run(hosts, directory, key, node, "--spares", "1") for node in range(3)]
    assert wait_for_attempt(directory, 0, 2) == ["0 of 2 on a", "1 of 2 on b"]
    agents[1].send_signal(signal.SIGKILL)
    assert wait_for_attempt(directory, 1, 2) == ["0 of 2 on a", "1 of 2 on c"]
    agents[2].send_signal(signal.SIGKILL)
    result = agents[0].wait()
    assert result.code == 125, str(result)
    said = result.stderr
    assert evidence.times_said(said, "; starting all workers again on 2 of 2 nodes") == 1, said
    assert evidence.times_said(said, "ddprun: c replaces b") == 1, said
    assert "1 node left, and the job needs 2; no spare is left, as 2 of 3 nodes are lost: b, c" in said, said


def test_a_host_that_comes_back_is_a_spare_and_a_lost_spare_stops_nothing(hosts, directory, key):
    agents = [run(hosts, directory, key, node, "--spares", "1") for node in range(3)]
    wait_for_attempt(directory, 0, 2)
    agents[2].send_signal(signal.SIGKILL)
    agents[2] = run(hosts, directory, key, 2, "--spares", "1")
    wait_until("it has joined", lambda: len(evidence.events(directory / "events", "joined")) == 4)
    agents[1].send_signal(signal.SIGKILL)
    assert wait_for_attempt(directory, 1, 2) == ["0 of 2 on a", "1 of 2 on c"]
    back = run(hosts, directory, key, 1, "--spares", "1")
    wait_until("it has joined", lambda: len(evidence.events(directory / "events", "joined")) == 5)
    (directory / "end").touch()
    results = wait_all([agents[0], back, agents[2]])
    assert codes(results) == [0, 0, 0], as_text(results)
    assert not noted(directory, 2), as_text(results)
    assert evidence.times_said(results[0].stderr, "; it was a spare") == 1, str(results[0])


def test_an_unplugged_host_and_both_numbers(hosts, directory, key):
    options = ["--spares", "1", "--host-timeout", "7"]
    agents = [run(hosts, directory, key, node, *options, nodes="1:3") for node in range(3)]
    wait_for_attempt(directory, 0, 2)
    hosts["b"].unplug()
    try:
        assert wait_for_attempt(directory, 1, 2) == ["0 of 2 on a", "1 of 2 on c"]
        agents[2].send_signal(signal.SIGKILL)
        assert wait_for_attempt(directory, 2, 1) == ["0 of 1 on a"]
        (directory / "end").touch()
        result = agents[0].wait()
        assert result.code == 0, str(result)
    finally:
        hosts["b"].plug_in_again()


def test_the_job_starts_without_a_host_that_lacks_the_program(hosts, directory, key):
    program = directory / "bin" / "train"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{WAITING.format(directory)}\n")
    program.chmod(0o755)
    path = hosts.environment["PATH"]
    agents = [run(hosts, directory, key, node, "--spares", "1", program=["train"],
                  env={"PATH": path if node == 1 else f"{program.parent}:{path}"}) for node in range(3)]
    assert wait_for_attempt(directory, 0, 2) == ["0 of 2 on a", "1 of 2 on c"]
    (directory / "end").touch()
    results = wait_all(agents)
    assert codes(results) == [0, 127, 0], as_text(results)
    said = results[0].stderr
    assert "train" in said and " on b" in said and "; the job starts without it" in said, said


# In the first attempt rank 1 kills its ddprun.
KILLING = ("echo $RANK of $WORLD_SIZE on $(hostname) > {0}/$TORCHELASTIC_RESTART_COUNT.$RANK;"
           "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0;"
           "if [ $RANK = 1 ]; then until [ -e {0}/0.0 ]; do sleep 0.1; done; kill -KILL $PPID; fi; exec sleep 600")


def test_where_ddprun_starts_itself_the_job_goes_on_too(reachable, directory):
    result = reachable["a"].run(["ddprun", "--hosts", "a,b,c", "--spares", "1", "--no-python", "sh", "-c",
                                 KILLING.format(directory)], cwd=directory)
    assert result.code == 0, str(result)
    assert noted(directory, 1) == ["0 of 2 on a", "1 of 2 on c"], str(result)
    assert evidence.times_said(result.stderr, "ddprun: c replaces b") == 1, str(result)
    assert "lost the connection to ddprun" not in result.stderr, str(result)


@pytest.mark.parametrize(("options", "sentence"), [
    (["--nnodes", "2", "--spares", "2"], "--spares 2 leaves 0 of 2 nodes (--nnodes), and 1 is needed"),
    (["--nnodes", "3:4", "--spares", "2"], "--spares 2 leaves 2 of 4 nodes (--nnodes), and 3 are needed"),
    (["--spares", "1"], "--spares 1 leaves none of 1 node"),
    (["--hosts", "a,b", "--spares", "2"], "the job has 2 nodes, 2 of them spare, but at least 1 must take part"),
    (["--nnodes", "2", "--spares", "1", "--host-timeout", "4"],
     "--host-timeout is too short for a job that continues without a lost node: '4 s'"),
])
def test_what_cannot_be_is_refused(hosts, options, sentence):
    result = hosts["a"].run(["ddprun", *options, "--node-rank", "0", "--master-addr", "127.0.0.1", "--no-python", "true"]
                            if "--nnodes" in options else ["ddprun", *options, "--no-python", "true"])
    assert result.code == 2, str(result)
    assert sentence in result.stderr and "hint: " in result.stderr, str(result)
