"""However Slurm ends a job, and however often it signals for it: each worker gets SIGTERM once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm.conftest import PATH
from slurm.test_signals_once import COUNTER, got
from support import programs, slurm_cluster
from support.hosts import wait_until
from support.slurm_cluster import SlurmCluster

STARTS = {
    "srun-per-node": f"srun ddprun --nproc-per-node 2 {COUNTER} $PWD",
    "srun-per-task": f"srun ddprun {COUNTER} $PWD",
    "self-launch": f"ddprun --nproc-per-node 2 {COUNTER} $PWD",
}
# Preempted by a job of the partition `first`, at once or after a grace, or to be run again.
PREEMPTION = ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
PARTITIONS = ["PartitionName=cancelled Nodes=ALL PriorityTier=1 PreemptMode=CANCEL State=UP",
              "PartitionName=warned Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=10 State=UP",
              "PartitionName=requeued Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE State=UP",
              "PartitionName=first Nodes=ALL PriorityTier=10 State=UP"]


@pytest.fixture(scope="module")
def preempting_cluster(binary) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with SlurmCluster(2, settings=PREEMPTION, partitions=PARTITIONS, kept=programs.kept_paths(), path=PATH) as cluster:
        yield cluster


def submit(cluster: SlurmCluster, folder: Path, how: str, partition: str = "test", minutes: int = 30) -> str:
    folder.mkdir()
    (folder / "job.sh").write_text(f'#!/bin/sh\n[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] || exit 0\ncd {folder}\n{STARTS[how]}\n')
    tasks = 2 if how == "srun-per-task" else 1
    return cluster.control.check(["sbatch", "--parsable", "-N2", f"--ntasks-per-node={tasks}", f"--partition={partition}",
                                  f"--time={minutes}", "--requeue", f"--output={folder}/output", "--open-mode=append",
                                  str(folder / "job.sh")]).strip()


def wait_for_workers(folder: Path) -> None:
    wait_until("all workers run", lambda: len(list(folder.glob("ready.*"))) == 4)


def is_over(folder: Path) -> bool:
    return len(list(folder.glob("saved.*"))) == 4


def check_once(folder: Path, seconds: float = 60) -> str:
    """What ddprun said of it."""
    wait_until("all workers have ended", lambda: is_over(folder), seconds)
    wait_until("ddprun says why", lambda: "stopped by SIGTERM on " in (folder / "output").read_text())
    output = (folder / "output").read_text()
    assert got(folder, "SIGTERM") == [1] * 4, output
    lines = [line for line in output.splitlines() if line.startswith("ddprun: stopped by SIGTERM on ")]
    assert len(lines) == 1, output
    return lines[0]


@pytest.fixture(scope="module")
def cgroup_cluster(preempting_cluster) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.why_no_cgroups()
    if reason is not None:
        pytest.skip(reason)
    slurm_cluster.remove_cgroups()
    with SlurmCluster(1, cgroups=True, kept=programs.kept_paths(), path=PATH) as cluster:
        yield cluster


# Without exec Slurm's SIGTERM ends the script's shell alone, and then Slurm kills what the shell has started.
@pytest.mark.parametrize("how,start", [("srun-per-node", "exec srun -n1 ddprun --nproc-per-node 4"), ("srun-per-task", "exec srun -n4 ddprun"),
                                       ("batch", "exec ddprun --nproc-per-node 4")])
@pytest.mark.parametrize("command,why", [("scontrol requeue", "is requeued"),
                                         ("scancel", "was cancelled, or its script has ended")])
def test_where_slurm_tracks_its_steps_by_cgroups(cgroup_cluster, how, start, command, why):
    cluster = cgroup_cluster
    folder = cluster.home / f"{command.replace(' ', '-')}-{how}"
    folder.mkdir()
    (folder / "job.sh").write_text(f'#!/bin/sh\n[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] || exit 0\ncd {folder}\n{start} {COUNTER} {folder}\n')
    job = cluster.control.check(["sbatch", "--parsable", "-N1", "-n4", "--requeue", f"--output={folder}/output",
                                 "--open-mode=append", str(folder / "job.sh")]).strip()
    wait_for_workers(folder)
    cluster.control.check([*command.split(), job])
    assert check_once(folder).endswith(f": job {job} {why}")
    cluster.cancel_all()


@pytest.mark.parametrize("start,ends", [("ddprun", True), ("exec ddprun", False), ("srun ddprun", False)])
def test_the_dry_run_says_that_a_shell_which_ends_first_takes_the_grace(cgroup_cluster, start, ends):
    cluster = cgroup_cluster
    folder = cluster.home / f"grace-{start.replace(' ', '-')}"
    folder.mkdir()
    (folder / "job.sh").write_text(f"#!/bin/sh\n{start} --dry-run --no-python true\n")
    job = cluster.control.check(["sbatch", "--parsable", "-N1", "--time=10", f"--output={folder}/output", str(folder / "job.sh")]).strip()
    assert cluster.wait_for_job(job) == 0
    output = (folder / "output").read_text()
    assert " from SIGTERM to SIGKILL " in output, output
    assert ("none where SIGTERM ends the script's shell first ddprun was started without exec" in output) == ends, output


def test_a_shell_that_ends_first_takes_the_grace(cgroup_cluster):
    cluster = cgroup_cluster
    folder = cluster.home / "no-exec"
    folder.mkdir()
    (folder / "job.sh").write_text(f"#!/bin/sh\nddprun --nproc-per-node 4 {COUNTER} {folder}\n")
    job = cluster.control.check(["sbatch", "--parsable", "-N1", "-n4", f"--output={folder}/output", str(folder / "job.sh")]).strip()
    wait_for_workers(folder)
    cluster.control.check(["scancel", job])
    cluster.wait_for_job(job)
    assert not list(folder.glob("saved.*")) and "stopped by SIGTERM" not in (folder / "output").read_text()


@pytest.mark.parametrize("option,said", [("", 1), ("--shutdown-timeout 60", 0)])
def test_the_start_says_once_that_workers_get_what_slurm_leaves_them(preempting_cluster, option, said):
    cluster = preempting_cluster
    folder = cluster.home / f"start{option.replace(' ', '-')}"
    folder.mkdir()
    (folder / "job.sh").write_text(f"#!/bin/sh\nexec srun ddprun -v {option} --no-python true\n")
    job = cluster.control.check(["sbatch", "--parsable", "-N2", f"--output={folder}/output", str(folder / "job.sh")]).strip()
    assert cluster.wait_for_job(job) == 0, (folder / "output").read_text()
    line = (": the workers have 25 s to stop after a signal, or 5 s less than Slurm leaves them (GraceTime of a preemption, KillWait)\n")
    assert (folder / "output").read_text().count(line) == said, (folder / "output").read_text()


def test_the_time_limit(preempting_cluster):
    """All at once: Slurm looks for jobs over their limit every 30 s, and the least of limits is a minute."""
    cluster = preempting_cluster
    folders = {how: cluster.home / f"limit-{how}" for how in STARTS}
    jobs = {how: submit(cluster, folder, how, minutes=1) for how, folder in folders.items()}
    for how, folder in folders.items():
        assert check_once(folder, 150).endswith(f": job {jobs[how]} reached its time limit of 00:01:00"), how
        assert "\n  all 4 ranks were running\n" in (folder / "output").read_text(), how
    cluster.cancel_all()


@pytest.mark.parametrize("how", STARTS)
@pytest.mark.parametrize("partition,why", [("cancelled", "was preempted"), ("warned", "was preempted"),
                                           ("requeued", "is requeued")])
def test_a_preemption(preempting_cluster, how, partition, why):
    """Of one that it requeues Slurm forgets the preemption as soon as it has begun."""
    cluster = preempting_cluster
    folder = cluster.home / f"{partition}-{how}"
    job = submit(cluster, folder, how, partition)
    wait_for_workers(folder)
    cluster.control.check(["sbatch", "-N2", "--exclusive", "--partition=first", "--output=/dev/null", "--wrap=true"])
    assert check_once(folder).endswith(f": job {job} {why}")
    cluster.cancel_all()


@pytest.mark.parametrize("how", STARTS)
@pytest.mark.parametrize("command,why", [("scontrol requeue", "is requeued"), ("scancel", "was cancelled")])
def test_a_command(preempting_cluster, how, command, why):
    cluster = preempting_cluster
    folder = cluster.home / f"{command.replace(' ', '-')}-{how}"
    job = submit(cluster, folder, how)
    wait_for_workers(folder)
    cluster.control.check([*command.split(), job])
    assert check_once(folder).endswith(f": job {job} {why}")
    cluster.cancel_all()
