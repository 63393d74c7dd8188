"""A real training outlives a node of its Slurm job: one that is switched off, one that is set down, one without slurmd."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import programs, slurm_cluster
from support.hosts import wait_until
from support.slurm_cluster import SlurmCluster

TRAIN = programs.SCRIPTS / "train_held.py"
PATH = [str(item) for item in (programs.binary_directory(), programs.python_directory()) if item]
OUTLIVING = "srun --no-kill --kill-on-bad-exit=0 --wait=0 --ntasks-per-node=1 ddprun"
SETTINGS = ["SlurmdTimeout=10", "KillOnBadExit=1", "WaitTime=30"]
STRICT = "srun --ntasks-per-node=1 ddprun"
NOTICE = "srun ends ddprun on all nodes when"

pytestmark = pytest.mark.usefixtures("torch_python")


@pytest.fixture(scope="module")
def running_cluster(binary) -> Iterator[SlurmCluster]:
    """One of its own: a node that does not answer is down after seconds, not after five minutes, and the first task that
    fails ends the others, as some sites have it."""
    reason = slurm_cluster.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with SlurmCluster(3, kept=programs.kept_paths(), path=PATH, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster) -> Iterator[SlurmCluster]:
    yield running_cluster
    running_cluster.restore("n2")


@pytest.fixture(scope="module")
def undisturbed_loss(running_cluster, torch_python) -> float:
    folder = running_cluster.home / "undisturbed"
    folder.mkdir()
    (folder / "go").touch()
    running_cluster.control.check(["ddprun", "--nproc-per-node", "2", str(TRAIN), str(folder)])
    return json.loads((folder / "loss").read_text())


@dataclasses.dataclass
class Training:
    cluster: SlurmCluster
    folder: Path
    job: str

    def held(self, attempt: int) -> dict[int, dict]:
        """By rank, what train_held.py left."""
        return {int(path.suffix[1:]): json.loads(path.read_text()) for path in self.folder.glob(f"held.{attempt}.*")}

    def wait_until_held(self, attempt: int, workers: int) -> dict[int, str]:
        """The hosts of the attempt by rank. A later attempt resumed where the one before was held."""
        wait_until(f"attempt {attempt} is held", lambda: len(self.held(attempt)) == workers, 90)
        held = self.held(attempt)
        assert {each["first"] for each in held.values()} == {3 * attempt}, held
        return {rank: each["host"] for rank, each in sorted(held.items())}

    def code(self) -> int:
        """Of what the batch script ran."""
        path = self.folder / "code"
        return int(wait_until("the command has ended", lambda: path.exists() and path.read_text(), 90))

    def finish(self) -> float:
        """The loss it ends with."""
        (self.folder / "go").touch()
        wait_until("the training has ended", (self.folder / "loss").exists, 90)
        return json.loads((self.folder / "loss").read_text())

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()


def start(cluster: SlurmCluster, directory: Path, command: str, *options: str) -> Training:
    """Two nodes train and n3 waits, or with a range of two and three nodes all of them train."""
    script = directory / "job.sh"
    script.write_text(f"#!/bin/sh\n{command} --host-timeout 7 {shlex.quote(str(TRAIN))} {directory}\n"
                      f"echo $? > {directory}/code.new; mv {directory}/code.new {directory}/code\n")
    told = cluster.run("sbatch", "--parsable", "-N3", *options, f"--output={directory}/output", str(script))
    assert told.code == 0, str(told)
    return Training(cluster, directory, told.stdout)


def set_down(cluster: SlurmCluster) -> None:
    cluster.control.check(["scontrol", "update", "nodename=n2", "state=down", "reason=test"])


def wait_until_down(cluster: SlurmCluster) -> None:
    wait_until("n2 is down", lambda: cluster.state_of("n2").startswith("down"), pause=0.2)


@pytest.mark.parametrize("silently", [True, False], ids=["switched_off", "killed"])
def test_a_node_with_all_that_runs_there_is_replaced_by_the_spare(cluster, directory, undisturbed_loss, silently):
    training = start(cluster, directory, "ddprun --spares 1", "--no-kill")
    assert training.wait_until_held(0, 2) == {0: "n1", 1: "n2"}
    cluster.kill_all("n2", silently=silently)
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3"}
    if silently:  # what slurmctld does to the job is the same for both
        wait_until_down(cluster)
    assert training.finish() == pytest.approx(undisturbed_loss, rel=1e-9)
    assert training.code() == 0, training.output
    if silently:
        assert cluster.wait_for_job(training.job) == 0


def test_a_node_without_slurmd_is_lost_once_that_comes_back(cluster, directory, undisturbed_loss):
    training = start(cluster, directory, "ddprun --spares 1", "--no-kill")
    assert training.wait_until_held(0, 2) == {0: "n1", 1: "n2"}
    cluster.kill_slurmd("n2")
    wait_until_down(cluster)
    assert not training.held(1), training.output
    cluster.start_slurmd("n2")
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3"}
    assert training.finish() == pytest.approx(undisturbed_loss, rel=1e-9)
    assert training.code() == 0, training.output


@pytest.mark.parametrize(("options", "first", "then"), [
    ("--spares 1", {0: "n1", 1: "n2"}, {0: "n1", 1: "n3"}),
    ("--nnodes 2:3", {0: "n1", 1: "n2", 2: "n3"}, {0: "n1", 1: "n3"}),
], ids=["spares", "range"])
def test_a_node_that_is_set_down_is_done_without(cluster, directory, undisturbed_loss, options, first, then):
    training = start(cluster, directory, f"ddprun {options}", "--no-kill")
    assert training.wait_until_held(0, len(first)) == first
    set_down(cluster)
    assert training.wait_until_held(1, len(then)) == then
    assert training.finish() == pytest.approx(undisturbed_loss, rel=1e-9)
    assert training.code() == 0, training.output
    assert "Node failure on n2" in training.output


def test_a_plain_srun_with_the_options_goes_on_but_has_the_exit_code_of_the_killed_task(
        cluster, directory, undisturbed_loss):
    training = start(cluster, directory, f"{OUTLIVING} --spares 1", "--no-kill")
    training.wait_until_held(0, 2)
    set_down(cluster)
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3"}
    assert training.finish() == pytest.approx(undisturbed_loss, rel=1e-9)
    assert training.code() == 137, training.output
    assert NOTICE not in training.output


def test_a_plain_srun_without_the_options_ends_with_the_node_and_ddprun_says_so_before(cluster, directory):
    training = start(cluster, directory, f"{STRICT} --spares 1", "--no-kill")
    training.wait_until_held(0, 2)
    lacking = "without --no-kill --kill-on-bad-exit=0 --wait=0\n"
    assert f"{NOTICE} ddprun is lost on one, {lacking}" in training.output, training.output
    options = "srun --no-kill --kill-on-bad-exit=0 --wait=0 ddprun ..., in a job submitted with sbatch --no-kill\n"
    assert f"hint: {options}" in training.output, training.output
    set_down(cluster)
    assert training.code() == 137, training.output
    assert not training.held(1)


def test_a_job_without_no_kill_ends_with_the_node_whatever_srun_was_given(cluster, directory):
    training = start(cluster, directory, "ddprun --spares 1", "--no-requeue")
    training.wait_until_held(0, 2)
    set_down(cluster)
    shown = wait_until("the job has ended", lambda: cluster.show_ended(training.job.strip()), 90)
    assert "JobState=NODE_FAIL" in shown, shown
    assert not training.held(1)


@pytest.mark.parametrize(("srun", "said"), [
    ("SLURM_KILL_BAD_EXIT=0 SLURM_WAIT=0 srun", " a node fails, without --no-kill\n"),
    ("srun --no-kill -K0", " ddprun is lost on one, without --wait=0\n"),
    ("SLURM_NO_KILL=set srun -W0 -K0", None),
])
def test_what_srun_lacks_is_said_only_if_it_lacks_it(cluster, directory, srun, said):
    result = cluster.batch(*batch_of(directory, f"{srun} -N2 ddprun --nnodes 1:2 --no-python true"))
    output = (directory / "output").read_text()
    assert result.code == 0, output
    assert NOTICE + said in output if said else NOTICE not in output, output


def test_nothing_is_said_of_an_srun_on_another_host(cluster):
    result = cluster.run("srun", "-N2", "ddprun", "--nnodes", "1:2", "--no-python", "true")
    assert result.code == 0 and NOTICE not in result.stderr, str(result)


def batch_of(directory: Path, line: str) -> list[str]:
    script = directory / "job.sh"
    script.write_text(f"#!/bin/sh\n{line}\n")
    return ["-N2", f"--output={directory}/output", str(script)]
