"""Several programs in one Slurm job: started by srun and by ddprun itself, and what happens when parts of it are lost."""

from __future__ import annotations

import json
import re

import pytest

from support import several
from support.hosts import wait_until

STEP = {"STEP_TIME": "0.1", "OMP_NUM_THREADS": "1"}
SRUN = ["srun", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--ntasks-per-node=1"]
TRAIN = ("--nnodes", "2", "--nproc-per-node", "1")


@pytest.fixture
def env(torch_python) -> dict[str, str]:
    return {"PYTHON_EXEC": str(torch_python), **STEP}


@pytest.fixture(scope="module")
def losses() -> list[dict[int, str]]:
    """Of the first test; all later ones have the same."""
    return []


def check(result, losses, steps: int = 20) -> None:
    found = several.losses(result.stdout)
    assert result.code == 0 and len(found) == steps, str(result)
    losses.append(found)
    assert found == losses[0], str(result)


def test_srun_starts_one_ddprun_a_node(cluster, directory, env, losses):
    line = several.words(directory, train=TRAIN, colon="::")
    result = cluster.run(*SRUN, "-N3", "ddprun", *line, env=env)
    check(result, losses)
    assert re.search(r"^\[train 0 n1\] step 0", result.stdout, re.M), str(result)
    assert "ddprun: train ended with code 0; stopping server" in result.stderr, str(result)
    assert "stopped by" not in result.stderr, str(result)


def test_by_itself_in_a_batch_script(cluster, directory, env, losses):
    script = directory / "job.sh"
    line = " ".join(several.words(directory, train=TRAIN))
    script.write_text(f"#!/bin/sh\n#SBATCH -N3 --ntasks-per-node=1\nexec ddprun {line}\n")
    result = cluster.batch("-o", f"{directory}/out", "-e", f"{directory}/err", str(script), env=env)
    text = (directory / "out").read_text()
    assert result.code == 0, text + (directory / "err").read_text()
    assert several.losses(text) == losses[0], text
    assert "ddprun: train ended with code 0; stopping server" in (directory / "err").read_text()


def test_one_ddprun_a_worker_is_refused(cluster, env):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=2", "ddprun", "a.py", "::", "b.py", env=env)
    assert result.code == 2 and "several programs need one ddprun on each node" in result.stderr, str(result)


def test_too_few_nodes_are_refused_with_all_programs(cluster, env):
    result = cluster.run(*SRUN, "-N2", "ddprun", "--nnodes", "2", "a.py", "::", "--nnodes", "1", "b.py", env=env)
    assert result.code == 2 and "the programs ask for more nodes than the job has, 2: a 2, b 1" in result.stderr, str(result)


def test_the_plan_of_a_job(cluster, directory):
    result = cluster.run("salloc", "-Q", "-N3", "ddprun", "--dry-run", *several.words(directory, train=TRAIN))
    assert result.code == 0, str(result)
    assert "program train on n[1-2]\n" in result.stdout and "program server on n3\n" in result.stdout, str(result)
    assert "program load on n[1-2]\n" in result.stdout, str(result)


def test_a_node_of_the_server_that_is_cut_off_is_replaced_by_its_spare(cluster, directory, env):
    server = ("--nnodes", "3", "--spares", "1", "--max-restarts", "1")
    line = several.words(directory, train=("--nnodes", "1", "--nproc-per-node", "2"), server=server, colon="::", steps=10000)
    run = cluster.popen(*SRUN, "-N4", "ddprun", *line, env=env)
    several.wait_for_steps(directory, 4)
    trainers = several.workers("train.py", directory)
    assert len(trainers) == 2
    cluster.hosts["n2"].unplug()  # its agent coordinates the servers
    try:
        done = several.saved_step(directory)
        several.wait_for_steps(directory, done + 150)  # of which those before the loss is noticed are few
        assert several.workers("train.py", directory) == trainers
        cluster.run("scancel", "--signal=TERM", "--user=root")
    finally:
        cluster.hosts["n2"].plug_in_again()
        cluster.restore("n2")
    result = run.wait()  # srun waits for the task there
    said = result.stderr
    assert "lost the coordinator n2" in said and "starting all workers again on 2 of 2 nodes" in said, str(result)


def test_the_loss_of_the_first_node_starts_all_programs_again_on_the_others(cluster, directory, env):
    """The trainer does without its spare, and goes on from what it has saved."""
    train = ("--nnodes", "3", "--spares", "1", "--nproc-per-node", "1")
    line = several.words(directory, train=train, server=("--nnodes", "1"), colon="::", steps=10000)
    run = cluster.popen(*SRUN, "-N4", "ddprun", *line, env=env)
    several.wait_for_steps(directory, 12)
    cluster.hosts["n1"].unplug()  # its agent coordinates the launch, and the trainer
    try:
        wait_until("the trainer runs on the others", lambda: len(several.workers("train.py", directory)) == 2 and list(
            directory.glob("batches/n3/done.*")) and several.workers("serve.py", several.PORT), 120)
        done = several.saved_step(directory)
        several.wait_for_steps(directory, done + 20)
        cluster.run("scancel", "--signal=TERM", "--user=root")
    finally:
        cluster.hosts["n1"].plug_in_again()
        cluster.restore("n1")
    result = run.wait()
    assert "lost the coordinator n1" in result.stderr and "starting all workers again on 3 of 4 nodes" in result.stderr, str(result)
    assert "the store" not in result.stderr, str(result)
    several.losses(result.stdout)  # of a step that ran twice both are the same
    steps = [int(step) for step in re.findall(r"\[train 0 n2\] step (\d+) ", result.stdout)]
    assert steps and steps[0] > 0, str(result)


def test_scancel_stops_all_of_it(cluster, directory, env):
    script = directory / "job.sh"
    line = " ".join(several.words(directory, train=TRAIN, steps=10000))
    script.write_text(f"#!/bin/sh\n#SBATCH -N3 --ntasks-per-node=1\nexec ddprun {line}\n")
    job = cluster.control.check(["sbatch", "--parsable", "-o", f"{directory}/out", "-e", f"{directory}/err", str(script)], env=env).strip()
    several.wait_for_steps(directory, 4)
    cluster.run("scancel", job)
    cluster.wait_for_job(job)
    wait_until("nothing is left", lambda: not several.workers("train.py", directory) and not several.workers("serve.py", several.PORT))
    said = (directory / "err").read_text()
    assert len(re.findall(r"^ddprun: (stopped by|the job was)", said, re.M)) >= 1, said


def test_who_asks_is_warned_the_job_is_requeued_and_a_time_limit_stops_all(cluster, directory):
    """The trainer ends well in its first run, and goes on in the second one, to the end of its time."""
    script = directory / "job.sh"
    warning = ("--signal-before-end", "USR1@40", "--requeue=1", "--report", f"{directory}/report.json")
    line = " ".join(several.waiting(directory, train=(*warning, "--nnodes", "1"), server=("--nnodes", "1")))
    script.write_text(f"#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=1 --time=1 --requeue --open-mode=append\nexec ddprun {line}\n")
    job = cluster.control.check(["sbatch", "--parsable", "-o", f"{directory}/output", str(script)]).strip()

    def shows(*texts: str) -> bool:
        shown = cluster.control.check(["scontrol", "show", "job", job])
        return all(text in shown for text in texts)

    output = directory / "output"
    wait_until("the job is requeued", lambda: shows("Restarts=1 ", "JobState=PENDING"), 180)
    said = output.read_text()
    assert "requeuing job" in said and "its workers ended after SIGUSR1 (restart 1 of 1)" in said, said
    assert (directory / "order").read_text() == "server.0 ", said  # which SIGUSR1 would have killed
    first = json.loads((directory / "report.json").read_text())
    assert (first["result"], first["what"]) == ("succeeded", "train ended with code 0"), first
    (directory / "up.train").unlink()
    cluster.run_again_now(job)
    wait_until("it runs again", (directory / "up.train").exists, 120)
    cluster.wait_for_job(job)
    said = output.read_text()
    assert (directory / "warned.1").exists(), said
    assert sorted((directory / "order").read_text().split()) == ["server.0", "server.1", "train.1"], said  # Slurm signals all at once
    assert not several.processes(str(several.WAITS), str(directory)), said
