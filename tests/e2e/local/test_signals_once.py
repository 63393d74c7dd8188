"""Each signal reaches each worker once, whoever sends it to whatever, and none is taken for a failure."""

from __future__ import annotations

import re

import os
import signal
import sys
from pathlib import Path

import pytest

from support.manual import as_text, start, wait_all, wait_for_files
from support.hosts import wait_until
from support.machine import Machine, Program, Screen
from support.programs import SCRIPTS

COUNT = str(SCRIPTS / "count_signals.py")


def start_counters(machine: Machine, *options: str, workers: int = 2, **popen) -> Program:
    program = machine.start("--nproc-per-node", str(workers), *options, "--no-python", sys.executable, COUNT,
                            str(machine.directory), **popen)
    machine.wait_for_files(*(f"ready.{rank}" for rank in range(workers)))
    # Older than what a look through a tree may miss (SignalLedger::Times::start_lag).
    machine.start_program(["sleep", "0.2"]).wait()
    return program


def got(directory: Path, name: str, workers: int = 2) -> list[int]:
    files = [directory / f"got.{rank}" for rank in range(workers)]
    return [file.read_text().split().count(name) if file.exists() else 0 for file in files]


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat that follow the name: state, parent, group, session."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree_of(root: int) -> list[int]:
    """It and everything below, parents first."""
    found = [root]
    for pid in found:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        found += [int(child) for child in children.read_text().split()]
    return found


def session_of(leader: int) -> list[int]:
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in pids if is_in_session(pid, leader)]


def is_in_session(pid: int, leader: int) -> bool:
    try:
        return int(stat_of(pid)[3]) == leader
    except OSError:
        return False  # gone meanwhile


def kill_all(pids: list[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


# What the signal is sent to: a systemd unit's processes, slurmstepd's tree, PBS' session, a group, a process.
TARGETS = {
    "tree": lambda pid: tree_of(pid),
    "tree-from-below": lambda pid: tree_of(pid)[::-1],
    "session": lambda pid: session_of(pid),
    "group": lambda pid: [-pid],
    "process": lambda pid: [pid],
}


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM], ids=["USR1", "TERM"])
@pytest.mark.parametrize("target", TARGETS)
def test_each_worker_gets_a_signal_once(machine, target, number):
    program = start_counters(machine, start_new_session=True)
    kill_all(TARGETS[target](program.pid), number)
    wait_until("both have it", lambda: all(got(machine.directory, number.name)))
    if number != signal.SIGTERM:
        program.send_signal(signal.SIGTERM)
    result = program.wait()
    assert result.code == 143, str(result)
    assert got(machine.directory, number.name) == [1, 1], str(result)
    assert got(machine.directory, "SIGTERM") == [1, 1], str(result)


def test_a_tree_may_be_signalled_again_and_again(machine):
    program = start_counters(machine, start_new_session=True)
    for times in range(1, 4):
        kill_all(tree_of(program.pid), signal.SIGUSR1)
        wait_until("both have it", lambda: min(got(machine.directory, "SIGUSR1")) == times)
        program.send_signal(signal.SIGUSR2)
        wait_until("both have the other", lambda: min(got(machine.directory, "SIGUSR2")) == times)
    program.send_signal(signal.SIGTERM)
    program.wait()
    assert got(machine.directory, "SIGUSR1") == [3, 3]
    assert got(machine.directory, "SIGUSR2") == [3, 3]


def test_workers_that_die_of_a_signal_to_the_tree_before_ddprun_has_it_did_not_fail(machine):
    program = machine.start("--nproc-per-node", "2", "--max-restarts", "3", "--no-python", "sh", "-c",
                            "echo x >> starts.$RANK; : > ready.$RANK; exec sleep 600", start_new_session=True)
    machine.wait_for_files("ready.0", "ready.1")
    kill_all(tree_of(program.pid)[::-1], signal.SIGTERM)
    result = program.wait()
    assert result.code == 143, str(result)
    assert "stopped by SIGTERM on " in result.stderr and "restart" not in result.stderr, str(result)
    assert [(machine.directory / f"starts.{rank}").read_text() for rank in (0, 1)] == ["x\n"] * 2


