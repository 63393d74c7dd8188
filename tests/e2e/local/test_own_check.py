"""--check-command and --on-failure: commands of the site or the user that judge a node and hear of failures."""

from __future__ import annotations

import json
import os

import pytest

from support.hosts import wait_until
from support.manual import as_text, codes, start, wait_all

SAY = ["--no-python", "sh", "-c", "echo rank $RANK"]
FAIL_ONCE = ["--no-python", "sh", "-c", "[ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 3; exit 0"]


def script(directory, text: str, name: str = "node-check") -> str:
    path = directory / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def run(hosts, key: str, *arguments: str, nodes: int = 2):
    return wait_all([start(hosts, node, "--key-file", key, *arguments, nodes=nodes) for node in range(nodes)])


def test_each_node_is_asked_before_the_job_and_before_a_restart_and_why(hosts, key, directory):
    note = f"cat > {directory}/$DDPRUN_NODE.$DDPRUN_CHECK_FOR.$DDPRUN_ATTEMPT; echo seen\n"
    results = run(hosts, key, "--check-command", script(directory, note), "--max-restarts", "1", "--logs", str(directory / "logs"), *FAIL_ONCE)
    assert codes(results) == [0, 0], as_text(results)
    asked = {path.name: json.loads(path.read_text()) for path in directory.glob("[ab].*.0")}
    assert set(asked) == {"a.start.0", "b.start.0", "a.restart.0", "b.failure.0"}, as_text(results)
    assert asked["a.start.0"] == {"version": 1, "attempt": 0, "node": "a", "failure": None}
    for name in ("a.restart.0", "b.failure.0"):
        failure = asked[name]["failure"]
        assert (failure["rank"], failure["host"], failure["exit_code"]) == (1, "b", 3), asked[name]
    assert (directory / "logs" / "check.b.attempt0.txt").read_text() == "seen\n"
    assert not (directory / "logs" / "check.a.attempt0.txt").exists()


def test_an_unfit_node_ends_a_job_that_needs_it_before_it_begins(hosts, key, directory):
    check = script(directory, "[ $DDPRUN_NODE = b ] || exit 0; echo 'fan 3 stands still'; exit 1\n")
    results = run(hosts, key, "--check-command", check, *SAY)
    assert codes(results) == [123, 123] and all(not result.stdout for result in results), as_text(results)
    assert "ddprun: --check-command on b: fan 3 stands still\nhint: " in results[0].stderr + results[1].stderr, as_text(results)


def test_a_spare_takes_the_place_of_a_node_that_becomes_unfit(hosts, key, directory):
    check = script(directory, "[ $DDPRUN_NODE$DDPRUN_CHECK_FOR = bfailure ] || exit 0; echo 'fan 3 stands still'; exit 1\n")
    results = run(hosts, key, "--check-command", check, "--spares", "1", "--max-restarts", "1", *FAIL_ONCE, nodes=3)
    assert [results[0].code, results[2].code] == [0, 0] and results[1].code == 125, as_text(results)
    assert "ddprun: b is unfit for another attempt: --check-command: fan 3 stands still\nhint: " in results[0].stderr, as_text(results)
    assert "ddprun: c replaces b\n" in results[0].stderr, as_text(results)


def test_the_job_ends_where_no_other_node_can_take_the_place(hosts, key, directory):
    check = script(directory, "[ $DDPRUN_CHECK_FOR = failure ] || exit 0; exit 1\n")
    results = run(hosts, key, "--check-command", check, "--max-restarts", "3", *FAIL_ONCE)
    assert codes(results) == [123, 123], as_text(results)
    assert f"b is unfit for another attempt: --check-command: {check} says that it is unfit, and no other node can take its place" in \
        results[0].stderr, as_text(results)


@pytest.mark.parametrize("text, said", [
    ("echo no licence; exit 2", "exited with code 2: no licence"),
    ("kill -SEGV $$", "was killed by SIGSEGV"),
    ("exec sleep 1000", "did not end within 1 s"),
    (None, "cannot be started: no such file"),
])
def test_a_broken_check_judges_no_node(hosts, key, directory, text, said):
    check = script(directory, text + "\n") if text else "/no/such/check"
    results = run(hosts, key, "--check-command", check, "--check-timeout", "1s", "--max-restarts", "1", *FAIL_ONCE)
    assert codes(results) == [0, 0], as_text(results)
    for name, result in zip("ab", results):
        assert f"ddprun: {name} is not judged by --check-command: {check} {said}\nhint: " in result.stderr, as_text(results)
        assert result.stderr.count("is not judged") == 1, as_text(results)


def test_a_check_that_prints_much_and_leaves_processes_is_heard(hosts, key, directory):
    check = script(directory, f"sleep 1000 & echo $! >> {directory}/left\nhead -c 2000000 /dev/zero | tr '\\0' 'x'\n")
    results = run(hosts, key, "--check-command", check, *SAY)
    assert codes(results) == [0, 0] and [result.stderr for result in results] == ["", ""], as_text(results)
    for pid in (directory / "left").read_text().split():
        wait_until("it has ended", lambda pid=pid: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split(")")[1][:3])


def test_a_command_runs_at_each_failure_and_a_restart_does_not_wait_for_it(hosts, key, directory):
    note = f"cat > {directory}/$DDPRUN_FAILED.json; [ $DDPRUN_FAILED = job ] || touch {directory}/began; [ $DDPRUN_FAILED = job ] || sleep 1000\n"
    work = (f"[ $TORCHELASTIC_RESTART_COUNT = 1 ] && {{ until [ -e {directory}/began ]; do sleep 0.05; done; exit 4; }}; "
            "[ $RANK = 0 ] && sleep 1000; exit 3")
    results = run(hosts, key, "--on-failure", script(directory, note, "notify"), "--max-restarts", "1", "--restart-policy", "always",
                  "--shutdown-timeout", "2", "--no-python", "sh", "-c", work)
    assert codes(results) == [4, 4], as_text(results)  # nobody has waited for `sleep 1000`
    first, last = (json.loads((directory / f"{name}.json").read_text()) for name in ("attempt", "job"))
    assert (first["result"], first["failure"]["rank"], first["failure"]["exit_code"]) == ("worker_failed", 1, 3), first
    assert (last["exit_code"], last["attempts"], last["failure"]["exit_code"]) == (4, 2, 4), last


def test_a_command_for_failures_that_fails_is_told_and_changes_nothing(machine, directory):
    notify = script(directory, "echo no route; exit 7\n", "notify")
    result = machine.run("--on-failure", notify, "--no-python", "sh", "-c", "exit 3")
    assert result.code == 3, str(result)
    assert f"--on-failure on {os.uname().nodename}: {notify} exited with code 7: no route\nhint: " in result.stderr, str(result)
    assert machine.run("--on-failure", notify, "--no-python", "true").stderr == ""


def test_a_dry_run_shows_both(machine):
    text = machine.run("--dry-run", "--check-command", "node-check --fast", "--on-failure", "sh -c 'mail me'", "--no-python", "true").stdout
    assert "node-check --fast, 30 s at most" in text and "sh -c 'mail me'" in text, text
