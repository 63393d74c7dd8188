"""The coordinator of a job that outlives its hosts is lost: another agent takes over."""

from __future__ import annotations

import re
import signal
import time

import pytest

from support.hosts import wait_until
from support.manual import as_text, codes, wait_all, wait_for_files

from test_elastic import WAITING, marked, noted, run, wait_for_attempt


def test_the_next_agent_takes_over_from_a_killed_coordinator(hosts, directory, key):
    marker, env = marked()
    agents = [run(hosts, directory, key, node, env=env) for node in range(3)]
    wait_for_attempt(directory, 0, 3)
    agents[0].send_signal(signal.SIGKILL)
    wait_for_attempt(directory, 1, 2)
    assert noted(directory, 1) == ["1 0/2 0/2", "1 1/2 1/2"]
    (directory / "end").touch()
    results = wait_all(agents[1:])
    assert codes(results) == [0, 0], as_text(results)
    said = results[0].stderr
    assert said == ("ddprun: lost the coordinator a (10.77.0.1): the connection was closed; b coordinates now; "
                    "starting all workers again on 2 of 3 nodes\n"), said
    assert results[1].stderr == "", str(results[1])
    wait_until("no worker is left", lambda: not hosts.processes_with(marker))