def test_other_hosts_get_the_signal_that_was_sent(hosts, directory, key):
    both = [start(hosts, node, "--key-file", key, "--no-python", sys.executable, COUNT, str(directory))
            for node in (0, 1)]
    wait_for_files(directory, "ready.*", 2)
    both[1].send_signal(signal.SIGINT)
    results = wait_all(both)
    assert [result.code for result in results] == [130, 130], as_text(results)
    assert got(directory, "SIGINT") == [1, 1] and got(directory, "SIGTERM") == [0, 0], as_text(results)


def test_sigterm_stops_the_job_whatever_else_does(machine):
    program = machine.start("--signals-to-handle", "SIGUSR1", "--max-restarts", "2", "--nproc-per-node", "2",
                            "--no-python", "sh", "-c", "touch ready.$RANK; exec sleep 600")
    machine.wait_for_files("ready.0", "ready.1")
    program.send_signal(signal.SIGTERM)
    result = program.wait()
    assert result.code == 143, str(result)
    assert "stopped by SIGTERM on " in result.stderr and "restart" not in result.stderr, str(result)


def test_workers_that_die_of_a_signal_that_was_passed_on_did_not_fail(machine):
    program = machine.start("--signals-to-handle", "SIGUSR1", "--max-restarts", "2", "--nproc-per-node", "2",
                            "--no-python", "sh", "-c", "touch ready.$RANK; exec sleep 600")
    machine.wait_for_files("ready.0", "ready.1")
    program.send_signal(signal.SIGINT)
    result = program.wait()
    assert result.code == 130, str(result)
    assert "stopped by SIGINT on " in result.stderr and "restart" not in result.stderr, str(result)


def test_a_signal_while_a_failed_attempt_is_being_stopped_does_not_hide_the_failed_rank(machine):
    # Rank 1 fails when rank 0 has its trap: one that dies of SIGTERM at once leaves nothing to be stopped.
    script = ("[ $RANK = 1 ] && { while [ ! -e ready ]; do sleep 0.02; done; exit 9; };"
              "trap 'touch told; while [ ! -e go ]; do sleep 0.02; done; exit 0' TERM; touch ready;"
              "while :; do sleep 0.02; done")
    program = machine.start("--nproc-per-node", "2", "--max-restarts", "3", "--no-python", "sh", "-c", script)
    machine.wait_for_files("told")
    program.send_signal(signal.SIGTERM)
    machine.start_program(["sleep", "0.3"]).wait()  # it is on its way to the coordinator, which tells nobody
    (machine.directory / "go").touch()
    result = program.wait()
    assert result.code == 143, str(result)
    assert "stopped by SIGTERM on " in result.stderr, str(result)
    assert "before that, rank 1 on " in result.stderr and "exited with code 9" in result.stderr, str(result)


def test_sigterm_while_what_a_successful_job_left_is_being_ended_leaves_success(machine):
    # What is left behind ignores SIGTERM, so that there is a second for a signal.
    left = "trap 'touch swept' TERM; touch left; while :; do sleep 0.02; done"
    program = machine.start("--no-python", "sh", "-c",
                            f"setsid sh -c \"{left}\" 2> /dev/null & while [ ! -e left ]; do sleep 0.02; done; exit 0")
    machine.wait_for_files("swept")
    program.send_signal(signal.SIGTERM)
    result = program.wait()
    assert result.code == 0, str(result)
    # Its `sleep` may run at that moment.
    assert re.fullmatch(r"ddprun: stopping (a process that a worker|2 processes that workers) left running on \S+: sh \(pid \d+\).*\nhint: .*\n",
                        result.stderr), str(result)


# ---- at a terminal

def start_shell(machine: Machine) -> Screen:
    screen = Screen(machine, ["bash", "--norc", "-i"])
    screen.type("PS1='nex''t> '\n")
    screen.wait_for("next> ")
    return screen


def worker_pids(machine: Machine, workers: int) -> list[int]:
    machine.wait_for_files(*(f"ready.{rank}" for rank in range(workers)))
    files = [machine.directory / f"ready.{rank}" for rank in range(workers)]
    return [int(wait_until("its number is written", file.read_text)) for file in files]


def states(pids: list[int]) -> set[str]:
    return {stat_of(pid)[0] for pid in pids}


