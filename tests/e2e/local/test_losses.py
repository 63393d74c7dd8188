"""What a job with --nnodes MIN:MAX or --spares outlives: bad ends of workers, killed and frozen agents, links down or slow."""

from __future__ import annotations

import re
import signal

import pytest

from support import evidence
from support.hosts import HostGroup, wait_until
from support.manual import PORT
from support.programs import SCRIPTS
from support.slow_link import slow_link

KINDS = {"a range of nodes": ("2:3", []), "a spare": ("3", ["--spares", "1"])}
KILLED = ["--host-timeout", "7", "--shutdown-timeout", "1"]  # where workers ignore SIGTERM
THREE = ["0/3 on a", "1/3 on b", "2/3 on c"]
FOUR = ["0/4 on a", "1/4 on b", "2/4 on c", "3/4 on d"]


# ---- workers

STUBBORN = "setsid sh -c 'trap \"\" TERM HUP INT; touch {0}/stubborn; while :; do sleep 1; done' &"
LARGE = SCRIPTS / "hold_memory.py"  # takes the kernel some time to end
LEAVING = f"sleep 600 & {STUBBORN} until [ -e {{0}}/stubborn ]; do sleep 0.05; done;"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("deed", "on_term", "cause"), [
    ("exit 3", "exit 0", "exited with code 3"),
    ("ulimit -c 0; kill -SEGV $$", "exit 0", "was killed by SIGSEGV"),
    ("kill -KILL $$", "exit 0", "was killed by SIGKILL"),
    ("exit 3", "", "exited with code 3"),
    (LEAVING + "exit 3", "setsid sleep 600 & exit 0", "exited with code 3"),
], ids=["exit", "SEGV", "KILL", "others-ignore-TERM", "grandchildren"])
def test_nothing_of_a_failed_attempt_is_left_when_the_next_one_starts(job, kind, deed, on_term, cause):
    nodes, options = KINDS[kind]
    job.start("abc", "--max-restarts", "1", "--shutdown-timeout", "1", *options, nodes=nodes, on_term=on_term)
    world = THREE if not options else ["0/2 on a", "1/2 on b"]
    job.wait_for_attempt(0, *world)
    job.do(deed, rank=1)
    job.wait_for_attempt(1, *world)
    said = job.end()["a"]
    assert re.search(rf"^ddprun: rank 1 on b {cause}.*; .*restart", said, re.M), said


# ---- agents

def test_a_killed_agent_takes_along_what_its_workers_left(job):
    job.start("abc", "--shutdown-timeout", "1", nodes="2:3", on_term="")
    job.wait_for_attempt(0, *THREE)
    job.do(LEAVING, rank=1)
    wait_until("a grandchild runs", lambda: (job.directory / "stubborn").exists())
    job.kill("b")
    job.wait_for_attempt(1, "0/2 on a", "1/2 on c")
    job.end()


@pytest.mark.parametrize(("name", "left"), [("b", ["0/2 on a", "1/2 on c"]), ("a", ["0/2 on b", "1/2 on c"])])
def test_nothing_of_a_killed_agent_runs_when_the_next_attempt_starts(job, name, left):
    job.start("abc", nodes="2:3")
    job.wait_for_attempt(0, *THREE)
    job.do(f"setsid {LARGE} {{0}}/large 1000 &", rank="abc".index(name))
    wait_until("the memory is held", lambda: (job.directory / "large").exists())
    job.kill(name)
    job.wait_for_attempt(1, *left)
    job.end()


def test_an_agent_that_is_frozen_for_longer_than_the_host_timeout_is_not_lost(job):
    job.start("abc", "--host-timeout", "7", "--max-restarts", "1", nodes="1:3")
    job.wait_for_attempt(0, *THREE)
    job.agents["b"].freeze()
    with pytest.raises(TimeoutError):
        wait_until("another attempt", lambda: job.noted(1), seconds=10)
    job.agents["b"].thaw()
    job.do("exit 3", rank=2)
    job.wait_for_attempt(1, *THREE)
    said = job.end()
    assert "lost" not in "".join(said.values()), said


