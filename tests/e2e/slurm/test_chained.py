"""A worker submits the next job, as trainings do that go on past their time limit; sbatch hands its whole environment
on."""

from __future__ import annotations

import pytest

from support import evidence
from support.hosts import wait_until
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")

NEXT = {"itself": "ddprun", "srun": "srun ddprun", "mpiexec": "mpiexec.hydra -ppn 1 ddprun"}
FIRST = {"itself": "ddprun", "srun, one a task": "srun ddprun", "mpiexec, one a task": "mpiexec.hydra -ppn 2 ddprun"}


@pytest.mark.parametrize("following", NEXT)
@pytest.mark.parametrize("first", FIRST)
def test_the_job_that_a_worker_submits_is_one_of_its_own(cluster, directory, first, following):
    after = directory / "after.sh"
    after.write_text(f"#!/bin/sh\n{NEXT[following]} {PRINT} {directory}; echo ended with $? >> {directory}/ended\n")
    tasks = 1 if first == "itself" else 2
    submit = (f"[ $RANK = 0 ] || exit 0; "
              f"sbatch -N2 --ntasks-per-node=1 --output={directory}/after.output {after}")
    script = directory / "first.sh"
    script.write_text(f"#!/bin/sh\nexport CHOSEN_BY_USER=1\n{FIRST[first]} --no-python sh -c '{submit}'\n")
    result = cluster.run("sbatch", "-N2", f"--ntasks-per-node={tasks}", f"--output={directory}/first.output", str(script))
    assert result.code == 0, str(result)
    wait_until("the next job has ended", lambda: (directory / "ended").exists() and (directory / "ended").read_text(), 120)
    output = (directory / "first.output").read_text() + (directory / "after.output").read_text()
    assert (directory / "ended").read_text() == "ended with 0\n", output
    workers = evidence.workers(directory)
    assert sorted((worker["RANK"], worker["WORLD_SIZE"], worker["CHOSEN_BY_USER"]) for worker in workers) == [
        ("0", "2", "1"), ("1", "2", "1")], output
    assert evidence.times_said(output, "variables inherited from a ddprun worker of slurm/") == 1, output
