"""The coordinator of a job that outlives its hosts is killed, or its host is cut off, at each stage of the job."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from support.attempts import Job
from support.hosts import wait_until
from support.manual import PORT, as_text, wait_for_files

THREE = ["0/3 on a", "1/3 on b", "2/3 on c"]
TWO = ["0/2 on b", "1/2 on c"]
# A killed process that had something unread resets its connections: then it takes some seconds more.
LOST_A = re.compile(r"ddprun: lost the coordinator a \(10\.77\.0\.1\): "
                    "(the connection was closed|connection reset by the other side); "
                    "b coordinates now; starting all workers again on 2 of 3 nodes\n")


@pytest.fixture
def second_addresses(hosts) -> Iterator[str]:
    """Of all hosts, in a network that reaches all of them too; the one of host a."""
    addresses = {name: f"10.79.0.{number}" for number, name in enumerate("abc", start=1)}
    for name, address in addresses.items():
        hosts[name].add_address(address)
    yield addresses["a"]
    for name, address in addresses.items():
        hosts[name].remove_address(address)


def killed_at(call: str, turn: int) -> list[str]:
    """Runs a program that is killed when it begins the system call for the n-th time."""
    if shutil.which("strace") is None or subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"]).returncode != 0:
        pytest.skip("needs strace, and ptrace(2)")
    return ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={turn}"]


def bytes_unread(job: Job, name: str) -> int:
    shown = job.hosts[name].check(["ss", "-Hnt", "state", "established", f"dport = :{PORT}"])
    return sum(int(line.split()[0]) for line in shown.splitlines())


def ranks_ended(job: Job) -> set[int]:
    """As --status shows them: each agent has had time to tell the coordinator what it knew when it was asked."""
    shown = job.hosts["a"].run(["ddprun", "--status=json"]).stdout
    workers = [worker for status in json.loads(shown or "[]") for node in status["nodes"] for worker in node["workers"]]
    return {worker["rank"] for worker in workers if worker.get("exit_code") == 0}


def check_killed(job: Job, name: str) -> None:
    [result] = job.wait_for_end_of(name).values()
    assert result.code == -signal.SIGKILL, str(result)


def check_said(said: dict[str, str]) -> None:
    assert len(LOST_A.findall(said["b"])) == 1 and not LOST_A.search(said["c"]), said


# Of ddprun on the first host: for other agents, --status, --stacks, --restart and --profile, and for the store of each attempt.
LISTEN_FOR_FIRST_STORE, LISTEN_FOR_SECOND_STORE = 6, 7


def test_while_it_gathers_the_nodes_the_job_ends_with_its_coordinator(job):
    job.start("abc", "--events", str(job.directory / "events"), nodes="2:4")
    wait_until("all have joined", lambda: len(job.events("joined")) == 3)
    job.kill("a")
    results = job.wait_for_end_of("b", "c")
    assert {result.code for result in results.values()} == {125}, as_text(list(results.values()))
    for result in results.values():
        assert "lost the coordinator node 0 (10.77.0.1): " in result.stderr, str(result)
    assert not job.noted(0) + job.noted(1)
    job.check_nothing_is_left()


def test_while_it_looks_for_an_address_that_all_reach_the_next_takes_over(job, second_addresses):
    record = ["--events", str(job.directory / "events")]
    job.start("a", *record, nodes="1:3")
    job.start("c", *record, nodes="1:3", address=second_addresses)
    wait_until("c has joined", lambda: len(job.events("joined")) == 2)
    job.agents["c"].freeze()  # and does not answer what it reaches
    job.start("b", *record, nodes="1:3")
    wait_until("all have joined", lambda: job.events("plan"))
    job.kill("a")
    job.agents["c"].thaw()
    job.wait_for_attempt(1, *TWO)
    assert not job.noted(0)
    check_said(job.end())


def test_while_it_opens_the_first_store_the_next_takes_over(job):
    job.start("a", nodes="1:3", through=killed_at("listen", LISTEN_FOR_FIRST_STORE))
    job.start("bc", nodes="1:3")
    job.wait_for_attempt(1, *TWO)
    assert not job.noted(0)
    check_killed(job, "a")
    check_said(job.end())


def test_while_it_opens_the_store_of_a_restart_the_next_takes_over(job):
    job.start("a", "--max-restarts", "1", nodes="1:3", through=killed_at("listen", LISTEN_FOR_SECOND_STORE))
    job.start("bc", "--max-restarts", "1", nodes="1:3")
    job.wait_for_attempt(0, *THREE)
    job.do("exit 3", rank=2)
    check_killed(job, "a")
    wait_until("the others go on", lambda: sorted(TWO) in (job.noted(1), job.noted(2)))
    check_said(job.end())


def test_when_the_others_have_succeeded_already_their_workers_run_again(job):
    job.start("abc", "--events", str(job.directory / "events"), nodes="1:3")
    job.wait_for_attempt(0, *THREE)
    for rank in (1, 2):
        (job.directory / f"end.0.{rank}").touch()
    wait_until("the coordinator knows", lambda: len(job.events("exit")) == 2)
    job.kill("a")
    job.wait_for_attempt(1, *TWO)
    check_said(job.end())


def test_while_it_says_that_the_job_has_succeeded_it_has(job):
    job.start("abc", "--events", str(job.directory / "events"), nodes="1:3")
    job.wait_for_attempt(0, *THREE)
    for rank in (1, 2):
        (job.directory / f"end.0.{rank}").touch()
    for _ in range(2):  # the second time they have told of their success as well
        wait_until("they have ended", lambda: ranks_ended(job) == {1, 2})
    for name in "bc":
        job.agents[name].freeze()  # and hears the last word later
    before = {name: bytes_unread(job, name) for name in "bc"}  # perhaps a question whether they are there
    (job.directory / "end.0.0").touch()
    wait_until("the job is over", lambda: job.events("end"))
    wait_until("all are told", lambda: all(bytes_unread(job, name) > before[name] for name in "bc"))
    job.kill("a")
    for name in "bc":
        job.agents[name].thaw()
    assert job.end() == {"b": "", "c": ""}
    assert not job.noted(1)


def test_while_workers_are_stopped_its_host_is_cut_off_and_the_next_takes_over(job):
    job.start("abc", "--host-timeout", "7", "--max-restarts", "1", nodes="1:3", on_term="touch {0}/told.$RANK")
    job.wait_for_attempt(0, *THREE)
    job.do("exit 3", rank=2)
    wait_for_files(job.directory, "told.*", 2)  # who go on until they are killed
    job.hosts["a"].unplug()
    try:
        job.wait_for_attempt(1, *TWO)
        [cut_off] = job.wait_for_end_of("a").values()
    finally:
        job.hosts["a"].plug_in_again()
    assert cut_off.code == 125, str(cut_off)
    assert "1 of 3 nodes can be reached from here, and the others may continue without them" in cut_off.stderr, str(cut_off)
    job.end()


def test_while_somebody_s_signal_ends_the_job_it_ends_without_its_coordinator_too(job):
    job.start("abc", nodes="1:3", on_term="touch {0}/told.$RANK; until [ -e {0}/saved ]; do sleep 0.05; done; exit 0")
    job.wait_for_attempt(0, *THREE)
    job.agents["b"].send_signal(signal.SIGTERM)
    wait_for_files(job.directory, "told.*", 3)
    job.kill("a")
    held = ["flock", "-n", str(job.directory / "lock.0.0"), "true"]
    wait_until("its worker is killed", lambda: subprocess.run(held).returncode == 0)
    (job.directory / "saved").touch()
    results = job.wait_for_end_of("b", "c")
    assert {result.code for result in results.values()} == {128 + signal.SIGTERM}, as_text(list(results.values()))
    for result in results.values():
        assert result.stderr.count("stopped by SIGTERM on b") == 1, str(result)
    assert not job.noted(1)
    job.check_nothing_is_left()
