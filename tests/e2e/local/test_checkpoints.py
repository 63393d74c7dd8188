"""--checkpoint-memory: what the workers saved outlives workers, agents and hosts, and is flushed at the end."""

from __future__ import annotations

import contextlib
import json
import signal

import pytest

from support import checkpointed, evidence
from support.attempts import Job
from support.hosts import wait_until
from support.manual import as_text, wait_for_files

# Two steps that do not fit: each goes away again.
TOO_BIG = """
trap 'exit 0' TERM
for step in 1 2; do
  mkdir -p $DDPRUN_CHECKPOINTS/step-$step
  head -c 3000000 /dev/zero > $DDPRUN_CHECKPOINTS/step-$step/.part
  mv $DDPRUN_CHECKPOINTS/step-$step/.part $DDPRUN_CHECKPOINTS/step-$step/rank-0
  while [ -e $DDPRUN_CHECKPOINTS/step-$step/rank-0 ]; do sleep 0.05; done
done
touch {0}/tried
until [ -e {0}/end ]; do sleep 0.05; done
"""


class Saving(Job):
    def program(self, *_) -> list[str]:
        return checkpointed.shell(self.directory)

    def save(self, step: int) -> None:
        checkpointed.save(self.directory, step)

    def folders(self) -> str:
        """Of all agents that ever ran on these hosts."""
        return "".join(self.hosts[name].run(["sh", "-c", "ls -d /dev/shm/ddprun-*/checkpoints-* 2> /dev/null"]).stdout for name in "abcd")

    def end_those_cut_off(self, *names: str) -> None:
        """They look for the others, or have found out meanwhile that the job has ended."""
        for name in names:
            self.hosts[name].plug_in_again()
            with contextlib.suppress(ProcessLookupError):
                self.agents[name].send_signal(signal.SIGTERM)
        self.wait_for_end_of(*names)

    def has_kept(self, step: int) -> bool:
        return any(event["step"] >= step and "memory" in event["what"] for event in self.events("checkpoint"))

    def wait_until_complete(self, step: int) -> None:
        """Saved by all ranks, and copied to another node."""
        wait_until(f"step {step} is complete and copied", lambda: self.has_kept(step))


@pytest.fixture
def job(hosts, directory, key):
    job = Saving(hosts, directory, key)
    job.save(0)
    yield job
    job.check_no_overlap()


def start(job, names, *options, memory="64M", **more) -> None:
    job.start(names, "--checkpoint-memory", memory, "--events", str(job.directory / "events"), *options, **more)


def kill_worker(job, name: str, rank: int) -> None:
    job.hosts[name].check(["kill", "-KILL", (job.directory / f"pid.{rank}").read_text().strip()])


def check_memory_is_free(job) -> None:
    wait_until("no memory is left", lambda: not job.folders())


def test_a_killed_worker_starts_again_from_the_newest_step_of_all(job):
    start(job, "ab", "--max-restarts", "1")
    job.wait_for_attempt(0, "0 of 2 on a from nothing: nothing", "1 of 2 on b from nothing: nothing")
    job.save(3)
    job.wait_until_complete(3)
    kill_worker(job, "b", 1)
    job.wait_for_attempt(1, "0 of 2 on a from 3: rank 0 at step 3", "1 of 2 on b from 3: rank 1 at step 3")
    job.end()
    check_memory_is_free(job)


def test_a_spare_gets_the_lost_hosts_part_from_its_neighbour(job):
    start(job, "abc", "--spares", "1", nodes="3")
    job.wait_for_attempt(0, "0 of 2 on a from nothing: nothing", "1 of 2 on b from nothing: nothing")
    job.save(2)
    job.wait_until_complete(2)
    job.kill("b")
    job.wait_for_attempt(1, "0 of 2 on a from 2: rank 0 at step 2", "1 of 2 on c from 2: rank 1 at step 2")
    job.save(4)  # is copied between the hosts of now
    job.wait_until_complete(4)
    job.end()
    check_memory_is_free(job)


def test_two_agents_that_had_each_others_copies_are_lost_at_once(job):
    start(job, "abcd", nodes="2:4")
    wait_for_files(job.directory, "0.*", 4)
    job.save(3)
    job.wait_until_complete(3)
    for name in "bc":
        job.kill(name)
    job.wait_for_attempt(1, "0 of 2 on a from nothing: nothing", "1 of 2 on d from nothing: nothing")
    said = job.end()["a"]
    assert evidence.times_said(said, "no node is left that has step 3 of rank ") == 1, said
    assert "; the workers start anew" in said, said
    check_memory_is_free(job)


def test_who_interrupts_again_does_not_wait_for_the_last_flush(job):
    """The folder is a file, and is tried again for minutes."""
    flushed = job.directory / "flushed"
    flushed.touch()
    start(job, "a", "--checkpoint-flush", str(flushed))
    wait_for_files(job.directory, "0.*", 1)
    job.save(1)
    job.wait_until_complete(1)

    def interrupt() -> bool:
        with contextlib.suppress(ProcessLookupError):
            job.agents["a"].send_signal(signal.SIGINT)
        return not job.agents["a"].is_running()

    wait_until("it has ended", interrupt)
    said = job.wait_for_end_of("a")["a"]
    assert said.code == 128 + signal.SIGINT and "step 1 could not be written to" in said.stderr, str(said)


