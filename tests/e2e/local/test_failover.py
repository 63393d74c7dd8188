"""The coordinator of a job that outlives its hosts is lost: the next agent takes over, on one side of a split only."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.hosts import wait_until
from support.manual import as_text, codes, start, wait_all, wait_for_files

# Notes its place, and whether a worker of an attempt before still runs anywhere: each locks a file of its own as long
# as it runs. Then it waits for the end.
WAITING = ("A=$TORCHELASTIC_RESTART_COUNT; exec 9> {0}/lock.$A.$RANK; flock 9;"
           "for B in $(seq 0 $((A - 1))); do for F in {0}/lock.$B.*; do flock -ns $F true || touch {0}/overlap.$A.$(basename $F); done; done;"
           "trap '{1}' TERM; echo $RANK/$WORLD_SIZE on $(hostname) > {0}/$A.$RANK;"
           "until [ -e {0}/end ]; do sleep 0.05 9>&-; done")

# Of rank 2, once the others wait.
FAILING = WAITING.replace("until", "[ $A.$RANK = 0.2 ] && until [ -e {0}/0.0 ] && [ -e {0}/0.1 ]; do sleep 0.05; done && exit 3;"
                          "until", 1)


@pytest.fixture
def job(hosts, directory, key):
    yield Job(hosts, directory, key)
    assert not list(directory.glob("overlap*"))


class Job:
    def __init__(self, hosts, directory, key) -> None:
        self.hosts, self.directory, self.key = hosts, directory, key
        self.agents = {}

    def start(self, names: str, *options, nodes: str = "", on_term: str = "exit 0", program: str = WAITING) -> None:
        for name in names:
            self.agents[name] = start(
                self.hosts, "abcd".index(name), "--key-file", self.key, "--rdzv-conf", "last_call_timeout=20", *options,
                "--no-python", "sh", "-c", program.format(self.directory, on_term.format(self.directory)), nodes=nodes or f"1:{len(names)}")

    def kill(self, name: str) -> None:
        self.agents.pop(name).send_signal(signal.SIGKILL)

    def wait_for_attempt(self, attempt: int, *lines: str) -> None:
        wait_for_files(self.directory, f"{attempt}.*", len(lines))
        wait_until("all have noted", lambda: all(self.noted(attempt)))
        assert self.noted(attempt) == list(lines)

    def noted(self, attempt: int) -> list[str]:
        return sorted(path.read_text().strip() for path in self.directory.glob(f"{attempt}.*"))

    def end(self) -> dict[str, object]:
        """All that are left, which have to succeed."""
        (self.directory / "end").touch()
        results = {name: agent.wait() for name, agent in self.agents.items()}
        assert {result.code for result in results.values()} == {0}, as_text(list(results.values()))
        return {name: result.stderr for name, result in results.items()}


LOST_A = "ddprun: lost the coordinator a (10.77.0.1): the connection was closed; b coordinates now; "


def test_the_next_agent_takes_over_from_a_killed_coordinator_and_the_next_from_that(job):
    job.start("abcd")
    job.wait_for_attempt(0, "0/4 on a", "1/4 on b", "2/4 on c", "3/4 on d")
    job.kill("a")
    job.wait_for_attempt(1, "0/3 on b", "1/3 on c", "2/3 on d")
    killed = job.agents["b"]
    job.kill("b")
    job.wait_for_attempt(2, "0/2 on c", "1/2 on d")
    said = job.end()
    assert killed.wait().stderr == LOST_A + "starting all workers again on 3 of 4 nodes\n"
    assert said["c"] == ("ddprun: lost the coordinator b (10.77.0.2): the connection was closed; c coordinates now; "
                         "starting all workers again on 2 of 4 nodes\n")
    assert said["d"] == ""


def test_a_coordinator_that_is_killed_while_workers_are_stopped_leaves_no_worker_to_the_next(job):
    job.start("abc", "--max-restarts", "1", program=FAILING, on_term="touch {0}/stopped.$RANK")
    wait_for_files(job.directory, "stopped.*", 2)  # and go on until they are killed
    job.kill("a")
    job.wait_for_attempt(1, "0/2 on b", "1/2 on c")
    assert LOST_A in job.end()["b"]


def test_a_coordinator_that_is_killed_before_a_restart_is_due_takes_nobody_with_it(job):
    job.start("abc", "--max-restarts", "1", "--restart-backoff", "60", program=FAILING,
              on_term="touch {0}/stopped.$RANK; exit 0")
    wait_for_files(job.directory, "stopped.*", 2)
    job.kill("a")
    job.wait_for_attempt(1, "0/2 on b", "1/2 on c")
    job.end()


def test_before_the_first_attempt_the_job_ends_with_its_coordinator(job):
    job.start("ab", nodes="3")
    job.start("", nodes="2:3")
    wait_until("b has joined", lambda: "29500" in job.hosts["b"].check(["ss", "-Htn", "state", "established"]))
    job.kill("a")
    result = job.agents["b"].wait()
    assert result.code == 125 and "lost the coordinator" in result.stderr, str(result)


def test_the_ranks_of_a_lost_coordinator_go_to_a_spare(job):
    job.start("abcd", "--spares", "1", nodes="4")
    job.wait_for_attempt(0, "0/3 on a", "1/3 on b", "2/3 on c")
    job.kill("a")
    job.wait_for_attempt(1, "0/3 on d", "1/3 on b", "2/3 on c")
    job.kill("b")
    result = job.agents["c"].wait()
    assert result.code == 125, str(result)
    assert ("lost the coordinator b (10.77.0.2): the connection was closed; 2 nodes left, and the job needs 3; "
            "no spare is left, as 2 of 4 nodes are lost: number 0, b") in result.stderr, str(result)


def test_the_next_coordinator_goes_on_with_the_restarts_that_are_left(job):
    failing = WAITING.replace("trap", "[ $A.$RANK = 0.1 ] && exit 3; [ $A.$RANK = 2.1 ] && exit 4; trap")
    job.start("abc", "--max-restarts", "1", "--restart-policy", "always", program=failing)
    job.wait_for_attempt(1, "0/3 on a", "1/3 on b", "2/3 on c")
    job.kill("a")
    results = wait_all(list(job.agents.values()))
    assert codes(results) == [4, 4], as_text(results)
    assert ", 1 of 1 restarts used\n" in results[0].stderr, as_text(results)


def test_two_losses_at_once(job):
    job.start("abcd", "--host-timeout", "7")
    job.wait_for_attempt(0, "0/4 on a", "1/4 on b", "2/4 on c", "3/4 on d")
    job.kill("a")
    job.kill("b")  # which may have started all again just before
    wait_until("the others run", lambda: ["0/2 on c", "1/2 on d"] in (job.noted(1), job.noted(2)))
    job.end()


def test_a_coordinator_that_is_frozen_for_a_while_is_not_lost(job):
    job.start("abc", "--host-timeout", "7")
    job.wait_for_attempt(0, "0/3 on a", "1/3 on b", "2/3 on c")
    job.agents["a"].freeze()
    with pytest.raises(Exception):
        wait_until("another attempt", lambda: job.noted(1), seconds=9)
    job.agents["a"].thaw()
    assert list(job.end().values()) == ["", "", ""]


def test_a_coordinator_whose_host_is_cut_off_stops_its_workers_before_the_next_attempt(job):
    job.start("abc", "--host-timeout", "8", on_term="")
    job.wait_for_attempt(0, "0/3 on a", "1/3 on b", "2/3 on c")
    job.hosts["a"].unplug()
    try:
        job.wait_for_attempt(1, "0/2 on b", "1/2 on c")
        cut_off = job.agents.pop("a").wait()
    finally:
        job.hosts["a"].plug_in_again()
    assert cut_off.code == 125, str(cut_off)
    assert "1 of 3 nodes are left here, and the others may go on without them" in cut_off.stderr, str(cut_off)
    job.end()


@contextmanager
def split(hosts, names: str) -> Iterator[None]:
    """These and the others reach their own side only, and nobody tells."""
    hosts.switch("link", "add", "split", "type", "bridge")
    hosts.switch("link", "set", "split", "up")
    for name in names:
        hosts.switch("link", "set", f"fabric0-{name}", "master", "split")
    try:
        yield
    finally:
        for name in names:
            hosts[name].plug_in_again()
        hosts.switch("link", "delete", "split")


@pytest.mark.parametrize("side, others", [("ab", "cd"), ("ac", "bd"), ("d", "abc"), ("a", "bcd")])
def test_of_a_split_network_one_side_goes_on(job, side, others):
    job.start("abcd", "--host-timeout", "8", on_term="")
    job.wait_for_attempt(0, "0/4 on a", "1/4 on b", "2/4 on c", "3/4 on d")
    winners = others if len(others) > len(side) else side
    with split(job.hosts, others):
        job.wait_for_attempt(1, *(f"{rank}/{len(winners)} on {name}" for rank, name in enumerate(winners)))
        ended = {name: job.agents.pop(name).wait() for name in "abcd" if name not in winners}
    assert {result.code for result in ended.values()} == {125}, as_text(list(ended.values()))
    assert any("lost" in result.stderr for result in ended.values()), as_text(list(ended.values()))
    job.end()
