"""Signals through an MPI launcher, which signals its own processes and none below: each worker gets them once."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from support.hosts import wait_until
from support.mpi import one_each
from support.programs import SCRIPTS

COUNT = str(SCRIPTS / "count_signals.py")


def got(directory, name: str) -> list[int]:
    files = [directory / f"got.{rank}" for rank in range(4)]
    return [file.read_text().split().count(name) if file.exists() else 0 for file in files]


@pytest.mark.parametrize("processes,workers", [(one_each("ab"), "2"), ({"a": 2, "b": 2}, "1")],
                         ids=["one-a-node", "two-a-node"])
def test_a_signal_to_mpiexec_reaches_each_worker_once(hosts, launcher, directory, processes, workers):
    options = ["--nproc-per-node", workers] if workers != "1" else []
    running = hosts["a"].popen(launcher.line(processes, "ddprun", *options, "--no-python", sys.executable, COUNT,
                                             str(directory)))
    wait_until("all workers run", lambda: len(list(directory.glob("ready.*"))) == 4)
    os.kill(running.pid, signal.SIGUSR1)
    wait_until("all have it", lambda: all(got(directory, "SIGUSR1")))
    os.kill(running.pid, signal.SIGTERM)
    result = running.wait()
    assert got(directory, "SIGUSR1") == [1] * 4, str(result)
    assert all(count <= 1 for count in got(directory, "SIGTERM")), str(result)
