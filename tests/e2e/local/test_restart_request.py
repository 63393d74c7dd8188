"""--restart and --drain: a restart that is asked for from another shell, before the job fails."""

from __future__ import annotations

import os
import re

import pytest

from support import evidence
from support.hosts import Result, wait_until
from support.manual import as_text, codes, start, wait_all, wait_for_files

STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/"]
# Notes its place, then waits for the end.
WAITING = ("echo $RANK of $WORLD_SIZE on $(hostname) > {0}/$TORCHELASTIC_RESTART_COUNT.$RANK; trap 'exit 0' TERM;"
           "until [ -e {0}/end ]; do sleep 0.05; done")


@pytest.fixture
def job(hosts, directory, key):
    """Called with the number of nodes and the options; `end` returns the results."""
    agents = []

    def run(nodes: int, *options: str, count: str | None = None) -> None:
        agents.extend(start(hosts, node, "--key-file", key, "--rdzv-id", "night-7", "--events", str(directory / "events"), *options,
                            "--no-python", "sh", "-c", WAITING.format(directory), nodes=count or nodes) for node in range(nodes))

    def end() -> list[Result]:
        (directory / "end").touch()
        return wait_all(agents)

    run.end = end
    yield run
    (directory / "end").touch()


def wait_for_attempt(directory, attempt: int, workers: int) -> list[str]:
    def noted() -> list[str]:
        return sorted(path.read_text().strip() for path in directory.glob(f"{attempt}.*"))
    wait_for_files(directory, f"{attempt}.*", workers)
    wait_until("all have noted", lambda: all(noted()))
    return noted()


def test_a_restart_is_made_for_its_owner_and_uses_none(hosts, job, directory):
    job(2)  # without --max-restarts
    wait_for_attempt(directory, 0, 2)
    asked = hosts["b"].run(["ddprun", "--restart", "night-7"])
    assert (asked.code, asked.stdout) == (0, "job night-7: all workers are being stopped; attempt 1 follows\n"), str(asked)
    assert wait_for_attempt(directory, 1, 2) == ["0 of 2 on a", "1 of 2 on b"]
    # Two at once, on two hosts: the second one may come after the restart.
    both = [hosts[name].popen(["ddprun", "--restart"]) for name in "ab"]
    asked = wait_all(both)
    assert codes(asked) == [0, 0] and "all workers are being stopped; attempt 2 follows" in asked[0].stdout + asked[1].stdout, as_text(asked)
    wait_until("all run again", lambda: any(len(list(directory.glob(f"{attempt}.*"))) == 2 for attempt in (2, 3)))
    results = job.end()
    assert codes(results) == [0, 0], as_text(results)
    said = results[0].stderr
    assert re.search(r"ddprun: restart asked for by .+ \(pid \d+\) on b; starting all workers again on 2 of 2 nodes\n", said), said
    assert len(evidence.events(directory / "events", "asked")) >= 2


@pytest.mark.parametrize("options, nodes, after", [
    (["--spares", "1"], 3, ["0 of 2 on a", "1 of 2 on c"]),
    ([], "2:3", ["0 of 2 on a", "1 of 2 on c"])])
def test_a_drained_node_leaves_and_the_others_go_on(hosts, job, directory, options, nodes, after):
    names = directory / "bad-nodes"
    job(3, "--check=auto", "--exclude-file", str(names), *options, count=str(nodes))
    wait_for_attempt(directory, 0, 2 if options else 3)
    asked = hosts["c"].run(["ddprun", "--drain", "b.site", "night-7"])
    assert (asked.code, asked.stdout) == (0, "job night-7: all workers start again without b.site\n"), str(asked)
    assert wait_for_attempt(directory, 1, 2) == after
    assert names.read_text() == "b\n"
    again = hosts["a"].run(["ddprun", "--drain", "b"])
    assert (again.code, again.stdout) == (0, "job night-7: b has left the job already\n"), str(again)
    last = hosts["a"].run(["ddprun", "--drain", "c"])
    assert last.code == 125 and "no other node can take the place of c: 1 node would be left, and the job needs 2" in last.stderr, str(last)
    results = job.end()
    assert [results[0].code, results[2].code, results[1].code] == [0, 0, 125], as_text(results)
    assert re.search(r"ddprun: b is drained, as asked by .+ \(pid \d+\) on c; starting all workers again on 2 of \d nodes\n",
                     results[0].stderr), str(results[0])


def test_what_cannot_be_drained_is_declined(hosts, job, directory):
    job(2)
    wait_for_attempt(directory, 0, 2)
    for node, sentence in (("n9", "n9 is not a node of this job\nhint: the nodes of the job: a, b\n"),
                           ("a", "a coordinates the job and cannot be drained\n"), ("b", "no other node can take the place of b\n")):
        asked = hosts["a"].run(["ddprun", "--drain", node, "night-7"])
        assert asked.code == 125 and f"ddprun: job night-7: {sentence}" in asked.stderr, str(asked)
    other = hosts["a"].run(["ddprun", "--restart", "night-8"])
    assert other.code == 125 and "has the job id or process id night-8" in other.stderr, str(other)
    assert codes(job.end()) == [0, 0]
    assert not list(directory.glob("1.*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes need root")
def test_another_user_cannot_ask(hosts, job, directory):
    job(2)
    wait_for_attempt(directory, 0, 2)
    stranger = hosts["a"].run([*STRANGER, "ddprun", "--restart", "night-7"])
    assert stranger.code == 125 and "has the job id or process id night-7" in stranger.stderr, str(stranger)
    # nor where it knows the name
    listed = hosts["a"].check(["cat", "/proc/net/unix"])
    name = next(line.split()[-1][1:] for line in listed.splitlines() if "@ddprun/restart/0/" in line)
    knock = ("import json,socket,sys; s=socket.socket(socket.AF_UNIX); s.connect('\\0' + sys.argv[1])\n"
             "try:\n  s.sendall(json.dumps({'type': 'restart_request', 'number': 0, 'sender': 'x'}).encode()); s.shutdown(1)\n"
             "except OSError: pass\n"
             "try: print(s.recv(100))\nexcept OSError: print(b'')")
    assert hosts["a"].check([*STRANGER, "/usr/bin/python3", "-c", knock, name]) == "b''\n"
    assert codes(job.end()) == [0, 0]
    assert not list(directory.glob("1.*"))
