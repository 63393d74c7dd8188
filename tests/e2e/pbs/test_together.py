"""Launches that share a job."""

from __future__ import annotations

import os

from support import programs

TWO_HOSTS = ["-l", "select=2:ncpus=4", "-l", "place=scatter"]
ROUNDS = int(os.environ.get("DDPRUN_TEST_ROUNDS", "6"))


def test_two_pbsdsh_that_start_at_once_do_not_mix(cluster, directory):
    program = programs.binary()
    worker = f'echo "$1 $2 $RANK $WORLD_SIZE $(hostname)" >> {directory}/told.$2.$1.$RANK'
    launch = f"pbsdsh -- {program} --no-python sh -c '{worker}' sh"
    job = cluster.submit(directory, f"for i in $(seq {ROUNDS}); do {launch} B $i & {launch} C $i & wait; done",
                         *TWO_HOSTS)
    result = job.wait(ROUNDS * 20 + 60)
    for number in range(1, ROUNDS + 1):
        for name in "BC":
            told = [(directory / f"told.{number}.{name}.{rank}").read_text() for rank in range(2)]
            assert told == [f"{name} {number} {rank} 2 p{rank + 1}\n" for rank in range(2)], str(result)
