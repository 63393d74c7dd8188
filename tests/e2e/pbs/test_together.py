"""Launches that share a job."""

from __future__ import annotations

import os

import pytest

from pbs.test_styles import mpiexec_line
from support import programs
from support.pbs_cluster import TWO_HOSTS

ROUNDS = int(os.environ.get("DDPRUN_TEST_ROUNDS", "6"))


# Two mpirun of Open MPI 4 that start at once fail by themselves at times: both make one session folder.
@pytest.mark.parametrize("launcher", ["pbsdsh", "hydra"])
def test_two_launches_that_start_at_once_do_not_mix(cluster, ssh_daemons, directory, launcher):
    start = "pbsdsh --" if launcher == "pbsdsh" else mpiexec_line(launcher)
    worker = f'echo "$1 $2 $RANK $WORLD_SIZE $(hostname)" >> {directory}/told.$2.$1.$RANK'
    launch = f"{start} {programs.binary()} --no-python sh -c '{worker}' sh"
    job = cluster.submit(directory, f"for i in $(seq {ROUNDS}); do {launch} B $i & {launch} C $i & wait; done",
                         *TWO_HOSTS)
    result = job.wait(ROUNDS * 20 + 60)
    expected = {f"told.{number}.{name}.{rank}": f"{name} {number} {rank} 2 p{rank + 1}\n"
                for number in range(1, ROUNDS + 1) for name in "BC" for rank in range(2)}
    assert {path.name: path.read_text() for path in directory.glob("told.*")} == expected, str(result)
