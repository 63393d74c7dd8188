"""Every way to start ddprun in the script of a PBS job."""

from __future__ import annotations

import pytest

from support import evidence
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
TWO_HOSTS = ["-l", "select=2:ncpus=4", "-l", "place=scatter"]


def test_self_launch(cluster, directory):
    result = cluster.submit(directory, f"ddprun --verbose {PRINT} {directory}", *TWO_HOSTS).wait()
    assert result.code == 0, str(result)
    print(result)
    assert [worker["RANK"] for worker in evidence.workers(directory)] == ["0", "1"], str(result)
