"""--restart-policy and the options beside it: which failures are answered with a restart, and when."""

from __future__ import annotations

import json
import re
import signal

import pytest

from support.hosts import wait_until
from support.machine import Screen
from support.manual import as_text, codes, start_all, wait_all

SHELL = ("--no-python", "sh", "-c")
SAID = "  not restarted: the same failure occurred twice in a row, and no worker made progress\n"
TOUCH = 'touch "$DDPRUN_PROGRESS_FILE"'


def restarts_in(text: str) -> int:
    return len(re.findall(r"starting all workers again", text))


def test_the_same_failure_twice_ends_the_job_and_says_why_and_how_to_go_on(machine):
    report = machine.directory / "report.json"
    result = machine.run("--nproc-per-node", "2", "--max-restarts", "3", "--report", str(report), *SHELL,
                         "[ $RANK = $((TORCHELASTIC_RESTART_COUNT % 2)) ] && exit 7; exec sleep 600")
    assert result.code == 7 and restarts_in(result.stderr) == 1, str(result)
    assert re.search(r"\n  1 of 3 restarts used: rank 0 on \S+ exited with code 7 \(attempt 0\)\n" + re.escape(SAID) +
                     r"hint: --restart-policy always restarts without progress too; progress is a run of 5 min "
                     r"\(--min-progress\) or touching \$DDPRUN_PROGRESS_FILE\n\Z", result.stderr), str(result)
    told = json.loads(report.read_text())
    assert (told["restarts"], told["max_restarts"]) == (1, 3), told
    assert [(each["attempt"], each["rank"], each["exit_code"]) for each in told["restarted_after"]] == [(0, 0, 7)], told
    assert told["not_restarted"].startswith("the same failure") and told["hint"].startswith("--restart-policy"), told


def test_a_failure_that_uses_up_the_restarts_needs_no_other_reason(machine):
    result = machine.run("--max-restarts", "1", *SHELL, "exit 7")
    assert result.code == 7 and restarts_in(result.stderr) == 1 and "not restarted" not in result.stderr, str(result)
    assert "  1 of 1 restarts used: rank 0 on " in result.stderr and "restart 0 of" not in result.stderr, str(result)


def test_a_job_that_succeeds_after_restarts_says_nothing_at_its_end(machine):
    result = machine.run("--max-restarts", "3", *SHELL, "exit $((1 - TORCHELASTIC_RESTART_COUNT))")
    assert result.code == 0 and result.stderr.count("\n") == 1 and restarts_in(result.stderr) == 1, str(result)


@pytest.mark.parametrize("script, restarts", [
    ("exit $((TORCHELASTIC_RESTART_COUNT + 1))", 3),  # each time another one
    (f"{TOUCH}; exit 7", 3),
    (f"[ $TORCHELASTIC_RESTART_COUNT = 1 ] && {TOUCH}; exit 7", 3),
    (f"[ $TORCHELASTIC_RESTART_COUNT = 0 ] && {TOUCH}; exit 7", 2),
    ("echo $$ >&2; exit 7", 1),  # another number is not another failure
    ("[ $TORCHELASTIC_RESTART_COUNT = 1 ] && echo disk >&2; exit 7", 3),
])
def test_progress_and_other_failures_go_on(machine, script, restarts):
    result = machine.run("--max-restarts", "3", *SHELL, script)
    assert restarts_in(result.stderr) == restarts, str(result)
    assert (SAID in result.stderr) == (restarts < 3), str(result)


def test_a_worker_that_runs_long_enough_makes_progress(machine):
    result = machine.run("--max-restarts", "2", "--min-progress", "50ms", *SHELL, "sleep 0.2; exit 7")
    assert restarts_in(result.stderr) == 2, str(result)


def test_each_worker_has_a_file_of_its_own_in_each_attempt_and_none_is_left(machine):
    script = (f'echo "$DDPRUN_PROGRESS_FILE" >> files; [ -e "$DDPRUN_PROGRESS_FILE" ] && echo old >> files; {TOUCH}; '
              "touch up.$TORCHELASTIC_RESTART_COUNT.$RANK; "
              "while [ ! -e up.$TORCHELASTIC_RESTART_COUNT.$((1 - RANK)) ]; do sleep 0.01; done; exit 7")
    machine.run("--nproc-per-node", "2", "--max-restarts", "2", *SHELL, script)
    files = (machine.directory / "files").read_text().split()
    assert len(files) == len(set(files)) == 6, files


def test_python_s_exception_counts_and_not_its_exit_code(machine):
    (machine.directory / "train.py").write_text(
        "import os\nif os.environ['TORCHELASTIC_RESTART_COUNT'] in '13':\n    raise KeyError('loss')\nraise ValueError('bad')\n")
    result = machine.run("--max-restarts", "3", "train.py")
    assert restarts_in(result.stderr) == 3, str(result)


def test_always_never_and_listed_exit_codes(machine):
    always = machine.run("--max-restarts", "3", "--restart-policy", "always", *SHELL, "exit 7")
    assert restarts_in(always.stderr) == 3, str(always)
    assert "  3 of 3 restarts used: rank 0 on " in always.stderr and " (attempts 0-2)\n" in always.stderr, str(always)
    never = machine.run("--max-restarts", "3", "--restart-policy", "never", *SHELL, "echo $TORCHELASTIC_MAX_RESTARTS; exit 7")
    assert restarts_in(never.stderr) == 0 and never.stdout == "0\n" and "restart" not in never.stderr, str(never)
    listed = machine.run("--max-restarts", "3", "--no-restart-on", "64,3", *SHELL, "exit 3")
    assert listed.code == 3 and restarts_in(listed.stderr) == 0, str(listed)
    assert listed.stderr.endswith("\n  not restarted: exit code 3 is in --no-restart-on\n"), str(listed)


