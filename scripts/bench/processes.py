"""Starts commands under a time limit, finds the processes that belong to them, and reads what the kernel counts."""

import contextlib
import itertools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "DDPRUN_BENCH_RUN"  # in the environment of everything a command starts; tells its processes from others
FOLDER_PREFIX = "ddprun-bench-"
TIME_LIMIT = 60.0  # seconds; the default for one command
GRACE = 10.0  # seconds between the request to end and the kill

_numbers = itertools.count(1)


class Failed(Exception):
    """A run that gives no figure; the text says why in a few words."""


class Running:
    """One command, from its start to the end of its last process: `with Running(...) as run:`.

    Leaving the block ends what still runs. Nothing the command started outlives the block. The end is looked for
    without Popen.poll and Popen.wait: an interrupt within them may leave their lock held, and the next wait hangs.
    """

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, limit: float = TIME_LIMIT):
        self.mark = f"{identity()}-{next(_numbers)}"
        self.deadline = time.monotonic() + limit
        self._log = open(folder / f"{self.mark}.log", "w+b")
        self.started = time.monotonic_ns()
        try:
            self.process = subprocess.Popen(
                command, env={**environment, MARK: self.mark}, cwd=folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        except OSError as error:
            self._log.close()
            raise Failed(f"cannot start {command[0]}: {error.strerror}") from error

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_) -> None:
        try:
            if not self.has_ended():
                os.kill(self.process.pid, signal.SIGTERM)
                ended_within(self.process.pid, GRACE)
        finally:
            kill_marked(self.mark)
            self.process.wait()
            self._log.close()
            os.unlink(self._log.name)

    def wait(self) -> int:
        """Waits for the command's good end; returns the nanoseconds it took."""
        if not ended_within(self.process.pid, self.deadline - time.monotonic()):
            raise Failed("no end within the time limit")
        elapsed = time.monotonic_ns() - self.started
        status = self.exit_status()
        if status != 0:
            raise Failed(f"ended with {status}: {self.last_line()}")
        return elapsed

    def has_ended(self) -> bool:
        return ended_within(self.process.pid, 0)

    def exit_status(self) -> int:
        """Of a command that has ended: its exit code, or minus the signal. It stays to be reaped by __exit__."""
        end = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status

    def wait_until(self, condition, what: str) -> None:
        """Asks every 10 ms until `condition()` holds; fails when the command ends or its time is up."""
        while True:
            ended = self.has_ended()  # before asking: the last act of a command may be what we wait for
            if condition():
                return
            if ended:
                raise Failed(f"ended with {self.exit_status()} before {what}: {self.last_line()}")
            if time.monotonic() > self.deadline:
                raise Failed(f"time limit before {what}")
            time.sleep(0.01)

    def last_line(self) -> str:
        self._log.seek(0)
        lines = [line for line in self._log.read()[-4000:].decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:160] if lines else "it said nothing"

    def workers(self, program: list[str]) -> list[int]:
        """The processes that run `program`."""
        return [pid for pid in marked(self.mark) if _command_line(pid)[1:] == program[1:]
                and os.path.basename(_command_line(pid)[0]) == os.path.basename(program[0])]

    def launcher_processes(self, program: list[str]) -> list[int]:
        """All its processes but the workers; also what started the workers when that is a daemon (slurmstepd)."""
        workers = set(self.workers(program))
        front_ends = {_parent(pid) for pid in workers} - workers - {0, 1, os.getpid()}
        return sorted((set(marked(self.mark)) - workers) | front_ends)


@contextlib.contextmanager
def own_folder(parent: Path) -> Iterator[Path]:
    """A folder in `parent` for all of a benchmark. First what killed benchmarks left is removed; at the end, however it
    comes, every process is ended that this one started."""
    remove_leftovers(parent)
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{identity()}-", dir=parent,
                                     ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        finally:
            kill_own()


