"""Checkpoints in memory on a real OpenPBS: its walltime loses nothing, and the next job goes on from there."""

from __future__ import annotations

import shlex

from support import checkpointed
from support.pbs_cluster import TWO_HOSTS


def test_the_walltime_ends_in_a_flush_from_which_the_next_job_goes_on(cluster, ssh_daemons, directory):
    words = ["ddprun", "--launcher", "pbsdsh", "--checkpoint-memory", "64M", "--checkpoint-flush", str(directory / "flushed"),
             *checkpointed.shell(directory)]
    line = f"exec {shlex.join(words)} 2>> {directory}/said"
    checkpointed.save(directory, 1)
    job = cluster.submit_without_shell(directory, line, *TWO_HOSTS, "-l", "walltime=00:00:30")
    # Once, as the walltime is near; what is saved afterwards comes there at the walltime alone.
    job.wait_until("step 1 is flushed", (directory / "flushed" / "step-1").exists)
    checkpointed.save(directory, 5)
    job.wait()
    said = (directory / "said").read_text()
    assert checkpointed.flushed(directory) == 5, said
    for note in directory.glob("0.*"):
        note.unlink()
    job = cluster.submit_without_shell(directory, line, *TWO_HOSTS)
    job.wait_until("both ranks have begun", lambda: len(list(directory.glob("0.*"))) == 2)
    began = sorted(path.read_text().strip() for path in directory.glob("0.*"))
    assert [each.split(" on ")[0] for each in began] == ["0 of 2", "1 of 2"], began
    assert [each.split(" from ")[1] for each in began] == ["5: rank 0 at step 5", "5: rank 1 at step 5"], began
    (directory / "end").touch()
    assert job.wait().code == 0, (directory / "said").read_text()
