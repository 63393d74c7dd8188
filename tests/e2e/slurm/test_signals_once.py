"""Whoever signals the processes of a Slurm job, and however many of them: each worker gets the signal once."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from support.hosts import wait_until
from support.programs import SCRIPTS

COUNTER = f"--no-python {sys.executable} {SCRIPTS / 'count_signals.py'}"

# How ddprun is started in a batch script on two nodes; all of them with four workers.
STARTS = {
    "srun-per-node": "srun --overlap -J ddprun sh -c 'echo $$ > {d}/pid.$SLURM_NODEID; exec ddprun --nproc-per-node 2 {w}'",
    "srun-per-task": "srun --overlap ddprun {w}",
    "self-launch": "ddprun --nproc-per-node 2 {w}",
    "exec-self-launch": "exec ddprun --nproc-per-node 2 {w}",
}

# How the signal is sent; {j} is the job and {s} ddprun's step.
WAYS = {
    "scancel": ("SIGTERM", "scancel {j}"),
    "scancel-usr1": ("SIGUSR1", "scancel -s USR1 {j}"),
    "scancel-step-usr1": ("SIGUSR1", "scancel -s USR1 {s}"),
    "scancel-batch-usr1": ("SIGUSR1", "scancel -b -s USR1 {j}"),
    "scancel-full-usr1": ("SIGUSR1", "scancel --full -s USR1 {j}"),
    "scancel-step-term": ("SIGTERM", "scancel -s TERM {s}"),
    "kill-usr1": ("SIGUSR1", "kill -USR1 $(cat {d}/pid.0)"),
    "kill-term": ("SIGTERM", "kill -TERM $(cat {d}/pid.0)"),
}

COMBINATIONS = [
    ("srun-per-node", "scancel"), ("srun-per-node", "scancel-usr1"), ("srun-per-node", "scancel-step-usr1"),
    ("srun-per-node", "scancel-full-usr1"), ("srun-per-node", "kill-term"), ("srun-per-task", "scancel-usr1"),
    ("srun-per-task", "scancel-step-term"), ("self-launch", "scancel-usr1"), ("exec-self-launch", "scancel-batch-usr1"),
    ("exec-self-launch", "scancel-full-usr1"),
]


def start(cluster, directory: Path, how: str, other_steps: int = 0, saving: float = 1) -> str:
    """Submits the job and waits for its workers; gives back its number."""
    line = STARTS[how].format(d=directory, w=f"{COUNTER} {directory} {saving}")
    others = "srun --overlap -J other -N1 -n1 sh -c 'sleep 600 & wait' &\n" * other_steps
    (directory / "job.sh").write_text(f"#!/bin/sh\ncd {directory}\n{others}{line}\n")
    job = cluster.control.check(["sbatch", "--parsable", "-N2", f"--ntasks-per-node={2 if how == 'srun-per-task' else 1}",
                                 f"--output={directory}/output", str(directory / "job.sh")]).strip()
    wait_until("all workers run", lambda: len(list(directory.glob("ready.*"))) == 4)
    time.sleep(0.3)  # whoever signals a tree may have missed processes made just before: then twice is right
    wait_until("all steps run", lambda: len(steps(cluster, job)) >= other_steps + 1)
    return job


def steps(cluster, job: str) -> list[tuple[str, str]]:
    lines = cluster.control.check(["squeue", "-s", "-h", "-j", job, "-o", "%i %j"]).splitlines()
    return [tuple(line.split()) for line in lines if "batch" not in line and "extern" not in line]


def send(cluster, directory: Path, job: str, way: str) -> str:
    name, command = WAYS[way]
    step = ""
    if "{s}" in command:
        step = next(number for number, name_of_step in steps(cluster, job) if name_of_step == "ddprun")
    host = cluster.hosts["n1"] if command.startswith("kill") else cluster.control
    host.check(["sh", "-c", command.format(j=job, s=step, d=directory)])
    return name


def got(directory: Path, name: str) -> list[int]:
    """How often each rank got it."""
    files = [directory / f"got.{rank}" for rank in range(4)]
    return [file.read_text().split().count(name) if file.exists() else 0 for file in files]


def send_twice(cluster, directory: Path, job: str, way: str) -> None:
    send(cluster, directory, job, way)
    wait_until("all workers have it", lambda: all(got(directory, "SIGTERM")), 20)
    cluster.control.check(["sleep", "0.3"])  # closer together they are one for whoever sent them
    send(cluster, directory, job, way)


def is_over(cluster, job: str) -> bool:
    return not cluster.run("squeue", "-h", "-j", job).stdout.strip()


def count(cluster, directory: Path, how: str, way: str, other_steps: int) -> list[int]:
    job = start(cluster, directory, how, other_steps)
    name = send(cluster, directory, job, way)
    wait_until("all workers have it", lambda: all(got(directory, name)), 20)
    if name != "SIGTERM":
        # It goes the same ways: what is still to come comes before this.
        cluster.run("scancel", job)
    wait_until("the job is over", lambda: is_over(cluster, job))
    return got(directory, name)


@pytest.mark.parametrize("other_steps", [0, 8], ids=["one-step", "nine-steps"])
@pytest.mark.parametrize("how,way", COMBINATIONS, ids=["-by-".join(pair) for pair in COMBINATIONS])
def test_each_worker_gets_a_signal_once(cluster, directory, how, way, other_steps):
    assert count(cluster, directory, how, way, other_steps) == [1] * 4, (directory / "output").read_text()


@pytest.mark.parametrize("how", ["srun-per-node", "self-launch"])
def test_a_scheduler_that_asks_twice_leaves_the_workers_their_grace(cluster, directory, how):
    """As at a time limit, where slurmstepd sends SIGTERM twice, up to 165 ms apart."""
    job = start(cluster, directory, how, saving=6)
    send_twice(cluster, directory, job, "scancel-step-term")
    wait_until("the job is over", lambda: is_over(cluster, job))
    output = (directory / "output").read_text()
    assert len(list(directory.glob("saved.*"))) == 4, output
    assert " again on " not in output, output


def test_a_person_who_asks_twice_hurries(cluster, directory):
    job = start(cluster, directory, "srun-per-node", saving=600)
    send_twice(cluster, directory, job, "kill-term")
    wait_until("it says so", lambda: "SIGTERM again on n1: killing the remaining processes" in (directory / "output").read_text())
    cluster.run("scancel", job)
