"""The coordinator of a job that outlives its hosts is lost: the next agent takes over, on one side of a split only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.evidence import without_waiting
from support.hosts import wait_until
from support.manual import PORT, as_text, codes, wait_all, wait_for_files

THREE = ["0/3 on a", "1/3 on b", "2/3 on c"]
FOUR = ["0/4 on a", "1/4 on b", "2/4 on c", "3/4 on d"]
# A killed process that had something unread resets its connections.
GONE = "(the connection was closed|connection reset by the other side)"
LOST_A = rf"ddprun: lost the coordinator a \(10\.77\.0\.1\): {GONE}; b coordinates now; "


def test_the_next_agent_takes_over_from_a_killed_coordinator_and_the_next_from_that(job):
    job.start("abcd")
    job.wait_for_attempt(0, *FOUR)
    job.kill("a")
    job.wait_for_attempt(1, "0/3 on b", "1/3 on c", "2/3 on d")
    killed = job.kill("b")
    job.wait_for_attempt(2, "0/2 on c", "1/2 on d")
    said = job.end()
    assert re.fullmatch(LOST_A + "starting all workers again on 3 of 4 nodes\n", without_waiting(killed.wait().stderr))
    assert re.fullmatch(rf"ddprun: lost the coordinator b \(10\.77\.0\.2\): {GONE}; c coordinates now; "
                        "starting all workers again on 2 of 4 nodes\n", said["c"]), said
    assert said["d"] == ""


def test_a_coordinator_that_is_killed_while_workers_are_stopped_leaves_no_worker_to_the_next(job):
    job.start("abc", "--max-restarts", "1", on_term="touch {0}/stopped.$RANK")
    job.wait_for_attempt(0, *THREE)
    job.do("exit 3", rank=2)
    wait_for_files(job.directory, "stopped.*", 2)  # and go on until they are killed
    job.kill("a")
    job.wait_for_attempt(1, "0/2 on b", "1/2 on c")
    said = job.end()["b"]
    assert re.search(LOST_A, said), said


def test_a_coordinator_that_is_killed_before_a_restart_is_due_takes_nobody_with_it(job):
    job.start("abc", "--max-restarts", "1", "--restart-policy", "always", "--restart-backoff", "60", "--events",
              str(job.directory / "events"))
    job.wait_for_attempt(0, *THREE)
    job.do("exit 3", rank=2)
    wait_until("the restart waits", lambda: job.events("restart"))
    job.kill("a")
    job.wait_for_attempt(2, "0/2 on b", "1/2 on c")
    job.do("exit 4", rank=1, attempt=2)  # it is used all the same
    results = wait_all(list(job.agents.values()))
    assert codes(results) == [4, 4], as_text(results)
    assert ", 1 of 1 restarts used\n" in results[0].stderr, as_text(results)


def test_the_ranks_of_a_lost_coordinator_go_to_a_spare(job):
    job.start("abcd", "--spares", "1", nodes="4")
    job.wait_for_attempt(0, *THREE)
    job.kill("a")
    job.wait_for_attempt(1, "0/3 on d", "1/3 on b", "2/3 on c")
    job.kill("b")
    result = job.agents["c"].wait()
    assert result.code == 125, str(result)
    assert re.search(rf"lost the coordinator b \(10\.77\.0\.2\): {GONE}; 2 nodes left, and the job needs 3; "
                     "no spare is left, as 2 of 4 nodes are lost: number 0, b", result.stderr), str(result)


def test_the_next_coordinator_goes_on_with_the_restarts_that_are_left(job):
    job.start("abc", "--max-restarts", "1", "--restart-policy", "always")
    job.wait_for_attempt(0, *THREE)
    job.do("exit 3", rank=1)
    job.wait_for_attempt(1, *THREE)
    job.kill("a")
    job.wait_for_attempt(2, "0/2 on b", "1/2 on c")
    job.do("exit 4", rank=1, attempt=2)
    results = wait_all(list(job.agents.values()))
    assert codes(results) == [4, 4], as_text(results)
    assert ", 1 of 1 restarts used\n" in results[0].stderr, as_text(results)


def test_two_losses_at_once(job):
    job.start("abcd", "--host-timeout", "7")
    job.wait_for_attempt(0, *FOUR)
    job.kill("a")
    job.kill("b")  # which may have started all again just before
    wait_until("the others run", lambda: ["0/2 on c", "1/2 on d"] in (job.noted(1), job.noted(2)))
    job.end()


def test_a_coordinator_that_is_killed_with_a_message_unread_has_ended_all_the_same(job):
    job.start("ab", "--max-restarts", "1")
    job.wait_for_attempt(0, "0/2 on a", "1/2 on b")
    job.agents["a"].freeze()
    job.do("exit 3", rank=1)

    def unread() -> int:
        shown = job.hosts["a"].check(["ss", "-Hnt", "state", "established", f"sport = :{PORT}"])
        return sum(int(line.split()[0]) for line in shown.splitlines())

    wait_until("the failure has arrived", unread)
    job.kill("a").thaw()  # what ran it was stopped with it
    job.wait_for_attempt(1, "0/1 on b")
    job.end()


def test_a_coordinator_that_is_frozen_for_a_while_is_not_lost(job):
    job.start("abc", "--host-timeout", "7")
    job.wait_for_attempt(0, *THREE)
    job.agents["a"].freeze()
    with pytest.raises(Exception):
        wait_until("another attempt", lambda: job.noted(1), seconds=9)
    job.agents["a"].thaw()
    assert list(job.end().values()) == ["", "", ""]


def test_a_coordinator_whose_host_is_cut_off_stops_its_workers_before_the_next_attempt(job):
    job.start("abc", "--host-timeout", "8", on_term="")
    job.wait_for_attempt(0, *THREE)
    job.hosts["a"].unplug()
    try:
        job.wait_for_attempt(1, "0/2 on b", "1/2 on c")
        cut_off = job.agents.pop("a").wait()
    finally:
        job.hosts["a"].plug_in_again()
    assert cut_off.code == 125, str(cut_off)
    assert "1 of 3 nodes can be reached from here, and the others may continue without them" in cut_off.stderr, str(cut_off)
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
    job.wait_for_attempt(0, *FOUR)
    winners = others if len(others) > len(side) else side
    with split(job.hosts, others):
        job.wait_for_attempt(1, *(f"{rank}/{len(winners)} on {name}" for rank, name in enumerate(winners)))
        ended = {name: job.agents.pop(name).wait() for name in "abcd" if name not in winners}
    assert {result.code for result in ended.values()} == {125}, as_text(list(ended.values()))
    assert any("lost" in result.stderr for result in ended.values()), as_text(list(ended.values()))
    job.end()
