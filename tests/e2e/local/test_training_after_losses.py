"""A training with DDP that resumes from its checkpoint ends as if nothing had happened, whatever was lost meanwhile."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from support.attempts import Job
from support.hosts import wait_until
from support.manual import as_text
from support.programs import REPOSITORY

TRAINING = str(REPOSITORY / "tests/e2e/scripts/train_in_attempt.py")  # it runs a script of scripts/bench
PAUSE = "0.05"  # seconds after each of 40 steps; the first checkpoint is after 5


class Training(Job):
    def program(self, *_) -> list[str]:
        return [TRAINING, str(self.directory), PAUSE]

    def records(self, kind: str) -> list[dict]:
        return [json.loads(path.read_text()) for path in self.directory.glob(f"{kind}.*")]

    def wait_for_checkpoint(self, workers: int) -> None:
        wait_until("all train, and there is a checkpoint",
                   lambda: (self.directory / "checkpoint").exists() and len(self.records("trained")) == workers)

    def kill_worker(self, name: str) -> None:
        [pid] = [record["pid"] for record in self.records("began") if record["host"] == name]
        self.hosts[name].check(["kill", "-KILL", str(pid)])

    def loss(self) -> float:
        return json.loads((self.directory / "loss").read_text())


@dataclass
class Loss:
    cause: Callable[[Training], object]
    left: int  # workers
    cut_off: str = ""
    options: tuple[str, ...] = ()
    nodes: str = "1:3"


LOSSES = {
    "worker killed": Loss(lambda job: job.kill_worker("c"), left=3, options=("--max-restarts", "1")),
    "agent killed": Loss(lambda job: job.kill("c"), left=2),
    "host cut off": Loss(lambda job: job.hosts["c"].unplug(), left=2, cut_off="c"),
    "coordinator killed": Loss(lambda job: job.kill("a"), left=2),
    "coordinator's host cut off": Loss(lambda job: job.hosts["a"].unplug(), left=2, cut_off="a"),
    "spare takes over": Loss(lambda job: job.kill("b"), left=2, options=("--spares", "1"), nodes="3"),
}


@pytest.fixture
def job(hosts, directory, key, torch_python):
    job = Training(hosts, directory, key)
    yield job
    job.check_no_overlap()


@pytest.fixture(scope="module")
def undisturbed_loss(host_group, torch_python) -> float:
    """Of a single worker without ddprun, on the last host."""
    folder = host_group.home / "undisturbed"
    folder.mkdir()
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
             "TORCHELASTIC_RESTART_COUNT": "0"}
    host_group["d"].check([str(torch_python), TRAINING, str(folder), "0"], env=alone)
    return json.loads((folder / "loss").read_text())


@pytest.mark.parametrize("loss", LOSSES.values(), ids=[name.replace(" ", "-") for name in LOSSES])
def test_a_training_ends_with_the_loss_of_an_undisturbed_one(job, undisturbed_loss, loss):
    job.start("abc", "--host-timeout", "7", *loss.options, nodes=loss.nodes)
    job.wait_for_checkpoint(2 if "--spares" in loss.options else 3)
    loss.cause(job)
    try:
        if loss.cut_off == "c":  # which would give up by itself while the others train
            wait_until("the others have trained on", lambda: any(each["resumed"] > 0 for each in job.records("trained")))
            job.stop_searching("c")
        results = job.wait_for_end_of(*(name for name in job.agents if name != loss.cut_off))
        if loss.cut_off == "a":
            job.wait_for_end_of("a")
    finally:
        if loss.cut_off:
            job.hosts[loss.cut_off].plug_in_again()
    assert {result.code for result in results.values()} == {0}, as_text(list(results.values()))
    last = [record for record in job.records("trained") if record["resumed"] > 0]
    assert [record["workers"] for record in last] == [loss.left] * loss.left, job.records("trained")
    assert job.loss() == pytest.approx(undisturbed_loss, rel=1e-9)
    job.check_nothing_is_left()
