"""Launches that share a job."""

from __future__ import annotations

import os

from support import programs

ROUNDS = int(os.environ.get("DDPRUN_TEST_ROUNDS", "3"))


def test_two_steps_that_start_at_once_do_not_mix(cluster, directory):
    worker = f'echo "$1 $2 $RANK $WORLD_SIZE $SLURMD_NODENAME" >> {directory}/told.$2.$1.$RANK'
    launch = f"srun --overlap -N2 --ntasks-per-node=1 {programs.binary()} --no-python sh -c '{worker}' sh"
    path = directory / "job.sh"
    path.write_text(f"#!/bin/bash\nfor i in $(seq {ROUNDS}); do {launch} B $i & {launch} C $i & wait; done\n")
    result = cluster.batch("-N2", "--ntasks-per-node=1", f"--output={directory}/output", str(path))
    output = (directory / "output").read_text()
    assert result.code == 0, output
    expected = {f"told.{number}.{name}.{rank}": f"{name} {number} {rank} 2 n{rank + 1}\n"
                for number in range(1, ROUNDS + 1) for name in "BC" for rank in range(2)}
    assert {path.name: path.read_text() for path in directory.glob("told.*")} == expected, output
