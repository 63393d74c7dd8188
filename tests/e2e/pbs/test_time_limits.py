"""--signal-before-end and --requeue on a real OpenPBS, which lets operators alone run a job again."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from support.hosts import Host, wait_until
from support.pbs_cluster import Job, PbsCluster, TWO_HOSTS, USER
from support.programs import SCRIPTS

SAVER = f"--no-python {sys.executable} {SCRIPTS / 'save_when_warned.py'}"


@contextlib.contextmanager
def held_until_its_moms_have_forgotten_it(cluster: PbsCluster, job: Job) -> Iterator[None]:
    """A job that PBS runs again in the same moment as it has its moms delete it may never start there (OpenPBS 23.06)."""
    def forgotten(node: Host) -> bool:
        return node.run(["sh", "-c", f"grep -hiE ';{job.number};delete.job.*received' /var/spool/pbs/mom_logs/*"]).code == 0

    cluster.control.check(["qmgr", "-c", "set server scheduling=false"])
    try:
        yield
        wait_until("the first run is deleted", lambda: all(forgotten(node) for node in cluster.nodes[:2]))
    finally:
        cluster.control.check(["qmgr", "-c", "set server scheduling=true"])


@contextlib.contextmanager
def operator(cluster: PbsCluster) -> Iterator[None]:
    cluster.control.check(["qmgr", "-c", f"set server operators += {USER}@*"])
    try:
        yield
    finally:
        cluster.control.check(["qmgr", "-c", f"set server operators -= {USER}@*"])


def saved(folder: Path, run: int) -> list[str]:
    return sorted(path.read_text().strip() for path in folder.glob(f"run.{run}/saved.*"))


def test_each_rank_is_warned_before_the_walltime_and_the_job_runs_again_as_often_as_allowed(cluster, ssh_daemons, directory):
    line = f"cd {directory}; run=run.$(ls -d run.* | wc -l); mkdir $run; " \
           f"exec ddprun --launcher pbsdsh --signal-before-end USR1@25 --requeue=1 {SAVER} {directory}/$run 2>> said"
    with operator(cluster):
        job = cluster.submit_without_shell(directory, line, *TWO_HOSTS, "-l", "walltime=00:00:45")
        job.wait_until("it runs", lambda: job.state() == "R")
        with held_until_its_moms_have_forgotten_it(cluster, job):
            job.wait_until("the first run has saved", lambda: len(saved(directory, 0)) == 2, 120)
        job.wait_until("both runs have saved", lambda: len(saved(directory, 1)) == 2, 180)
        result = job.wait()
    said = (directory / "said").read_text()
    assert [saved(directory, run) for run in (0, 1)] == [["1 loader lives"] * 2] * 2, said
    left = re.findall(rf"^ddprun: sending SIGUSR1 to all ranks: job {job.number} ends in (\d+) s \(its time limit\)$", said, re.MULTILINE)
    assert len(left) == 2 and all(15 <= int(each) <= 25 for each in left), said
    assert f"ddprun: requeuing job {job.number}: its workers ended after SIGUSR1 (restart 1 of 1)" in said, said
    assert f"job {job.number} is not requeued: it was requeued 1 time already (--requeue=1)" in said, said
    assert result.code == 0, str(result)


def test_who_is_no_operator_is_told_what_pbs_says(cluster, ssh_daemons, directory):
    line = f"cd {directory}; exec ddprun --launcher pbsdsh --requeue --requeue-on 85 --no-python sh -c 'exit 85'"
    job = cluster.submit_without_shell(directory, line, *TWO_HOSTS)
    result = job.wait()
    assert result.code == 85, str(result)
    assert re.search(rf"job {re.escape(job.number)} is not requeued: .*Unauthorized Request", result.stderr), str(result)
    assert "hint: qrerun needs the rights of an operator: submit the next job from the batch script instead" in result.stderr
