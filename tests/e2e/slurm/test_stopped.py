"""An agent of a Slurm step that is stopped (SIGSTOP), and not dead."""

from __future__ import annotations

import re

# Rank 2 stops its ddprun, and all train on to the end.
PROGRAM = ("cd {0}; touch $TORCHELASTIC_RESTART_COUNT.$RANK.of.$WORLD_SIZE; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0;"
           "until [ $(ls 0.* | wc -l) = 3 ]; do sleep 0.1; done; [ $RANK != 2 ] || kill -STOP $PPID; exit 0")


def test_the_others_do_not_wait_for_ever_for_a_stopped_ddprun(cluster, directory):
    result = cluster.run("srun", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "-N3", "--ntasks-per-node=1", "ddprun", "--nnodes",
                         "2:3", "--host-timeout", "7", "--no-python", "sh", "-c", PROGRAM.format(directory))
    said = result.stderr
    # Its reaper says so after 30 s, unless it is killed before that on a busy machine.
    assert re.search(r"^ddprun: ddprun on n3 \(pid \d+\) has been stopped \(state T\) for 3\d s\n"
                     r"hint: `kill -CONT \d+` on n3 continues it$|killing ddprun on n3 \(pid \d+\), which does not run", said, re.M), str(result)
    assert re.search(r"^ddprun: ddprun on n3 \(rank 2\), pid \d+, has not answered for 3\d s$", said, re.M), str(result)
    assert re.search(r"^ddprun: lost n3 \(rank 2\): ddprun there has not answered for \d+ s; starting all workers again "
                     r"on 2 of 3 nodes$", said, re.M), str(result)
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["0.0.of.3", "0.1.of.3", "0.2.of.3", "1.0.of.2", "1.1.of.2"], str(result)
