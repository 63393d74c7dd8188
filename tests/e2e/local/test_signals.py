"""Signals to ddprun: what workers get, the exit code, and that nothing is left."""

from __future__ import annotations

import signal
import time

import pytest

from support.hosts import wait_until
from support.machine import Machine, Program

# Notes every signal in a file of its rank; the ones that ask to stop end it with 0.
CATCHER = """
for name in TERM INT HUP QUIT; do trap "echo $name >> got.$RANK; exit 0" $name; done
for name in USR1 USR2 ALRM; do trap "echo $name >> got.$RANK" $name; done
touch ready.$RANK; while :; do sleep 0.02; done
"""
WORKERS = ("--nproc-per-node", "2", "--no-python", "sh", "-c")


def start_catchers(machine: Machine, *options: str, **popen) -> Program:
    program = machine.start(*options, *WORKERS, CATCHER, **popen)
    machine.wait_for_files("ready.0", "ready.1")
    return program


def got(machine: Machine) -> list[str]:
    files = [machine.directory / f"got.{rank}" for rank in (0, 1)]
    return [file.read_text() if file.exists() else "" for file in files]


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
def test_a_request_to_stop_reaches_every_worker_once(machine, name):
    program = start_catchers(machine)
    number = signal.Signals["SIG" + name]
    program.send_signal(number)
    result = program.wait()
    assert result.code == 128 + number, str(result)
    assert got(machine) == [f"{name}\n"] * 2
    assert result.stderr.startswith(f"ddprun: stopped by SIG{name} on ") and result.stderr.count("\n") == 1, str(result)


@pytest.mark.parametrize("name", ["USR1", "USR2", "ALRM"])
def test_other_signals_are_passed_on_and_stop_nothing(machine, name):
    program = start_catchers(machine)
    program.send_signal(signal.Signals["SIG" + name])
    wait_until("both have it", lambda: got(machine) == [f"{name}\n"] * 2)
    program.send_signal(signal.SIGTERM)
    assert program.wait().code == 143
    assert got(machine) == [f"{name}\nTERM\n"] * 2


def test_signals_to_handle_changes_which_signals_stop(machine):
    script = "trap 'touch int.$RANK' INT; trap 'exit 0' USR1; touch ready.$RANK; while :; do sleep 0.02; done"
    program = machine.start("--signals-to-handle", "SIGUSR1", *WORKERS, script)
    machine.wait_for_files("ready.0", "ready.1")
    program.send_signal(signal.SIGINT)
    machine.wait_for_files("int.0", "int.1")
    program.send_signal(signal.SIGUSR1)
    result = program.wait()
    assert result.code == 128 + signal.SIGUSR1, str(result)
    assert "stopped by SIGUSR1" in result.stderr, str(result)


def test_a_signal_that_comes_too_late_changes_nothing(machine):
    """Passed on to workers that still run, it ends them (138); after that it meets a ddprun that is leaving (0)."""
    program = machine.start(*WORKERS, "touch ready.$RANK; while [ ! -e end ]; do sleep 0.02; done")
    machine.wait_for_files("ready.0", "ready.1")
    (machine.directory / "end").touch()
    while program.popen.poll() is None:
        program.send_signal(signal.SIGUSR1)
        # Without a pause LeakSanitizer, whose SIGSTOP comes after every SIGUSR1, stops ddprun late or never.
        time.sleep(0.0005)
    assert program.wait().code in (0, 128 + signal.SIGUSR1)


def test_a_second_interrupt_hurries(machine):
    script = "trap '' INT TERM; touch ready.$RANK; while :; do sleep 0.1; done"
    program = machine.start("--shutdown-timeout", "600", *WORKERS, script)
    machine.wait_for_files("ready.0", "ready.1")
    program.send_signal(signal.SIGINT)
    # Signals closer together than this are one (a terminal and a launcher deliver twice).
    machine.start_program(["sleep", "0.3"]).wait()
    program.send_signal(signal.SIGINT)
    result = program.wait()
    assert result.code == 130, str(result)
    assert "SIGINT again on " in result.stderr and "killing the remaining processes" in result.stderr, str(result)


def test_sigterm_at_any_moment_of_the_start(machine):
    for delay in range(0, 60, 4):
        program = machine.start("--nproc-per-node", "4", "--no-python", "sleep", "600")
        machine.start_program(["sleep", f"{delay / 1000}"]).wait()
        program.send_signal(signal.SIGTERM)
        # Before it takes over the signal the default action ends it.
        assert program.wait().code in (143, -signal.SIGTERM)


def test_sigterm_between_attempts(machine):
    """Workers fail at once and for ever, so that most moments lie between two attempts."""
    for _ in range(5):
        program = machine.start("--nproc-per-node", "2", "--max-restarts", "1000000",
                                "--restart-policy", "always", "--no-python", "sh", "-c", "touch ready; exit 1")
        machine.wait_for_files("ready")
        program.send_signal(signal.SIGTERM)
        result = program.wait()
        assert result.code == 143, str(result)
        assert "stopped by SIGTERM" in result.stderr, str(result)
        (machine.directory / "ready").unlink()


def test_a_killed_ddprun_leaves_no_process_and_no_file(machine):
    script = "setsid sleep 600 & sleep 600 & touch ready.$RANK; wait"
    program = machine.start(*WORKERS, script)
    machine.wait_for_files("ready.0", "ready.1")
    program.send_signal(signal.SIGKILL)
    assert program.wait().code == -signal.SIGKILL
    wait_until("all are gone", lambda: not machine.processes())
    wait_until("its folder is gone", lambda: not list(machine.temporary.iterdir()))


def test_nohup_is_obeyed(machine):
    script = "touch ready; while [ ! -e stop ]; do sleep 0.05; done; grep SigIgn /proc/$$/status"
    program = machine.start_program(["nohup", machine.binary, "--no-python", "sh", "-c", script])
    machine.wait_for_files("ready")
    program.send_signal(signal.SIGHUP)
    (machine.directory / "stop").touch()
    result = program.wait()
    assert result.code == 0, str(result)
    assert int(result.stdout.split("SigIgn:")[1].split()[0], 16) & 1, "the worker ignores SIGHUP too"
