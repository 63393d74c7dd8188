"""Ranks that hang under a real Slurm, where each agent traces its workers to hold their signals."""

from __future__ import annotations

import re

import pytest

from support.hosts import wait_until
from support.programs import SCRIPTS, torch_python

HANG = str(SCRIPTS / "hang.py")
STEP = ["srun", "-N2", "--ntasks-per-node=1"]

pytestmark = pytest.mark.usefixtures("torch_python")


def environment() -> dict[str, str]:
    return {"PYTHON_EXEC": str(torch_python())}


@pytest.mark.parametrize("how, said", [
    ("sleep", r"it is at hang.py:\d+ in bad_branch, last collective: all_reduce #5 \(1000 float\)"),
    ("interpreter held", r"it is at hang.py:\d+, last collective: all_reduce #5"),
    ("stopped", r"it is stopped by a signal \(state T\)"),
])
def test_the_rank_that_the_others_wait_for_is_named(cluster, how, said):
    result = cluster.run(*STEP, "ddprun", "--nproc-per-node", "2", "--shutdown-timeout", "2", "--hang-timeout", "4", HANG, how,
                         env=environment())
    assert result.code == 124 and "rank 1 on n1 hangs: " in result.output and re.search(said, result.output), str(result)
    assert re.search(r", while ranks 0,2-3 wait in all_reduce #6 \(1000 float\) at hang.py:\d+ in train; no rank", result.output)
    assert "traced" not in result.output, str(result)


def test_stacks_and_status_know_the_job_by_its_number(cluster, directory):
    (directory / "job.sh").write_text(f"#!/bin/sh\nPYTHON_EXEC={torch_python()} exec ddprun {HANG} stopped\n")
    job = cluster.control.check(["sbatch", "--parsable", "-N2", f"--output={directory}/output", str(directory / "job.sh")]).strip()
    ask = ["srun", "--overlap", "--jobid", job, "-w", "n1", "-n1", "ddprun"]
    wait_until("rank 1 is stopped", lambda: "rank 1 on n2 is stopped by a signal" in
               cluster.control.run([*ask, "--stacks", job]).stdout)
    table = cluster.control.check([*ask, "--status", job])
    assert re.search(r"^0 +n1 .* in all_reduce #6 for \d+ s$", table, re.MULTILINE), table
    cluster.control.check(["scancel", job])
