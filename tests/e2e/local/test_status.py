"""--status: what another shell of the same user learns about a job that runs."""

from __future__ import annotations

import json
import os
import re

import pytest

from support.manual import as_text, codes, start_all, wait_all, wait_for_files
from support.hosts import Host, wait_until

STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/"]
# Rank 0 of the first attempt computes; all wait.
PROGRAM = ("echo begun; touch {0}/up.$TORCHELASTIC_RESTART_COUNT.$RANK;"
           "[ $RANK = 0 ] && {{ while [ ! -e {0}/end ]; do :; done; }};"
           "until [ -e {0}/end ]; do sleep 0.05; [ -e {0}/fail ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 3; done; true")


@pytest.fixture
def job(hosts, directory, key):
    """Two hosts with two workers each; called with its options."""
    started = []

    def run(*options: str):
        started.extend(start_all(hosts, "--key-file", key, "--nproc-per-node", "2", *options, "--no-python", "sh", "-c",
                                 PROGRAM.format(directory)))
        wait_for_files(directory, "up.0.*", 4)

    def end():
        (directory / "end").touch()
        results = wait_all(started)
        assert codes(results) == [0, 0], as_text(results)

    run.end, run.started = end, started
    yield run
    (directory / "end").touch()


def ask(host: Host) -> list:
    return json.loads(host.check(["ddprun", "--status=json"]))


def test_every_host_shows_all_nodes(hosts, job):
    nothing = hosts["a"].run(["ddprun", "--status"])
    assert nothing.code == 125 and "no ddprun process of this user runs on a" in nothing.stderr, str(nothing)
    job("--rdzv-id", "night-7")
    [status] = ask(hosts["a"])
    assert (status["job"], status["phase"], status["node_count"], status["worker_count"]) == ("night-7", "running", 2, 4)
    assert [sorted(node) for node in status["nodes"]] == [["host", "workers"]] * 2
    assert [node["host"] for node in status["nodes"]] == ["a", "b"]
    workers = [worker for node in status["nodes"] for worker in node["workers"]]
    assert [worker["rank"] for worker in workers] == [0, 1, 2, 3]
    assert [worker["local_rank"] for worker in workers] == [0, 1, 0, 1]
    assert all(worker["memory_bytes"] > 0 and worker["output_age_seconds"] >= 0 for worker in workers), workers
    assert workers[0]["cpu_percent"] > workers[1]["cpu_percent"], workers
    [elsewhere] = ask(hosts["b"])
    assert (elsewhere["host"], "coordinator" in elsewhere) == ("b", False), elsewhere
    assert [node["host"] for node in elsewhere["nodes"]] == ["a", "b"], elsewhere
    assert all(worker["cpu_percent"] >= 0 for node in elsewhere["nodes"] for worker in node["workers"]), elsewhere
    table = hosts["a"].check(["ddprun", "--status", "night-7"])
    assert "job night-7 on a" in table and len([line for line in table.splitlines() if " ago" in line]) == 4, table
    other = hosts["a"].run(["ddprun", "--status", "night-8"])
    assert other.code == 125 and "has the job id or process id night-8" in other.stderr, str(other)
    job.end()
    assert hosts["a"].run(["ddprun", "--status"]).code == 125


def test_a_host_whose_coordinator_does_not_answer_shows_its_own_workers(hosts, job):
    job()
    job.started[0].freeze()
    shown = hosts["b"].run(["ddprun", "--status"])
    job.started[0].thaw()
    assert shown.code == 0, str(shown)
    assert re.findall(r"^(\d) +b ", shown.stdout, re.MULTILINE) == ["2", "3"] and " a " not in shown.stdout, str(shown)
    assert "only the workers of this node: the coordinator on " in shown.stdout, str(shown)
    job.end()


def test_restarts_are_shown_and_watching_ends_with_the_job(hosts, job, directory):
    job("--max-restarts", "2")
    (directory / "fail").touch()
    wait_for_files(directory, "up.1.*", 4)
    wait_until("the restart is shown", lambda: "restart 1 of 2" in hosts["a"].check(["ddprun", "--status"]))
    watching = hosts["a"].popen(["ddprun", "--status", "--watch=200ms"])
    assert watching.popen.stdout.readline()
    job.end()
    assert watching.wait().code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes need root")
def test_another_user_is_told_nothing(hosts, job):
    job()
    for host in (hosts["a"], hosts["b"]):
        stranger = host.run([*STRANGER, "ddprun", "--status"])
        assert stranger.code == 125 and "no ddprun process of this user runs" in stranger.stderr, str(stranger)
        # nor where it knows the name
        listed = host.check(["cat", "/proc/net/unix"])
        name = next(line.split()[-1][1:] for line in listed.splitlines() if "@ddprun/status/0/" in line)
        knock = ("import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect('\\0' + sys.argv[1]);"
                 "print(s.recv(100))")
        assert host.check([*STRANGER, "/usr/bin/python3", "-c", knock, name]) == "b''\n"
    job.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes need root")
def test_where_another_user_has_the_socket_first_another_one_is_used(hosts, key, directory):
    """Of the numbers of the next processes, as who would hide a job from --status takes them."""
    take = ("import os,socket,sys,time\nheld=[]\nfor pid in range(os.getpid(), os.getpid() + 1500):\n"
            "  for kind in ('status','stacks'):\n    s=socket.socket(socket.AF_UNIX); held.append(s)\n"
            "    try: s.bind(f'\\0ddprun/{kind}/0/{pid}'); s.listen(1)\n    except OSError: pass\n"
            "print('taken', flush=True)\ntime.sleep(600)")
    taker = hosts["a"].popen([*STRANGER, "sh", "-c", "ulimit -n $(ulimit -Hn); exec /usr/bin/python3 -c \"$0\"", take])
    assert taker.popen.stdout.readline() == "taken\n"
    job = hosts["a"].popen(["ddprun", "--no-python", "sh", "-c", f"touch {directory}/up; until [ -e {directory}/end ]; do sleep 0.1; done"])
    wait_until("the worker runs", (directory / "up").exists)
    [status] = ask(hosts["a"])
    assert status["phase"] == "running", status
    assert hosts["a"].run(["ddprun", "--stacks", str(status["pid"])]).code == 0
    (directory / "end").touch()
    result = job.wait()
    assert result.code == 0, str(result)
    assert re.search(r"the unix socket @ddprun/status/0/\d+ on a is taken by a process of the user with the number 65534; "
                     r"--status and --stacks use another one", result.stderr), str(result)
    taker.kill()