def interrupt_by_signals() -> None:
    """From now on a signal that asks for the end raises KeyboardInterrupt."""
    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def drop_output() -> None:
    """After the reader of standard output has gone: nothing is written at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def identity() -> str:
    """Names this process: its PID namespace and its id there. Other namespaces' processes may be visible here."""
    return f"{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}"


def remove_leftovers(parent: Path) -> None:
    """Ends the processes and removes the folders (in `parent`) of runs that were killed before they could."""
    for pid in _processes():
        mark = re.search(rb"(?:^|\0)" + MARK.encode() + rb"=([^\0]*)", _read(f"/proc/{pid}/environ"))
        if mark and _owner_is_gone(mark[1].decode(errors="replace")):
            _kill(pid)
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        if _owner_is_gone(folder.name.removeprefix(FOLDER_PREFIX)):
            shutil.rmtree(folder, ignore_errors=True)


def _owner_is_gone(mark: str) -> bool:
    owner = re.match(r"(\d+)-(\d+)-", mark)
    return (owner is not None and identity().startswith(f"{owner[1]}-") and not os.path.exists(f"/proc/{owner[2]}"))


def ended_within(pid: int, seconds: float) -> bool:
    """Waits for the end of a child without polling, so that the wait adds nothing to what is timed."""
    descriptor = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(max(0.0, seconds) * 1000))
    finally:
        os.close(descriptor)


def marked(mark: str) -> list[int]:
    """Living processes whose environment carries the mark."""
    return _with_variable(re.escape(mark))


def _with_variable(mark_pattern: str) -> list[int]:
    wanted = re.compile(rf"(?:^|\0){MARK}={mark_pattern}(?:\0|$)".encode())
    return [pid for pid in _processes() if wanted.search(_read(f"/proc/{pid}/environ"))]


def kill_marked(mark: str) -> None:
    _kill_all(re.escape(mark))


def kill_own() -> None:
    """Ends whatever this process started and no block ended: an interrupt may come while a command is being started."""
    _kill_all(re.escape(identity()) + r"-\d+")


def _kill_all(mark_pattern: str) -> None:
    """Until two looks in a row find none: a process that calls exec shows no environment for a moment."""
    deadline = time.monotonic() + GRACE
    empty_looks = 0
    while empty_looks < 2 and time.monotonic() < deadline:
        found = _with_variable(mark_pattern)
        for pid in found:
            _kill(pid)
        empty_looks = 0 if found else empty_looks + 1
        time.sleep(0.005)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def name_of(pid: int) -> str:
    return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()


def peak_kib(pid: int) -> int:
    """VmHWM: the most that was ever resident, pages shared with others included."""
    return _status_number(f"/proc/{pid}/status", "VmHWM")


def proportional_kib(pid: int) -> int:
    """Pss: resident now, each shared page divided by the number of its users."""
    return _status_number(f"/proc/{pid}/smaps_rollup", "Pss")


def switches(pids: list[int]) -> dict[tuple[int, int], tuple[int, int]]:
    """(process, thread) -> context switches so far: (voluntary, involuntary)."""
    counts = {}
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            status = f"/proc/{pid}/task/{thread}/status"
            counts[pid, int(thread)] = (_status_number(status, "voluntary_ctxt_switches"),
                                        _status_number(status, "nonvoluntary_ctxt_switches"))
    return counts


def _status_number(path: str, field: str) -> int:
    for line in _read(path).decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    return 0


def _parent(pid: int) -> int:
    stat = _read(f"/proc/{pid}/stat")
    return int(stat[stat.rfind(b")") + 1:].split()[1]) if stat else 0


def _command_line(pid: int) -> list[str]:
    return _read(f"/proc/{pid}/cmdline").decode(errors="replace").split("\0")[:-1] or [""]


def _read(path: str) -> bytes:
    """The file's bytes; none when the process has ended meanwhile or belongs to somebody else."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