def test_a_program_that_does_not_exist_is_not_started_again(machine):
    result = machine.run("--max-restarts", "3", "--restart-policy", "always", "--no-python", "sh", "-c", "exec /no/such/program")
    assert result.code == 127 and restarts_in(result.stderr) == 3, str(result)  # of a shell: nothing is known
    (machine.directory / "orphan").write_text("#!/\n")
    (machine.directory / "orphan").chmod(0o755)
    result = machine.run("--max-restarts", "3", "--no-python", "./orphan")
    assert result.code == 126 and restarts_in(result.stderr) == 0, str(result)
    assert "\n  not restarted: another attempt would fail in the same way\n" in result.stderr, str(result)


def test_quick_failures_wait_longer_each_time(machine):
    events = machine.directory / "events.jsonl"
    result = machine.run("--max-restarts", "3", "--restart-policy", "always", "--restart-backoff", "100ms", "--events",
                         str(events), *SHELL, "exit 7")
    for number, wait in enumerate(["100 ms", "200 ms", "400 ms"], start=1):
        assert f"exited with code 7; starting all workers again in {wait} (restart {number} of 3)\n" in result.stderr, str(result)
    happened = [json.loads(line) for line in events.read_text().splitlines()]
    kinds = [event["event"] for event in happened if event["event"] in ("attempt", "restart")]
    assert kinds == ["attempt", *["restart", "attempt"] * 3], kinds
    times = {(event["event"], event["attempt"]): event["time"] for event in happened if event["event"] in ("attempt", "restart")}
    for attempt, least in {1: 0.1, 2: 0.2, 3: 0.4}.items():
        assert times["attempt", attempt] - times["restart", attempt] >= least - 0.01, times


WAITS = ("--max-restarts", "3", "--restart-backoff", "1m")



def test_a_signal_while_a_restart_waits_ends_the_job_at_once(machine):
    log = machine.directory / "log"
    with log.open("w") as error:
        program = machine.start("--nproc-per-node", "2", *WAITS, *SHELL, "exit 7", stderr=error)
        wait_until("the restart waits", lambda: "again in 60 s" in log.read_text())
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=55).code == 143
    assert "ddprun: stopped by SIGTERM on " in log.read_text(), log.read_text()
    assert "\n  1 of 3 restarts used: rank " in log.read_text(), log.read_text()


def test_interrupt_at_a_terminal_while_a_restart_waits(machine):
    screen = Screen(machine, [machine.binary, "--nproc-per-node", "2", *WAITS, *SHELL, "exit 7"])
    screen.wait_for("starting all workers again in 60 s (restart 1 of 3)")
    screen.wait_for("starting all workers again in 5")  # counted down
    screen.type("\x03")
    assert screen.wait() == 130, screen.text


def test_of_two_hosts_the_progress_of_the_one_that_does_not_fail_counts(hosts, directory, key):
    script = (f"n=$TORCHELASTIC_RESTART_COUNT; [ $RANK = 1 ] && [ $n = 1 ] && {TOUCH}; touch {directory}/up.$n.$RANK; "
              f"while [ ! -e {directory}/up.$n.0 -o ! -e {directory}/up.$n.1 ]; do sleep 0.01; done; "
              "[ $RANK = 0 ] && exit 7; exec sleep 600")
    results = wait_all(start_all(hosts, "--key-file", key, "--max-restarts", "9", "--restart-backoff", "100ms", *SHELL, script))
    assert codes(results) == [7, 7], as_text(results)
    text = results[0].stderr
    assert restarts_in(text) == 3 and SAID in text and "(attempts 0-2)" in text, as_text(results)
    assert restarts_in(results[1].stderr) == 0 and SAID not in results[1].stderr, as_text(results)


def test_of_two_hosts_a_signal_to_either_ends_the_wait(hosts, directory, key):
    for number in (0, 1):
        events = directory / f"events.{number}"
        both = start_all(hosts, "--key-file", key, *WAITS, "--events", str(events), *SHELL, "exit 7")
        wait_until("the restart waits", lambda: events.exists() and '"restart"' in events.read_text())
        both[number].send_signal(signal.SIGINT)
        results = wait_all(both)
        assert codes(results) == [130, 130], as_text(results)
        assert "stopped by SIGINT on " + "ab"[number] in results[0].stderr, as_text(results)


@pytest.mark.parametrize("arguments, sentence, hint", [
    (["--restart-policy", "sometimes"], "--restart-policy is not one of always, progress, never: 'sometimes'", "give one of them"),
    (["--no-restart-on", "1-3"], "--no-restart-on is not a list of exit codes: '1-3'", "name each code, as in 3,4,5: ranges are"),
    (["--no-restart-on", "0"], "--no-restart-on is not a list of exit codes: '0'", "give codes from 1 to 255"),
    (["--restart-backoff", "2m"], "--restart-backoff is above 1m", "give the first wait, which doubles up to 1m"),
    (["--min-progress", "0"], "--min-progress of 0 counts every attempt as progress", "give a time above 0"),
])
def test_bad_values_are_refused(machine, arguments, sentence, hint):
    result = machine.run("--max-restarts", "3", *arguments, *SHELL, "exit 7")
    assert result.code == 2, str(result)
    assert sentence in result.stderr and hint in result.stderr, str(result)
