"""One machine, without namespaces: ddprun started as its user does, and a look at what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .hosts import Result, wait_for_result, wait_until
from .programs import temporary_folder

# A launcher around the tests must not be taken for the one under test.
FOREIGN = ("SLURM_", "PMI_", "PMIX_", "OMPI_", "PET_", "TORCHELASTIC_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_",
           "PYTHON_EXEC", "PYTHONUNBUFFERED", "VIRTUAL_ENV", "CONDA_PREFIX", "OMP_NUM_THREADS")


class Program:
    """A started program; its output is read to the end by `wait`."""

    def __init__(self, command: Sequence[str], popen: subprocess.Popen[str]) -> None:
        self.command = command
        self.popen = popen
        self.pid = popen.pid

    def send_signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def wait(self, text: str | None = None, timeout: float = 180.0) -> Result:
        return wait_for_result(self.command, self.popen, self.popen.kill, timeout, text)


class Machine:
    """`directory` is empty for the test, and so is TMPDIR, in which leftovers are seen."""

    def __init__(self, binary: Path, directory: Path) -> None:
        self.binary = str(binary)
        self.directory = directory
        self.temporary = temporary_folder()
        self.marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        name, value = self.marker.split("=")
        self.environment |= {name: value, "TMPDIR": str(self.temporary)}

    def start(self, *arguments: str, env: Mapping[str, str] | None = None, **popen) -> Program:
        return self.start_program([self.binary, *arguments], env=env, **popen)

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, **popen) -> Result:
        return self.start(*arguments, env=env, **popen).wait()

    def shell(self, script: str, env: Mapping[str, str] | None = None) -> Result:
        """A line of shell in which $ddprun is the program under test."""
        return self.start_program(["sh", "-c", script], env={"ddprun": self.binary, **(env or {})}).wait()

    def start_program(self, command: Sequence[str], env: Mapping[str, str] | None = None, **popen) -> Program:
        environment = {name: value for name, value in (self.environment | dict(env or {})).items()
                       if value is not None}
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                    "cwd": self.directory} | popen
        return Program(command, subprocess.Popen(command, env=environment, text=True, **settings))

    def wait_for_files(self, *names: str) -> None:
        wait_until(f"{', '.join(names)} exist", lambda: all((self.directory / name).exists() for name in names))

    def processes(self) -> list[str]:
        """Command lines of everything this test has started and that still runs."""
        return [line for _, line in self._found()]

    def _found(self) -> Iterator[tuple[str, str]]:
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if self.marker.encode() in Path(f"/proc/{entry}/environ").read_bytes():
                    yield entry, Path(f"/proc/{entry}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue  # gone meanwhile

    def where_they_are(self) -> str:
        """For a test that failed: each process that still runs, with what it waits for."""
        said = []
        for pid, line in self._found():
            with contextlib.suppress(OSError):  # gone meanwhile
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                said.append(f"pid {pid}, state {state}, {Path(f'/proc/{pid}/wchan').read_text()}: {line[:200]}")
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                said.append(subprocess.run(["eu-stack", "-p", pid], capture_output=True, text=True, timeout=20).stdout)
        return "\n".join(said)

    def check_nothing_is_left(self) -> None:
        try:
            wait_until("all processes of this test are gone", lambda: not self.processes())
        finally:
            for pid, _ in self._found():  # of a test that failed
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        assert list(self.temporary.iterdir()) == []


class Screen:
    """A program on a terminal of its own, whose leader it is as a shell would make it."""

    def __init__(self, machine: Machine, command: Sequence[str]) -> None:
        self.text = ""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.chdir(machine.directory)
            os.execvpe(command[0], list(command), machine.environment)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + 120
        while self.text.count(text) < times:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} never came; the screen shows\n{self.text}")

    def hang_up(self) -> None:
        """The terminal is closed under the program, which ends of it."""
        os.close(self._master)
        os.waitpid(self.pid, 0)

    def wait(self) -> int:
        """Reads to the end; the exit code as a shell tells it."""
        deadline = time.monotonic() + 120
        while self._read(deadline - time.monotonic()):
            pass
        os.close(self._master)
        if time.monotonic() > deadline:
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 128 - code if code < 0 else code

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False  # the last process has closed the terminal
        self.text += data.decode(errors="replace")
        return bool(data)


def python_program(text: str) -> list[str]:
    return ["--no-python", sys.executable, "-c", text]
