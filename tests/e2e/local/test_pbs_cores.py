"""Jobs of a PBS without the cgroups hook: all may use the whole host, and each was granted some of its cores."""

from __future__ import annotations

import os
import socket

import pytest

WAIT = 'touch up.$1; until [ -e end ]; do sleep 0.05; done; grep Cpus_allowed_list /proc/self/status; echo threads $OMP_NUM_THREADS'


@pytest.fixture
def job(machine):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU cannot be shared out")
    (machine.directory / "nodes").write_text(socket.gethostname() + "\n")
    return {"PBS_JOBID": "7.ctl", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": str(machine.directory / "nodes"),
            "NCPUS": "1"}


def test_two_jobs_on_a_host_keep_to_cores_of_their_own(machine, job):
    jobs = [machine.start("--no-python", "sh", "-c", WAIT, "sh", name, env=job) for name in "ab"]
    machine.wait_for_files("up.a", "up.b")
    (machine.directory / "end").touch()
    results = [job.wait() for job in jobs]
    assert [result.code for result in results] == [0, 0], [str(result) for result in results]
    lists = [result.stdout.splitlines()[0].split()[1] for result in results]
    assert len(set(lists)) == 2 and all(cpus.isdigit() for cpus in lists), lists
    assert all("threads 1" in result.stdout for result in results)


def test_a_job_without_free_cores_has_the_whole_host_and_says_so(machine, job):
    half = {"NCPUS": str((len(os.sched_getaffinity(0)) + 1) // 2)}
    jobs = [machine.start("--no-python", "sh", "-c", WAIT, "sh", name, env=job | half) for name in "ab"]
    machine.wait_for_files("up.a", "up.b")
    last = machine.run("--no-python", "true", env=job | half)
    (machine.directory / "end").touch()
    assert [each.wait().code for each in jobs] == [0, 0]
    assert last.code == 0 and "but other ddprun processes use so many of them" in last.stderr, str(last)
