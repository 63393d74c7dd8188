"""Ranks that hang are found and named (--hang-timeout), and --stacks shows where all are; those that are only silent are not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time

import pytest

from support import programs
from support.hosts import wait_until
from support.manual import as_text, codes, start_all, wait_all

SCRIPT = str(programs.SCRIPTS / "hang.py")
OLD_PYTHON = "/usr/bin/python3"  # Debian's, with torch 1.13: nothing in it answers

SILENCE = "10"  # seconds: on a busy machine an import waits for the disk for some


@pytest.fixture
def run(hosts, directory, key, torch_python):
    """Two hosts with a rank each; rank 1, on b, hangs."""

    def run(how: str, *options: str, python=torch_python):
        return start_all(hosts, "--key-file", key, "--shutdown-timeout", "2", *options, SCRIPT, how,
                         env={"PYTHON_EXEC": str(python)})

    return run


def report(processes) -> str:
    results = wait_all(processes)
    assert codes(results) == [124, 124], as_text(results)
    return results[0].stderr


@pytest.mark.parametrize("how, said", [
    ("sleep", r"it is at hang.py:\d+ in bad_branch, last collective: all_reduce #5 \(1000 float\)"),
    ("interpreter held", r"it is at hang.py:\d+, last collective: all_reduce #5"),
    ("finally", r"it has raised ValueError: bad loss \(hang.py:\d+\), waits in barrier #7 at hang.py:\d+"),
    ("mismatch", r"it waits in broadcast #6 \(1000 float\) at hang.py:\d+"),
])
def test_the_rank_that_the_others_wait_for_is_named(run, how, said):
    text = report(run(how, "--hang-timeout", SILENCE))
    assert "rank 1 on b hangs: " in text and re.search(said, text), text
    assert re.search(r", while rank 0 on a waits in all_reduce #\d \(1000 float\) at hang.py:\d+ in train; no rank has shown", text), text
    assert re.search(r"stack of rank 1, innermost call first:\n  \|   /.*:\d+ in ", text), text
    assert "rank 0 stopped because of it" in text, text


@pytest.mark.parametrize("how, call", [("init", "init_process_group"), ("new group", "new_group"),
                                       ("monitored barrier", "monitored_barrier"), ("store", "store.wait")])
def test_who_waits_in_a_call_that_no_recorder_shows_is_not_to_blame(run, how, call):
    text = report(run(how, "--hang-timeout", SILENCE))
    assert re.search(rf"rank 1 on b hangs: it is at hang.py:\d+.*, while rank 0 on a waits in {call} at hang.py:\d+", text), text


def test_groups_that_are_used_in_another_order_are_no_fault_of_the_network(run):
    text = report(run("groups", "--hang-timeout", SILENCE))
    assert re.search(r"it waits in all_reduce #1 of group one .*, while rank 1 on b waits in all_reduce #1 of group two ", text), text
    assert "hint: the ranks use these process groups in different orders, so that each waits for the other" in text, text


@pytest.mark.parametrize("how, said", [
    ("thread", r"it is at hang.py:\d+ in bad_branch of thread loader, (.*\n)+.*stack of rank 1, thread loader, innermost call first:\n"
               r".* in bad_branch\n(.*\n)+  \| its thread MainThread:\n(.*\n)*.* in wait_for_a_thread"),
    ("locks", r"it is at hang.py:\d+ in take, (.*\n)+.*stack of rank 1, innermost call first:\n.* in take\n(.*\n)+"
              r"  \| its thread other:\n.* in take\n"),
    ("prompt", r"it is at a \(Pdb\) prompt at hang.py:\d+, (.*\n)+.*hint: it waits for input: answer it \(c continues\)"),
])
def test_the_thread_that_matters_is_shown(run, how, said):
    text = report(run(how, "--hang-timeout", SILENCE))
    assert re.search("rank 1 on b hangs: " + said, text), text


def test_the_rank_that_was_missing_is_named_when_all_nodes_are_gone(run, hosts, directory):
    logs = str(directory / "logs")
    processes = run("sleep", "--logs", logs, "--stacks-every", "2s", "--rdzv-id", "run")
    missing = "default group (ranks 0-1): rank 0 waits in all_reduce #6 (1000 float), missing: rank 1 (last #5)\n"
    wait_until("a dump shows it", lambda: missing in hosts["a"].run(["ddprun", "--stacks", logs]).stdout)
    for process in processes:
        process.kill()
    wait_all(processes)
    for folder in (logs, logs + "/run", logs + "/run/stacks"):
        shown = hosts["a"].check(["ddprun", "--stacks", folder])
        assert re.match(r"dump of \S+Z, ranks 0-1\nrank 1 on b: it is at hang.py:\d+ in bad_branch, last collective: all_reduce #5 "
                        r"\(1000 float\), while rank 0 on a waits in all_reduce #6 \(1000 float\) at hang.py:\d+ in train; "
                        r"the longest wait is ", shown), shown
        assert missing in shown and "thread MainThread" in shown, shown
    assert len(list((directory / "logs/run/stacks").iterdir())) <= 2 * 4


def test_what_was_collected_of_every_rank_is_kept_beside_its_log_files(run, directory):
    report(run("sleep", "--hang-timeout", SILENCE, "--logs", str(directory / "logs"), "--rdzv-id", "run"))
    for rank, function in enumerate(["train", "bad_branch"]):
        text = (directory / f"logs/run/attempt-0/rank-0000{rank}.stacks").read_text()
        parts = re.fullmatch(rf"== \S+Z, attempt 0, rank {rank} on [ab], pid \d+ ==\nrank {rank} .*\n-- Python threads --\n"
                             r"((?:.*\n)*)-- flight record --\n(.*)\n\n", text)
        assert parts and re.search(rf"thread MainThread \(main\):\n(  .*\n)*  /.*hang.py:\d+ in {function}\n", parts[1]), text
        assert json.loads(parts[2])["entries"][-1]["profiling_name"].startswith("gloo:"), text


def test_a_hang_is_answered_with_a_restart(run):
    results = wait_all(run("sleep", "--hang-timeout", SILENCE, "--max-restarts", "1"))
    assert codes(results) == [0, 0] and results[0].stdout == "trained\n", as_text(results)
    assert re.search(r"rank 1 on b hangs: .*; starting all workers again \(restart 1 of 1\)\nwhere the ranks are:", results[0].stderr)


def test_a_hang_is_reported_and_the_job_goes_on(run, hosts, directory):
    events, metrics, written = (directory / name for name in ("ev.jsonl", "job.prom", "report.json"))
    processes = run("stopped", "--hang-timeout", SILENCE, "--on-hang", "report", "--events", str(events), "--metrics", str(metrics),
                    "--report", str(written))
    told = next(found for found in (re.search(r"kill -CONT (\d+) on b", line) for line in processes[0].popen.stderr) if found)
    hosts["b"].check(["kill", "-CONT", told[1]])
    results = wait_all(processes)
    assert codes(results) == [0, 0] and results[0].stdout == "trained\n", as_text(results)
    said = "rank 1 on b hangs: it is stopped by a signal (state T)"
    [hang] = [each for each in map(json.loads, events.read_text().splitlines()) if each["event"] == "hang"]
    assert hang["what"].startswith(said) and hang["hint"].startswith("kill -CONT") and hang["rank"] == 1, hang
    assert re.search(r"^ddprun_hangs_total\{.*\} 1$", metrics.read_text(), re.M)
    [noted] = json.loads(written.read_text())["hangs"]
    assert noted["what"] == hang["what"] and (noted["host"], noted["rank"], noted["attempt"]) == ("b", 1, 0), noted
    assert said in hosts["a"].check(["ddprun", "--timeline", str(events)])


@pytest.mark.parametrize("how", ["checkpoint", "compile", "preprocess", "progress"])
def test_work_that_prints_nothing_is_no_hang(run, how):
    results = wait_all(run(how, "--hang-timeout", "4"))
    assert codes(results) == [0, 0] and results[0].stdout == "trained\n", as_text(results)


@pytest.mark.skipif("DDPRUN_TEST_LONG" not in os.environ, reason="takes 19 minutes; DDPRUN_TEST_LONG runs it")
@pytest.mark.timeout(1800)
def test_auto_follows_from_the_rhythm_of_the_job(machine, torch_python):
    """Steps of 40 s for 11 minutes: then 350 s in silence, more than the least time of 5 minutes, are no hang, and 400 s are one."""
    paused, hanging = (machine.start("--nproc-per-node", "2", "--hang-timeout", "auto", SCRIPT, how, env={"PYTHON_EXEC": str(torch_python)})
                       for how in ("pause", "rhythm"))
    result = hanging.wait(timeout=1500)
    told = re.search(r"rank 1 on .* hangs: it is at hang.py:\d+ in bad_branch, .*; no rank has shown a sign of life for (\d+) s", result.stderr)
    assert result.code == 124 and told and int(told[1]) >= 400, result
    result = paused.wait(timeout=300)
    assert (result.code, result.stdout, result.stderr) == (0, "trained\n", ""), result


def test_a_rank_that_exits_early_explains_the_failure_of_the_others(run):
    results = wait_all(run("batch less"))
    assert codes(results) == [1, 1], as_text(results)
    text = results[0].stderr
    assert re.search(r"ddprun: rank 0 on a exited with code 1: rank 1 on b had exited with code 0 \d+\.\d s before, while rank 0 was in "
                     r"all_reduce #6 \(1000 float\)\n", text), text
    assert "hint: all ranks must make the same collective calls; a rank with fewer batches ends early" in text, text


def test_a_rank_that_exits_early_is_told_and_its_job_ends(run):
    text = report(run("early", "--exit-barrier-timeout", "3", "--nproc-per-node", "2"))  # ranks 0 and 1 are on a
    assert re.search(r"rank 0 on a hangs: ranks 0,2-3 wait in all_reduce #6 .*, while rank 1 on a has exited with code 0; rank 1 "
                     r"exited with code 0 3 s ago", text) and "drop_last" in text, text


def test_a_rank_whose_script_is_over_and_whose_process_stays(run):
    text = report(run("exit", "--exit-barrier-timeout", "3"))
    assert "rank 1 on b hangs: it has run its script to the end, and its process does not exit" in text, text


def test_without_anything_inside_a_silent_job_is_still_found(run):
    if subprocess.run([OLD_PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip("Debian's python3-torch is not installed")
    for python, options in ((OLD_PYTHON, []), (programs.torch_python(), ["--no-inspect"])):
        text = report(run("sleep", "--hang-timeout", "6", *options, python=python))
        shown = r"(sleeping in \w+|(running )?in \w+, called by .*) \(no Python stack: not inspected\)|at hang.py:\d+ in bad_branch"
        assert re.search("hangs: it is (" + shown + ")", text), text  # which one is for the debuggers in PATH


def show_stacks_of_a_stopped_rank(hosts) -> str:
    wait_until("rank 1 is stopped", lambda: "stopped by a signal" in hosts["a"].run(["ddprun", "--stacks"]).stdout)
    return hosts["a"].check(["ddprun", "--stacks"])


def test_stacks_shows_where_the_ranks_are_and_harms_nothing(run, hosts):
    processes = run("stopped")
    shown = show_stacks_of_a_stopped_rank(hosts)
    assert re.search(r"rank 0 on a waits in all_reduce #6 \(1000 float\) at hang.py:\d+ in train\n  thread MainThread", shown), shown
    assert re.search(r"rank 1 on b .*stopped by a signal \(state T\)", shown), shown
    elsewhere = hosts["b"].check(["ddprun", "--stacks"])
    assert all(f"rank {rank} on {host} " in elsewhere for rank, host in enumerate("ab")), elsewhere
    table = hosts["a"].check(["ddprun", "--status"])
    assert "LAST COLLECTIVE" in table and re.search(r"in all_reduce #6 for \d+ s", table), table
    continue_rank_1(hosts, table)
    results = wait_all(processes)
    assert codes(results) == [0, 0], as_text(results)


def continue_rank_1(hosts, table: str) -> None:
    [pid] = re.findall(r"^1 +b +0 +(\d+)", table, re.MULTILINE)
    hosts["b"].check(["kill", "-CONT", pid])


@pytest.mark.parametrize("options, most", [([], 1), (["--hang-timeout", "60"], 6)])
def test_nothing_wakes_up_where_hangs_are_not_looked_for(run, hosts, options, most):
    """And at most once a second where they are, within five seconds in which it does not ask the other agent whether it runs, as it
    does every ten.
    """
    processes = run("stopped", *options)
    show_stacks_of_a_stopped_rank(hosts)
    time.sleep(1)  # its answer is over
    counts = [switches(processes[0].pid)]
    for _ in range(3):
        time.sleep(5)
        counts.append(switches(processes[0].pid))
    assert min(later - earlier for earlier, later in zip(counts, counts[1:])) <= most, counts
    continue_rank_1(hosts, hosts["a"].check(["ddprun", "--status"]))
    assert codes(wait_all(processes)) == [0, 0]


def switches(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read(), re.MULTILINE)[1])
