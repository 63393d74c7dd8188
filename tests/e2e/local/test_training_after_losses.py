"""A training with DDP that resumes from its checkpoint ends as if nothing had happened, whatever was lost meanwhile."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import evidence
from support.attempts import Job
from support.hosts import wait_until
from support.manual import as_text
from support.programs import REPOSITORY

TRAINING = str(REPOSITORY / "tests/e2e/scripts/train_in_attempt.py")  # it runs a script of scripts/bench
PAUSE = "0.05"  # seconds after each of 40 steps; the first checkpoint is after 5


class Training(Job):
    def program(self, *_) -> list[str]:
        return [TRAINING, str(self.directory), PAUSE]

    def wait_for_standbys(self, workers: int, spares: int) -> None:
        """Each worker has one that is ready, and each spare host one that has done its imports."""
        wait_until("all stand by", lambda: self.standbys() == ["ready"] * workers, 240)
        wait_until("those of spares wait too", lambda: len(waiting := self.waiting()) == workers + spares and self.rest(waiting), 60)

    def standbys(self) -> list[str]:
        told = self.hosts["a"].run(["ddprun", "--status=json"], env=self.env)
        return [worker.get("standby") for job in json.loads(told.stdout or "[]") for node in job["nodes"]
                for worker in node["workers"]]

    def waiting(self) -> list[str]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # gone meanwhile
                variables = (entry / "environ").read_bytes()
                if self.marker.encode() in variables and b"DDPRUN_STANDBY=" in variables:
                    found.append(entry.name)
        return found

    @staticmethod
    def rest(pids: list[str]) -> bool:
        """They use no CPU."""
        used = [[Path(f"/proc/{pid}/schedstat").read_text().split()[0] for pid in pids]]
        time.sleep(1)
        used.append([Path(f"/proc/{pid}/schedstat").read_text().split()[0] for pid in pids])
        return used[0] == used[1]

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
    standby: int = 0  # so many workers of the next attempt are started by a standby interpreter


LOSSES = {
    "worker killed": Loss(lambda job: job.kill_worker("c"), left=3, options=("--max-restarts", "1")),
    "agent killed": Loss(lambda job: job.kill("c"), left=2),
    "host cut off": Loss(lambda job: job.hosts["c"].unplug(), left=2, cut_off="c"),
    "coordinator killed": Loss(lambda job: job.kill("a"), left=2),
    "coordinator's host cut off": Loss(lambda job: job.hosts["a"].unplug(), left=2, cut_off="a"),
    "spare takes over": Loss(lambda job: job.kill("b"), left=2, options=("--spares", "1"), nodes="3"),
    "worker killed, standby": Loss(lambda job: job.kill_worker("c"), left=3, options=("--max-restarts", "1"), standby=3),
    "coordinator killed, standby": Loss(lambda job: job.kill("a"), left=2, standby=2),
    "spare takes over, standby": Loss(lambda job: job.kill("b"), left=2, options=("--spares", "1"), nodes="3", standby=2),
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
    spares = 1 if "--spares" in loss.options else 0
    standby = ("--standby", "--events", str(job.directory / "events")) if loss.standby else ()
    job.env["BENCH_WAITS"] = "yes" if loss.standby else ""
    job.start("abc", "--host-timeout", "7", *loss.options, *standby, nodes=loss.nodes)
    job.wait_for_checkpoint(3 - spares)
    if loss.standby:
        job.wait_for_standbys(3 - spares, spares)
        (job.directory / "go").touch()
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
    started = [event.get("what") for event in evidence.events(job.directory / "events", "start") if event["attempt"] == 1]
    assert started == ["by a standby interpreter"] * loss.standby or not loss.standby
    assert not any("starts Python anew" in result.stderr for result in results.values()), as_text(list(results.values()))
    assert job.loss() == pytest.approx(undisturbed_loss, rel=1e-9)
    job.check_nothing_is_left()