# ---- links

def silence(hosts: HostGroup, name: str) -> int:
    """For how many milliseconds nothing has come on a connection between this host's agent and others."""
    shown = hosts[name].check(["ss", "-Hnti", "state", "established", f"sport = :{PORT} or dport = :{PORT}"])
    return max((int(found) for found in re.findall(r"\blastack:(\d+)", shown)), default=0)  # ss leaves 0 out


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_link_that_is_down_for_less_than_the_host_timeout_changes_nothing(job, name):
    job.start("abc", "--host-timeout", "14", "--max-restarts", "1", nodes="1:3")
    job.wait_for_attempt(0, *THREE)
    job.hosts[name].unplug()
    try:
        wait_until("probes have stayed without an answer", lambda: silence(job.hosts, name) > 4000)
    finally:
        job.hosts[name].plug_in_again()
    wait_until("one is answered", lambda: silence(job.hosts, name) < 1000)
    job.do("exit 3", rank=2)
    job.wait_for_attempt(1, *THREE)
    said = job.end()
    assert "lost" not in "".join(said.values()), said


def test_a_host_whose_link_was_down_for_longer_is_lost_and_may_come_again(job):
    job.start("abc", *KILLED, nodes="1:3", on_term="")
    job.wait_for_attempt(0, *THREE)
    job.hosts["c"].unplug()
    try:
        job.wait_for_attempt(1, "0/2 on a", "1/2 on b")
        job.stop_searching("c")
    finally:
        job.hosts["c"].plug_in_again()
    job.start("c", *KILLED, nodes="1:3", on_term="")
    job.wait_for_attempt(2, *THREE)
    said = job.end()["a"]
    assert re.search(r"^ddprun: lost c \(rank 2\): .*; starting all workers again on 2 of 3 nodes$", said, re.M), said
    assert "ddprun: c has joined; starting all workers again on 3 of 3 nodes\n" in said, said


def test_over_a_slow_link_that_drops_packets_nobody_is_lost(job):
    with slow_link(job.hosts, "b"):
        job.start("abc", "--max-restarts", "1", nodes="1:3")
        job.wait_for_attempt(0, *THREE)
        job.do("exit 3", rank=2)
        job.wait_for_attempt(1, *THREE)
        said = job.end()
    assert "lost" not in "".join(said.values()), said


@pytest.mark.parametrize("slow", ["a", "b"])
def test_beside_a_slow_link_another_host_is_lost_and_no_other(job, slow):
    with slow_link(job.hosts, slow):
        job.start("abc", *KILLED, "--host-timeout", "8", nodes="1:3", on_term="")
        job.wait_for_attempt(0, *THREE)
        job.hosts["c"].unplug()
        try:
            job.wait_for_attempt(1, "0/2 on a", "1/2 on b")
            job.stop_searching("c")
        finally:
            job.hosts["c"].plug_in_again()
        said = job.end()
    assert evidence.times_said(said["a"], "ddprun: lost ") == 1 and "ddprun: lost c (rank 2): " in said["a"], said
    assert said["b"] == "", said


# ---- several

def test_two_hosts_that_are_cut_off_at_once_leave_the_others_to_go_on(job):
    job.start("abcd", *KILLED, nodes="1:4", on_term="")
    job.wait_for_attempt(0, *FOUR)
    for name in "cd":
        job.hosts[name].unplug()
    try:
        wait_until("the others go on", lambda: "1/2 on b" in job.noted(1) + job.noted(2))
        job.stop_searching("c", "d")
    finally:
        for name in "cd":
            job.hosts[name].plug_in_again()
    job.end()