def test_one_interrupt_ends_a_job_with_restarts_whose_worker_has_the_terminal(machine):
    for key, code in (("\x03", 130), ("\x1c", 131)):
        screen = Screen(machine, [machine.binary, "--max-restarts", "3", "--no-python", "sh", "-c",
                                  "ulimit -c 0; echo rea''dy; exec sleep 600"])
        screen.wait_for("ready")
        screen.type(key)
        assert screen.wait() == code, screen.text
        assert "restart" not in screen.text and "stopped by SIG" in screen.text, screen.text


def test_a_session_is_signalled_where_the_worker_that_has_the_terminal_is_in_it(machine):
    screen = Screen(machine, [machine.binary, "--no-python", sys.executable, COUNT, str(machine.directory)])
    machine.wait_for_files("ready.0")
    machine.start_program(["sleep", "0.2"]).wait()
    kill_all(session_of(screen.pid), signal.SIGUSR1)
    wait_until("it has it", lambda: all(got(machine.directory, "SIGUSR1", 1)))
    kill_all(session_of(screen.pid), signal.SIGTERM)
    assert screen.wait() == 143, screen.text
    assert got(machine.directory, "SIGUSR1", 1) == [1] and got(machine.directory, "SIGTERM", 1) == [1], screen.text


def test_an_interrupt_reaches_several_workers_once(machine):
    screen = Screen(machine, [machine.binary, "--nproc-per-node", "2", "--no-python", sys.executable, COUNT,
                              str(machine.directory)])
    machine.wait_for_files("ready.0", "ready.1")
    screen.type("\x03")
    assert screen.wait() == 130, screen.text
    assert got(machine.directory, "SIGINT") == [1, 1], screen.text


def test_a_stop_at_the_terminal_stops_several_workers_and_fg_continues_them_once(machine):
    screen = start_shell(machine)
    screen.type(f"{machine.binary} --nproc-per-node 2 --no-python {sys.executable} {COUNT} {machine.directory}\n")
    pids = worker_pids(machine, 2)
    screen.type("\x1a")
    screen.wait_for("Stopped")
    wait_until("both are stopped", lambda: states(pids) == {"T"})
    screen.type("fg\n")
    wait_until("both go on", lambda: got(machine.directory, "SIGCONT") == [1, 1])
    screen.type("\x03")
    screen.wait_for("next> ", times=3)
    screen.type("exit $?\n")
    assert screen.wait() == 130, screen.text
    assert got(machine.directory, "SIGINT") == [1, 1] and got(machine.directory, "SIGCONT") == [1, 1], screen.text


def test_a_hang_up_reaches_the_worker_that_has_the_terminal_once(machine):
    """The kernel sends it to the group that has the terminal, and the shell to ddprun's."""
    screen = start_shell(machine)
    screen.type(f"{machine.binary} --no-python {sys.executable} {COUNT} {machine.directory}\n")
    machine.wait_for_files("ready.0")
    machine.start_program(["sleep", "0.2"]).wait()
    screen.hang_up()
    machine.wait_for_files("saved.0")
    assert got(machine.directory, "SIGHUP", 1) == [1]


# Builtins only: a shell that is in vfork() for a command when ^Z comes does not stop before that command is continued.
READER = "echo running; read go < asked; echo reading; read line; echo got $line\n"


@pytest.mark.parametrize("way", ["started-behind", "stopped-and-sent-behind"])
def test_a_job_from_the_background_gets_the_terminal_with_fg(machine, way):
    (machine.directory / "reader").write_text(READER)
    os.mkfifo(machine.directory / "asked")
    screen = start_shell(machine)
    screen.type(f"{machine.binary} --no-python sh reader{' &' if way == 'started-behind' else ''}\n")
    screen.wait_for("running")
    if way == "stopped-and-sent-behind":
        screen.type("\x1a")
        screen.wait_for("Stopped")
        screen.type("bg\n")
        screen.wait_for("reader &")
    screen.type("fg\n")
    screen.wait_for("sh reader", times=2 if way == "started-behind" else 4)  # the shell repeats the command
    machine.start_program(["sleep", "0.3"]).wait()
    (machine.directory / "asked").write_text("go\n")
    screen.wait_for("reading")
    screen.type("hello\n")
    screen.wait_for("got hello")
    screen.type("exit $?\n")
    assert screen.wait() == 0, screen.text
