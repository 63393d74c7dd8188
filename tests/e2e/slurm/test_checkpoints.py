"""Checkpoints in memory on a real Slurm: its time limit and scancel lose nothing of a training that handles no signal."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from slurm.test_time_limits import run_again_now, show
from support import checkpointed, evidence
from support.hosts import wait_until

pytestmark = pytest.mark.usefixtures("torch_python")


@pytest.fixture(scope="module")
def training(running_cluster, torch_python) -> dict[str, str]:
    return checkpointed.environment(running_cluster.home, torch_python)


@pytest.fixture(scope="module")
def undisturbed(running_cluster, training) -> str:
    return checkpointed.undisturbed(running_cluster.control, running_cluster.home / "undisturbed", "ddp", training)


@pytest.fixture
def submit(cluster, directory, training):
    def run(pause: str, *options: str) -> str:
        """`pause`: seconds of each step; a requeued job is quick."""
        script = directory / "job.sh"
        words = ["ddprun", "--checkpoint-memory", "64M", "--checkpoint-flush", str(directory / "flushed"), *options, checkpointed.TRAINING,
                 str(directory)]
        script.write_text(f"#!/bin/sh\n{checkpointed.exports(training)}pause={pause}; [ -z $SLURM_RESTART_COUNT ] || pause=0.05\n"
                          f"exec {shlex.join(words)} $pause\n")
        return cluster.control.check(["sbatch", "--parsable", "-N2", "--ntasks-per-node=1", "--time=1", "--requeue", "--open-mode=append",
                                      f"--output={directory}/output", str(script)]).strip()
    return run


def went_on(folder: Path) -> int:
    """The step from which both ranks went on, which was in the flush folder."""
    began = checkpointed.began(folder, 0)
    step = began[0]["step"]
    assert [each["step"] for each in began] == [step, step] and step > 0, began
    assert began[0]["hash"] == checkpointed.saved(folder, step), began
    return step


def test_a_time_limit_requeues_the_job_which_goes_on_from_its_last_step(cluster, directory, submit, undisturbed):
    job = submit("2.5", "--requeue")  # longer than a limit of a minute, which Slurm looks at every half
    run_again_now(cluster, job)
    output = (directory / "output").read_text()
    assert f"ddprun: requeuing job {job}: it reached its time limit (restart 1)" in output, output
    assert not (directory / "ended").exists() and checkpointed.flushed(directory) > 0, output
    last = json.loads((directory / "saved.0").read_text())["step"]
    for note in directory.glob("began.*"):
        note.unlink()
    assert cluster.wait_for_job(job) == 0, f"{show(cluster, job)}\n{(directory / 'output').read_text()}"
    assert went_on(directory) >= last - 2, last  # the ranks may have ended within a save
    assert checkpointed.ended(directory) == undisturbed


def test_what_is_cancelled_can_be_continued_by_another_job(cluster, directory, submit, undisturbed):
    job = submit("0.5")
    wait_until("step 6 is saved", lambda: (directory / "hash.6").exists(), 120)
    cluster.control.check(["scancel", job])
    cluster.wait_for_job(job)
    assert not (directory / "ended").exists() and checkpointed.flushed(directory) >= 6, (directory / "output").read_text()
    for note in directory.glob("began.*"):
        note.unlink()
    assert cluster.wait_for_job(submit("0.05")) == 0, (directory / "output").read_text()
    went_on(directory)
    assert checkpointed.ended(directory) == undisturbed


def test_memory_is_kept_for_the_requeued_job_on_the_same_nodes(cluster, directory):
    checkpointed.save(directory, 5)
    words = ["ddprun", "--checkpoint-memory", "64M", "--checkpoint-keep", "--requeue=1", "--requeue-on", "85", "--events",
             str(directory / "events"), *checkpointed.shell(directory)]
    (directory / "job.sh").write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    job = cluster.control.check(["sbatch", "--parsable", "--nodelist=n1,n2", "--ntasks-per-node=1", "--time=5", "--requeue",
                                 "--open-mode=append", f"--output={directory}/output", str(directory / "job.sh")]).strip()
    wait_until("step 5 is complete", lambda: any(each["step"] == 5 for each in evidence.events(directory / "events", "checkpoint")))
    (directory / ".end").write_text("85")
    (directory / ".end").rename(directory / "end")
    wait_until("the job is requeued", lambda: "JobState=PENDING" in show(cluster, job) and "Restarts=1 " in show(cluster, job))
    for note in (*directory.glob("0.*"), directory / "end"):
        note.unlink()
    cluster.run_again_now(job)
    wait_until("both ranks have begun", lambda: len(list(directory.glob("0.*"))) == 2)
    began = sorted(path.read_text().strip() for path in directory.glob("0.*"))
    assert began == ["0 of 2 on n1 from 5: rank 0 at step 5", "1 of 2 on n2 from 5: rank 1 at step 5"], (directory / "output").read_text()
    (directory / "end").touch()
    assert cluster.wait_for_job(job) == 0, (directory / "output").read_text()
    left = [node.run(["sh", "-c", "ls -d /dev/shm/ddprun-*/checkpoints-*"]).stdout for node in cluster.nodes[:2]]
    assert left == ["", ""]
