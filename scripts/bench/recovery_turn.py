"""One job on several hosts, one loss in the midst of its training, and what came of it."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hosts import Hosts
from launchers import Launcher, Place
from processes import Failed, Running, kill_marked

WORKER = Path(__file__).with_name("recovery_worker.py")
COORDINATOR = 0  # the host of ddprun's agent 0, and of torchrun's store
OTHER = 2  # any but the first and the last
PAUSE = "0.05"  # seconds after each step of training
START_LIMIT = 180.0  # seconds to a job's first checkpoint
END_LIMIT = 120.0  # seconds from the first step after a loss to the job's end
SPARE_PREPARES = 15.0  # seconds, which --status does not show
POLL = 0.02  # seconds; what is timed is what the workers note


@dataclass
class Job:
    hosts: Hosts
    folder: Path
    spares: int = 0  # of the hosts, the last ones
    agents: list[Running] = field(default_factory=list)

    def records(self, kind: str) -> list[dict]:
        return [json.loads(path.read_text()) for path in self.folder.glob(f"{kind}.*")]

    def worker_on(self, index: int) -> int:
        return next(record["pid"] for record in self.records("began") if record["host"] == self.hosts.name(index))

    def is_training(self) -> bool:
        return (self.folder / "checkpoint").exists() and len(self.records("trained")) == len(self.agents) - self.spares

    def final_loss(self) -> float | None:
        path = self.folder / "loss"
        return json.loads(path.read_text()) if path.exists() else None


@dataclass(frozen=True)
class Loss:
    text: str
    cause: Callable[[Job], None]
    lost_agent: int | None  # whose end is not the job's
    spares: int = 0


def _kill_agent(job: Job, index: int) -> None:
    os.kill(job.agents[index].process.pid, signal.SIGKILL)


LOSSES = {
    "worker": Loss("worker killed", lambda job: os.kill(job.worker_on(OTHER), signal.SIGKILL), None),
    "agent": Loss("agent killed", lambda job: _kill_agent(job, OTHER), OTHER),
    "host": Loss("host cut off", lambda job: job.hosts.cut_off(OTHER), OTHER),
    "host-spare": Loss("host cut off, a spare", lambda job: job.hosts.cut_off(OTHER), OTHER, spares=1),
    "coordinator": Loss("coordinator killed", lambda job: _kill_agent(job, COORDINATOR), COORDINATOR),
    "coordinator-host": Loss("coordinator cut off", lambda job: job.hosts.cut_off(COORDINATOR), COORDINATOR),
}


@dataclass(frozen=True)
class Recovery:
    """In ms from the loss, by the last worker of the next attempt."""
    first_line: float
    first_step: float


@dataclass(frozen=True)
class NoRecovery:
    text: str  # with {} for the seconds
    seconds: float
    said: str = ""


@dataclass(frozen=True)
class Outcome:
    result: Recovery | NoRecovery
    final_loss: float | None  # None: the training did not come to its end
    complaint: str = ""  # of a job that recovered and did not end well


@dataclass(frozen=True)
class Setting:
    hosts: Hosts
    environment: dict[str, str]
    folder: Path
    limit: float  # seconds that a job has to recover
    host_timeout: float


def run_turn(setting: Setting, launcher: Launcher, loss: Loss, port: int) -> Outcome:
    with _job(setting, launcher, port, loss.spares) as job:
        survivors = [agent for index, agent in enumerate(job.agents) if index != loss.lost_agent]
        lost = time.monotonic_ns()
        loss.cause(job)
        result = _wait_for_result(job, survivors, lost, setting.limit)
        complaint = _wait_for_end(survivors) if isinstance(result, Recovery) else ""
        return Outcome(result, job.final_loss(), complaint)


@contextlib.contextmanager
def _job(setting: Setting, launcher: Launcher, port: int, spares: int) -> Iterator[Job]:
    """A job that has left its first checkpoint."""
    hosts, folder = setting.hosts, setting.folder / "turn"
    folder.mkdir()
    job = Job(hosts, folder, spares)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        environment = launcher.environment(setting.environment)
        for node in range(hosts.count):
            place = Place(node, hosts.count, hosts.address(COORDINATOR), port)
            command = [*hosts.enter(node), *launcher.elastic(place, hosts.count - 1, setting.host_timeout, spares),
                       str(WORKER), str(folder), PAUSE]
            job.agents.append(stack.enter_context(Running(command, environment, setting.folder, START_LIMIT)))
        stack.callback(_end, job)  # all at once, before each would be given time to end
        job.agents[0].wait_until(job.is_training, "the first checkpoint")
        job.agents[0].wait_until(lambda: launcher.is_prepared(hosts.enter(COORDINATOR), environment), "it is prepared")
        if spares:
            time.sleep(SPARE_PREPARES)
        (folder / "go").touch()
        yield job


def _end(job: Job) -> None:
    for agent in job.agents:
        kill_marked(agent.mark)
    for index in range(job.hosts.count):
        job.hosts.connect_again(index)


def _wait_for_result(job: Job, survivors: list[Running], lost: int, limit: float) -> Recovery | NoRecovery:
    while True:
        ended = all(agent.has_ended() for agent in survivors)  # before looking: their last act may be what we look for
        seconds = (time.monotonic_ns() - lost) / 1e9
        recovery = _find_recovery(job.records("trained"), lost)
        if recovery:
            return recovery
        if ended:
            return _describe_end(job, survivors, seconds)
        if seconds > limit:
            return _describe_wait(job, lost, limit)
        time.sleep(POLL)


def _find_recovery(trained: list[dict], lost: int) -> Recovery | None:
    """Of the first attempt that began after the loss and all of whose workers have trained."""
    for name in sorted({record["attempt"] for record in trained}):
        members = [record for record in trained if record["attempt"] == name]
        if len(members) == members[0]["workers"] and min(record["began"] for record in members) > lost:
            return Recovery(*((max(record[key] for record in members) - lost) / 1e6 for key in ("began", "at")))
    return None


def _describe_end(job: Job, survivors: list[Running], seconds: float) -> NoRecovery:
    failed = [agent for agent in survivors if agent.exit_status() != 0]
    if not failed and job.final_loss() is not None:
        return NoRecovery("trains on to its end", seconds)
    return NoRecovery("job ends after {:.1f} s", seconds, failed[0].last_line() if failed else "")


def _describe_wait(job: Job, lost: int, limit: float) -> NoRecovery:
    if job.final_loss() is not None:
        return NoRecovery("trains on, no end in {:.0f} s", limit)
    if any(record["at"] > lost for record in job.records("began")):
        return NoRecovery("starts, no step in {:.0f} s", limit)
    return NoRecovery("still hanging after {:.0f} s", limit)


def _wait_for_end(survivors: list[Running]) -> str:
    deadline = time.monotonic() + END_LIMIT
    while not all(agent.has_ended() for agent in survivors):
        if time.monotonic() > deadline:
            return f"no end within {END_LIMIT:.0f} s after its recovery"
        time.sleep(POLL)
    failed = [agent for agent in survivors if agent.exit_status() != 0]
    return f"ended with {failed[0].exit_status()} after its recovery: {failed[0].last_line()}" if failed else ""


def undisturbed_loss(environment: dict[str, str], folder: Path, python: str) -> float:
    """Of a single worker without any launcher."""
    own = folder / "undisturbed"
    own.mkdir()
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    with Running([python, str(WORKER), str(own), "0"], {**environment, **alone}, folder, START_LIMIT) as run:
        run.wait()
    loss = Job(None, own).final_loss()
    if loss is None:
        raise Failed("the training left no loss")
    return loss