def test_what_is_in_memory_is_flushed_at_the_end_and_the_next_job_starts_from_there(job):
    flushed = job.directory / "flushed"
    start(job, "ab", "--checkpoint-flush", str(flushed))
    wait_for_files(job.directory, "0.*", 2)
    job.save(5)
    job.wait_until_complete(5)
    job.agents["a"].send_signal(signal.SIGTERM)
    results = job.wait_for_end_of("a", "b")
    assert {result.code for result in results.values()} == {143}, as_text(list(results.values()))
    assert sorted(path.name for path in flushed.iterdir()) == ["step-5"]
    assert (flushed / "step-5" / "rank-1").read_text() == "rank 1 at step 5\n"
    manifest = json.loads((flushed / "step-5" / "rank-1.manifest").read_text())
    assert manifest["world"] == 2 and manifest["files"]["rank-1"]["bytes"] == len("rank 1 at step 5\n"), manifest
    assert len(manifest["files"]["rank-1"]["blake2b"]) >= 64, manifest
    check_memory_is_free(job)
    for note in job.directory.glob("0.*"):
        note.unlink()
    start(job, "ab", "--checkpoint-flush", str(flushed))
    job.wait_for_attempt(0, "0 of 2 on a from 5: rank 0 at step 5", "1 of 2 on b from 5: rank 1 at step 5")
    job.end()


def test_memory_is_free_after_an_agent_was_killed(job):
    start(job, "a")
    wait_for_files(job.directory, "0.*", 1)
    job.save(1)
    job.wait_until_complete(1)
    assert job.folders()
    job.kill("a").wait()
    check_memory_is_free(job)


def test_what_does_not_fit_is_told_once_and_the_training_goes_on(job):
    job.program = lambda *_: ["--no-python", "sh", "-c", TOO_BIG.replace("{0}", str(job.directory))]
    start(job, "a", memory="1M")
    wait_until("it has tried both", lambda: (job.directory / "tried").exists())
    said = job.end()["a"]
    assert evidence.times_said(said, "--checkpoint-memory") == 1, said


def trained(job, kind: str, names: str, *options, nodes: str = "") -> None:
    job.program = lambda *_: [checkpointed.TRAINING, str(job.directory), "0.05", kind]
    start(job, names, *options, nodes=nodes)


@pytest.fixture(scope="module")
def training(host_group, torch_python) -> dict[str, str]:
    """The environment of one."""
    return checkpointed.environment(host_group.home, torch_python)


@pytest.fixture(scope="module")
def undisturbed(host_group, training) -> dict[str, str]:
    """The hash of the model that a training without a loss ends with, by its kind."""
    return {kind: checkpointed.undisturbed(host_group["d"], host_group.home / f"undisturbed-{kind}", kind, training)
            for kind in ("ddp", "fsdp")}


LOSSES = {"worker": ("ab", ("--max-restarts", "1"), ""), "host": ("abc", ("--spares", "1", "--host-timeout", "7"), "3")}


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_disturbed_training_ends_as_an_undisturbed_one_to_the_last_bit(job, training, undisturbed, loss, kind):
    names, options, nodes = LOSSES[loss]
    job.env |= training
    trained(job, kind, names, *options, nodes=nodes)
    wait_until("step 6 is saved", lambda: job.has_kept(6), 240)
    if loss == "worker":
        job.hosts["b"].check(["kill", "-KILL", str(checkpointed.began(job.directory, 0)[1]["pid"])])
    else:
        job.hosts["b"].unplug()
    try:
        wait_until("it has ended", lambda: (job.directory / "ended").exists(), 240)
    finally:
        if loss == "host":
            job.end_those_cut_off("b")
    began = checkpointed.began(job.directory, 1)
    assert {each["step"] for each in began} == {began[0]["step"]} and began[0]["step"] >= 6, began
    assert checkpointed.ended(job.directory) == undisturbed[kind]


@pytest.mark.parametrize("kind", ["ddp", "dcp"])
def test_fewer_hosts_go_on_from_what_all_had_saved(job, training, kind):
    """dcp: FSDP2, whose shards are saved by torch.distributed.checkpoint, and read by another number of ranks."""
    job.env |= training
    trained(job, kind, "abcd", "--host-timeout", "7", nodes="3:4")
    wait_until("step 6 is saved", lambda: job.has_kept(6), 240)
    job.hosts["d"].unplug()
    try:
        wait_until("it has ended", lambda: (job.directory / "ended").exists(), 240)
    finally:
        job.end_those_cut_off("d")
    began = checkpointed.began(job.directory, 1)
    step = began[0]["step"]
    assert step >= 6 and [each["host"] for each in began] == ["a", "b", "c"], began
    assert all((each["step"], each["world"], each["hash"]) == (step, 3, checkpointed.saved(job.directory, step)) for each in began), began