def test_hosts_of_which_no_place_is_known_keep_theirs_and_are_told(job):
    job.start("abc", "--order", "network", nodes="1:3")
    job.wait_for_attempt(0, "0/3 on a", "1/3 on b", "2/3 on c")
    said = job.end()
    assert evidence.times_said(said["a"], "neither a switch nor an NVLink domain of a,b,c is known; they keep the scheduler's place") == 1, said


def test_a_switch_that_is_lost_with_its_hosts_is_told_as_one(job):
    order = job.directory / "order"
    order.write_text("a,c s0/leaf1\nb,d s0/leaf2\n")
    job.start("abcd", "--order", str(order), "--events", str(job.directory / "events"), nodes="2:4", on_term="until [ -e {0}/go ]; do sleep 0.05; done; exit 0")
    job.wait_for_attempt(0, "0/4 on a", "1/4 on c", "2/4 on b", "3/4 on d")
    for name in "bd":
        job.kill(name)
    wait_until("both losses are known", lambda: len(job.events("lost")) == 2)
    (job.directory / "go").touch()
    job.wait_for_attempt(1, "0/2 on a", "1/2 on c")
    said = job.end()
    assert evidence.times_said(said["a"], "lost all 2 nodes of switch s0/leaf2 (b,d): the connection was closed; "
                                          "starting all workers again on 2 of 4 nodes") == 1, said
    job.check_no_overlap()


def test_a_job_that_has_used_all_its_spares_says_in_one_sentence_who_is_lost(job):
    job.start("abcd", "--spares", "2", nodes="4")
    job.wait_for_attempt(0, "0/2 on a", "1/2 on b")
    job.kill("d")  # a spare, which dies first
    job.kill("b")
    job.wait_for_attempt(1, "0/2 on a", "1/2 on c")
    job.kill("c")
    [result] = job.wait_for_end_of("a").values()
    assert result.code == 125, str(result)
    said = result.stderr
    assert evidence.times_said(said, "; it was a spare") == 1, said
    assert evidence.times_said(said, "; 1 node left, and the job needs 2; no spare is left, "
                                     "as 3 of 4 nodes are lost: b, c, d") == 1, said
    assert not job.noted(2)
    job.check_nothing_is_left()


# ---- what cannot be

TWO_TASKS_A_NODE = {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2",
                    "HYDI_CONTROL_FD": "9"}


@pytest.mark.parametrize(("options", "sentence", "hint", "env"), [
    (["--nnodes", "3:2"], "--nnodes has MIN above MAX: '3:2'", "write 2:3", {}),
    (["--nnodes", "0:2"], "--nnodes is not a number of nodes: '0:2'", "give a number above 0, or MIN:MAX", {}),
    (["--nnodes", "2", "--spares", "3"], "--spares 3 leaves 0 of 2 nodes (--nnodes), and 1 is needed",
     "give fewer spares, or more nodes", {}),
    (["--nnodes", "2", "--grow", "now"], "--grow requires --nnodes MIN:MAX or --spares",
     "the number of nodes is fixed otherwise", {}),
    (["--nnodes", "1:2", "--host-timeout", "4"], "--host-timeout is too short for a job that continues without a lost node: '4 s'",
     "give 7 s or more: a node that is cut off stops its workers in that time", {}),
    (["--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=0"],
     "--rdzv-conf has a last_call_timeout that is not a time: '0'", "give seconds above 0", {}),
    (["--spares", "1", "--dry-run"], "--spares requires one ddprun per node, but hydra started one per task",
     "start one ddprun on each node", TWO_TASKS_A_NODE),
], ids=["least-above-most", "none", "more-spares-than-nodes", "grow-alone", "host-timeout", "last-call", "two-a-node"])
def test_what_cannot_be_is_refused_with_a_sentence_and_a_hint(hosts, options, sentence, hint, env):
    place = ["--node-rank", "0", "--master-addr", "127.0.0.1"]
    result = hosts["a"].run(["ddprun", *options, *place, "--no-python", "true"], env=env)
    assert (result.code, result.stderr) == (2, f"ddprun: {sentence}\nhint: {hint}\n"), str(result)
