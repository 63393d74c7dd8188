"""A worker submits the next job, with all of its environment."""

from __future__ import annotations

import pytest

from pbs.test_styles import WITH_MPIEXEC, mpiexec_line
from support import evidence
from support.hosts import wait_until
from support.pbs_cluster import Job, TWO_HOSTS
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")


def submit_from_worker(cluster, directory, launch, after, *, then="true", hosts="2:ncpus=4") -> tuple[Job, Job]:
    """The first job, and the one that its rank 0 submits."""
    (directory / "after").mkdir(mode=0o777)
    (directory / "after").chmod(0o777)
    (directory / "after.sh").write_text(f"#!/bin/bash\nexport PATH={cluster.hosts.environment['PATH']}\n{after}\n")
    options = f"-l select={hosts} -l place=scatter -o {directory}/after/out -e {directory}/after/err"
    (directory / "worker.sh").write_text(
        f"[ $RANK = 0 ] && qsub -V {options} {directory}/after.sh > {directory}/submitted.new && "
        f"mv {directory}/submitted.new {directory}/submitted\n"
        f"echo $PPID > {directory}/agent.$RANK\n{then}\n")
    first = cluster.submit(directory, f"{launch} --no-python sh {directory}/worker.sh",
                           *TWO_HOSTS)
    first.wait_until("rank 0 has submitted", (directory / "submitted").exists)
    return first, Job(cluster, (directory / "submitted").read_text().strip(), directory / "after")


@pytest.mark.parametrize("following", ["itself", *WITH_MPIEXEC])
def test_the_job_that_a_worker_submits_is_one_of_its_own(cluster, ssh_daemons, directory, following):
    launch = "ddprun" if following == "itself" else f"{mpiexec_line(following)} ddprun"
    first, after = submit_from_worker(cluster, directory, "ddprun", f"{launch} {PRINT} {directory}/after")
    assert first.wait().code == 0
    result = after.wait()
    assert result.code == 0, str(result)
    workers = evidence.workers(directory / "after")
    assert [(each["host"], each["RANK"], each["WORLD_SIZE"]) for each in workers] == [
        ("p1", "0", "2"), ("p2", "1", "2")], str(result)


def test_what_cleans_up_after_a_killed_ddprun_leaves_the_submitted_job_alone(cluster, directory):
    after = f"touch {directory}/after/runs; until [ -e {directory}/go ]; do sleep 0.1; done; touch {directory}/after/done"
    first, following = submit_from_worker(cluster, directory, "ddprun", after, then="exec sleep 600",
                                          hosts="1:ncpus=2:host=p1")
    following.wait_until("the submitted job runs", (directory / "after" / "runs").exists)
    cluster.nodes[0].check(["kill", "-KILL", (directory / "agent.0").read_text().strip()])
    assert first.wait().code != 0
    (directory / "go").touch()
    result = following.wait()
    assert (directory / "after" / "done").exists() and result.code == 0, str(result)
