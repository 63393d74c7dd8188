"""What ddprun writes where the user told it to holds nothing up, and goes nowhere else: each option with each kind of bad file."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import file_systems
from support.hosts import wait_until

pytestmark = pytest.mark.skipif(file_systems.why_impossible() is not None, reason=str(file_systems.why_impossible()))

SHELL = ("--no-python", "sh", "-c")
STRANGER = 4711
FOREIGN = f"it belongs to user {STRANGER}, and all users can write to its folder"


def fill(pipe: int) -> None:
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x")
    os.set_blocking(pipe, True)


@contextlib.contextmanager
def stalled_pipe(path: Path) -> Iterator[None]:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    fill(writer)
    yield
    os.close(writer)
    os.close(reader)


def sticky(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@contextlib.contextmanager
def bad_file(kind: str, directory: Path) -> Iterator[Path]:
    """A path whose file cannot be written, for the reason that REASONS has."""
    path = directory / "x.prom"
    if kind == "pipe without a reader":
        os.mkfifo(path)
        yield path
    elif kind == "pipe that is not read":
        with stalled_pipe(path):
            yield path
    elif kind == "link of another user":
        (directory / "victim").write_text("mine\n")
        link = sticky(directory / "shared") / "x.prom"
        link.symlink_to(directory / "victim")
        os.lchown(link, STRANGER, STRANGER)
        yield link
        assert (directory / "victim").read_text() == "mine\n"
    elif kind == "pipe of another user":
        pipe = sticky(directory / "shared") / "x.prom"
        with stalled_pipe(pipe):
            os.chown(pipe, STRANGER, STRANGER)
            yield pipe
    elif kind == "folder":
        path.mkdir()
        yield path
    elif kind == "full device":
        yield Path("/dev/full")
    elif kind == "full disk":
        with file_systems.small(directory / "disk", full=True) as disk:
            yield disk / "x.prom"
    elif kind == "read-only":
        with file_systems.small(directory / "disk", read_only=True) as disk:
            yield disk / "x.prom"
    else:
        with file_systems.hanging(directory / "disk") as disk:
            yield disk / "x.prom"


REASONS = {
    "pipe without a reader": "no process has this named pipe open to read",
    "pipe that is not read": "its reader does not read",
    "link of another user": "a symbolic link leads there; " + FOREIGN,
    "pipe of another user": FOREIGN,
    "folder": "is a directory",
    "full device": "no space left on device",
    "full disk": "no space left on device",
    "read-only": "read-only file system",
    "hanging": "its file system does not answer",
}
OF_A_JOB = {"--events": r"(the|\d+) events to", "--metrics": "the metrics to", "--report": "the report"}


@pytest.mark.parametrize("kind", REASONS)
def test_a_job_goes_on_without_a_file_that_cannot_be_written(machine, kind):
    for option, what in OF_A_JOB.items():
        folder = machine.directory / option
        folder.mkdir()
        with bad_file(kind, folder) as path:
            result = machine.run(option, str(path), *SHELL, "echo trained")
        said = [line for line in result.stderr.splitlines() if not line.startswith("hint: ")]
        assert (result.code, result.stdout) == (0, "trained\n") and len(said) == 1, (option, str(result))
        assert re.fullmatch(rf"ddprun: cannot write {what} \S+ on \S+: {REASONS[kind]}", said[0]), said
    machine.check_nothing_is_left()


@pytest.mark.parametrize("kind", ["pipe without a reader", "full device"])
def test_one_file_of_two_options_that_cannot_be_written_is_said_once(machine, kind):
    with bad_file(kind, machine.directory) as path:
        result = machine.run("--events", str(path), "--report", str(path), *SHELL, "echo trained")
    said = [line for line in result.stderr.splitlines() if not line.startswith("hint: ")]
    assert (result.code, result.stdout) == (0, "trained\n") and len(said) == 1, str(result)
    assert re.fullmatch(rf"ddprun: cannot write the events and the report to \S+ on \S+: {REASONS[kind]}", said[0]), said


@pytest.mark.parametrize("kind", ["pipe without a reader", "pipe that is not read", "hanging"])
@pytest.mark.parametrize("option", OF_A_JOB)
def test_workers_are_restarted_and_sigterm_ends_the_job_while_a_file_is_waited_for(machine, kind, option):
    script = 'touch $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1; trap "exit 0" TERM; while :; do sleep 0.05; done'
    with bad_file(kind, machine.directory) as path:
        started = machine.start("--max-restarts", "1", option, str(path), *SHELL, script)
        machine.wait_for_files("1")
        started.send_signal(signal.SIGTERM)
        result = started.wait()
    assert result.code == 143 and REASONS[kind] in result.stderr, str(result)
    machine.check_nothing_is_left()


def test_events_on_a_console_that_is_not_read_hold_nothing_up(machine):
    reader, writer = os.pipe()
    fill(writer)
    script = 'touch $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1; exec sleep 600'
    started = machine.start("--max-restarts", "1", "--event-log-handler", "console", *SHELL, script, stderr=writer)
    machine.wait_for_files("1")
    shown = machine.run("--status")
    assert re.search(r"attempt 1|restart 1", shown.stdout), str(shown)
    started.send_signal(signal.SIGTERM)
    assert started.wait().code == 143
    os.close(reader)
    os.close(writer)


def test_a_reader_that_comes_late_gets_all_events(machine):
    os.mkfifo(machine.directory / "pipe")
    started = machine.start("--events", "pipe", *SHELL, "touch up; until [ -e go ]; do sleep 0.01; done")
    machine.wait_for_files("up")
    with (machine.directory / "pipe").open() as pipe:
        (machine.directory / "go").touch()
        events = pipe.read()
    assert started.wait().stderr == "" and '"begin"' in events.splitlines()[0] and '"end"' in events.splitlines()[-1], events


@pytest.mark.parametrize("option", ["--metrics", "--report"])
def test_what_another_user_plants_under_names_that_can_be_guessed_is_not_used(machine, option):
    shared = sticky(machine.directory / "shared")
    result = machine.shell(f"mkfifo shared/x.prom.$$.tmp; chown {STRANGER} shared/x.prom.$$.tmp; "
                           f"exec $ddprun {option} shared/x.prom --no-python true")
    assert (result.code, result.stderr) == (0, "") and (shared / "x.prom").read_text(), str(result)
    assert len(list(shared.iterdir())) == 2


@pytest.mark.parametrize("option, kind, code, said", [
    ("--logs", "read-only", 2, r"--logs cannot write to \S+ on \S+: read-only file system"),
    ("--logs", "pipe without a reader", 2, r"--logs \S+ on \S+ is not a folder"),
    ("--logs", "hanging", 125, r"--logs cannot write to \S+ on \S+: its file system does not answer"),
    ("--log-dir", "hanging", 125, r"--log-dir cannot write to \S+ on \S+: its file system does not answer"),
    ("--logs", "link of another user", 2, r"--logs \S+ on \S+ is not a folder"),
])
def test_a_log_folder_that_cannot_be_used_is_a_sentence_before_the_start(machine, option, kind, code, said):
    with bad_file(kind, machine.directory) as path:
        result = machine.run(option, str(path), *(["--redirects", "3"] if option == "--log-dir" else []), *SHELL, "echo trained")
    assert result.code == code and result.stdout == "" and re.search(f"^ddprun: {said}$", result.stderr, re.MULTILINE), str(result)


def test_a_log_folder_of_another_user_in_a_shared_one_is_not_used(machine):
    planted = sticky(machine.directory / "shared") / "7"
    planted.mkdir()
    os.chown(planted, STRANGER, STRANGER)
    result = machine.run("--rdzv-id", "7", "--logs", "shared", *SHELL, "true")
    assert result.code != 0 and re.search(f"cannot use the log folder \\S+/shared/7: {FOREIGN}", result.stderr), str(result)
    assert not list(planted.iterdir())


COMMANDS = {
    "capture": lambda path: ("--capture", str(path)),
    "picture": lambda path: ("--topology", "node:2 core:2 pu:1", f"--dry-run=svg", str(path)),
    "timeline": lambda path: ("--timeline", "events", "-o", str(path)),
}


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_why_it_cannot_write_its_file(machine, command, kind):
    machine.run("--events", "events", *SHELL, "true")
    with bad_file(kind, machine.directory) as path:
        if command == "picture":
            if kind == "full device":
                pytest.skip("its name does not end in .svg")
            if kind != "hanging" and (path.is_symlink() or path.exists()):
                path.rename(path.with_suffix(".svg"))
            path = path.with_suffix(".svg")
        result = machine.run(*COMMANDS[command](path))
    said = f"cannot write \\S+: {REASONS[kind]}"
    if command == "capture" and kind == "link of another user":
        said = r"--capture would overwrite \S+, which is not a capture"
    assert result.code != 0 and re.search(f"^ddprun: {said}$", result.stderr, re.MULTILINE), str(result)


def metrics_of(path: Path) -> dict[str, str]:
    """The value of ddprun_running by job."""
    return dict(re.findall(r'^ddprun_running\{job="([^"]+)"\} (\d)$', path.read_text() if path.exists() else "", re.MULTILINE))


def test_a_running_job_stays_in_a_metrics_file_that_another_one_uses_too(machine):
    metrics = machine.directory / "site.prom"
    wait = "until [ -e {} ]; do sleep 0.01; done"
    first = machine.start("--rdzv-id", "one", "--metrics", str(metrics), *SHELL, wait.format("stop.one"))
    wait_until("the first is there", lambda: "one" in metrics_of(metrics))
    second = machine.start("--rdzv-id", "two", "--metrics", str(metrics), *SHELL, wait.format("stop.two"))
    wait_until("both are there", lambda: metrics_of(metrics) == {"one": "1", "two": "1"})
    (machine.directory / "stop.two").touch()
    assert second.wait().code == 0
    assert metrics_of(metrics) == {"one": "1", "two": "0"}
    text = metrics.read_text()
    assert len(re.findall("^# TYPE ddprun_running ", text, re.MULTILINE)) == 1, text
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert machine.run("--rdzv-id", "three", "--metrics", str(metrics), *SHELL, "true").code == 0
    assert metrics_of(metrics) == {"three": "0"}


def test_six_jobs_that_use_one_metrics_file_at_once_all_stay_in_it(machine):
    metrics = machine.directory / "site.prom"
    jobs = [machine.start("--rdzv-id", f"job{i}", "--metrics", str(metrics), *SHELL, "until [ -e stop ]; do sleep 0.1; done")
            for i in range(6)]
    wait_until("all are there", lambda: metrics_of(metrics) == {f"job{i}": "1" for i in range(6)})
    (machine.directory / "stop").touch()
    assert {job.wait().code for job in jobs} == {0}
