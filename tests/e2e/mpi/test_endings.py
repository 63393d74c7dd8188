"""Failures and signals under an MPI launcher: one report, the right code, nothing left behind."""

from __future__ import annotations

import os
import signal

import pytest

from support import evidence
from support.hosts import wait_until
from support.mpi import one_each


def check_nothing_is_left(hosts, marker):
    wait_until("no process of the job is left on any host", lambda: not hosts.processes_with(marker), seconds=30)


@pytest.mark.parametrize("processes", [one_each("ab"), {"a": 2, "b": 2}], ids=["one-a-node", "two-a-node"])
def test_a_failing_worker_gives_its_code_and_one_report(hosts, launcher, directory, processes):
    marker = f"MARK={directory.name}"
    script = f"export {marker}; [ $RANK = 1 ] && exit 7; exec sleep 600"
    result = hosts["a"].run(launcher.line(processes, "ddprun", "--no-python", "sh", "-c", script))
    assert result.code == 7, str(result)
    assert evidence.times_said(result.output, "ddprun: rank 1 on") == 1, str(result)
    assert "exited with code 7" in result.output, str(result)
    check_nothing_is_left(hosts, marker)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"])
def test_the_launcher_ends_first(hosts, launcher, directory, number):
    marker = f"MARK={directory.name}"
    script = f"export {marker}; touch {directory}/up.$RANK; sleep 600 & wait"
    running = hosts["a"].popen(launcher.line(one_each("ab"), "ddprun", "--nproc-per-node", "2", "--no-python", "sh",
                                             "-c", script))
    wait_until("all workers run", lambda: len(list(directory.glob("up.*"))) == 4)
    assert hosts.processes_with(marker)
    os.kill(running.pid, number)
    running.wait()
    check_nothing_is_left(hosts, marker)


def test_many_quiet_ends_do_not_look_like_failures(hosts, hydra):
    """A process that has spoken PMI and ends before the others makes hydra kill them, unless it says goodbye."""
    script = "sleep 0.$RANK"
    for _ in range(3):
        result = hosts["a"].run(hydra.line(one_each("abcd"), "ddprun", "--no-python", "sh", "-c", script))
        assert result.code == 0 and evidence.without_waiting(result.stderr) == "", str(result)
