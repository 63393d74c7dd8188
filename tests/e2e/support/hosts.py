"""Several hosts on one machine.

Everything lives in one PID namespace, whose first process ends when it loses its standard input: when the test
run ends, however it ends, the kernel kills every process of every host. Network and mount namespaces have no
names and no traces outside, so they disappear with the last process in them. Nothing can be left behind but the
run directory, which the next run removes (run_directory.py), and any number of runs can go on at once.

Each host has its own network, host name, /tmp, /run, /dev/shm, /etc/hosts and /etc/resolv.conf. The rest of the
file system, HOME above all, is the same on all hosts, as on a cluster.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from . import run_directory

SANITIZERS = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")  # for a ddprun that is built with them
FABRIC = "10.77.0."
MANAGEMENT = "10.78.0."
HELD_OUTPUT = 20.0  # seconds in which a killed program's output ends
FIRST_PROCESS = Path(__file__).with_name("first_process.py")
HOST_SETUP = Path(__file__).with_name("host_setup.sh")

Answer = TypeVar("Answer")


def why_impossible() -> str | None:
    """The sentence to skip with, or nothing when hosts can be made here."""
    if os.geteuid() != 0:
        return "making test hosts (network namespaces) needs root"
    for program in ("unshare", "nsenter", "ip", "mount"):
        if shutil.which(program) is None:
            return f"making test hosts needs the program {program}"
    probe = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount", "--net", "--uts", "--mount-proc", "true"],
        capture_output=True, text=True)
    if probe.returncode != 0:
        return f"this machine allows no new namespaces: {probe.stderr.strip()}"
    return None


def wait_until(what: str, look: Callable[[], Answer], seconds: float = 120.0, pause: float = 0.02) -> Answer:
    """Looks until the answer is true; the deadline is there to end a broken test, not to measure."""
    deadline = time.monotonic() + seconds
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting until {what}")
        time.sleep(pause)


def is_full(process) -> bool:
    """Whether its standard output, a pipe that nobody reads, takes no more."""
    writing = os.open(f"/proc/self/fd/{process.popen.stdout.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        return not select.select([], [writing], [], 0)[1]
    finally:
        os.close(writing)


@dataclasses.dataclass
class Result:
    command: Sequence[str]
    code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr

    def __str__(self) -> str:
        return (f"$ {' '.join(self.command)}\nexit code {self.code}\n"
                f"--- stdout\n{self.stdout}--- stderr\n{self.stderr}---")


def wait_for_result(command: Sequence[str], popen: subprocess.Popen[str], kill: Callable[[], None], timeout: float,
                    text: str | None = None) -> Result:
    """Reads to the end of a program's output; one that takes longer than `timeout` seconds is a test failure."""
    try:
        stdout, stderr = popen.communicate(text, timeout=timeout)
        return Result(command, popen.returncode, stdout, stderr)
    except subprocess.TimeoutExpired:
        kill()
    try:
        stdout, stderr = popen.communicate(timeout=HELD_OUTPUT)
    except subprocess.TimeoutExpired as held:  # by a process that it has left
        stdout, stderr = ((part or b"").decode(errors="replace") for part in (held.stdout, held.stderr))
    raise AssertionError(f"still running after {timeout} s\n{Result(command, -1, stdout, stderr)}")


class Process:
    """A program on a host, in a session of its own."""

    def __init__(self, command: Sequence[str], popen: subprocess.Popen[str]) -> None:
        self.command = command
        self.popen = popen
        self.pid = _child_of(popen)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def is_running(self) -> bool:
        return self.popen.poll() is None

    def wait(self, timeout: float = 120.0) -> Result:
        return wait_for_result(self.command, self.popen, self.kill, timeout)

    def freeze(self) -> None:
        self.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self.popen.pid}/stat")
        wait_until("nsenter has stopped too", lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")

    def thaw(self) -> None:
        """nsenter, which stops itself when its child is stopped, passes this on."""
        self.popen.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # which may lead no group yet
            os.killpg(self.pid, signal.SIGKILL)
        self.thaw()


class Host:
    def __init__(self, group: HostGroup, name: str, number: int) -> None:
        self.name = name
        self.address = f"{group.fabric}{number}"
        self.management_address = f"{MANAGEMENT}{number}"
        self.directory = group.directory / "hosts" / name
        self._group = group
        self._keeper: subprocess.Popen[str] | None = None
        self._keeper_pid = 0

    def start(self) -> None:
        self.directory.mkdir(parents=True)
        for name in ("hosts", "resolv.conf"):
            (self.directory / name).touch()
        self._keeper = subprocess.Popen(
            ["nsenter", f"--target={self._group.first_pid}", "--pid", "--mount", "unshare", "--net", "--uts",
             "--mount", "sh", str(HOST_SETUP), self.name, str(self.directory), *self._group.kept],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        _wait_for_ready(self._keeper, f"host {self.name}")
        self._keeper_pid = _child_of(self._keeper)
        self.check(["ip", "link", "set", "lo", "up"])
        self._group.plug_in(self)

    def connect(self, interface: str, address: str, switch: str) -> None:
        """A cable from a new interface to a switch; without one it leads nowhere, and the interface is down."""
        port = f"{interface}-{self.name}"
        self._group.switch("link", "add", port, "type", "veth", "peer", "name", interface, "netns",
                           str(self._keeper_pid))
        self._group.switch("link", "set", port, *(["master", switch] if switch else []), "up")
        self.check(["ip", "address", "add", f"{address}/24", "dev", interface])
        if switch:
            self.check(["ip", "link", "set", interface, "up"])

    def popen(self, command: Sequence[str], *, env: Mapping[str, str] | None = None,
              cwd: str | Path | None = None, stdin: int = subprocess.DEVNULL) -> Process:
        environment = self._group.environment | dict(env or {})
        directory = str(cwd or environment["HOME"])
        enter = ["nsenter", f"--target={self._keeper_pid}", "--pid", "--net", "--uts", "--mount",
                 "env", "-C", directory, "setsid", "-w"]
        popen = subprocess.Popen(enter + list(command), env=environment, text=True, stdin=stdin,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process = Process(command, popen)
        self._group.started.append(process)
        return process

    def run(self, command: Sequence[str], *, timeout: float = 120.0, env: Mapping[str, str] | None = None,
            cwd: str | Path | None = None) -> Result:
        return self.popen(command, env=env, cwd=cwd).wait(timeout)

    def check(self, command: Sequence[str], **arguments) -> str:
        result = self.run(command, **arguments)
        assert result.code == 0, str(result)
        return result.stdout

    def attach(self, command: Sequence[str], cwd: str | Path) -> int:
        """Runs a program on the caller's own terminal."""
        enter = ["nsenter", f"--target={self._keeper_pid}", "--pid", "--net", "--uts", "--mount",
                 "env", "-C", str(cwd)]
        return subprocess.call(enter + list(command), env=self._group.environment)

    def processes(self) -> dict[int, str]:
        """The command lines of what runs on it, without the process that keeps it and what has ended already."""
        own = os.stat(f"/proc/{self._keeper_pid}/ns/net").st_ino
        lines = {pid: _command_line(pid) for pid in _processes() if pid != self._keeper_pid and _network_of(pid) == own}
        return {pid: line for pid, line in lines.items() if line}

    def unplug(self) -> None:
        """Its cable comes loose at the switch: nothing arrives any more, and nobody tells."""
        self._group.switch("link", "set", f"fabric0-{self.name}", "nomaster")

    def plug_in_again(self) -> None:
        self._group.switch("link", "set", f"fabric0-{self.name}", "master", "switch")

    def add_address(self, address: str) -> None:
        self.check(["ip", "address", "add", f"{address}/24", "dev", "fabric0"])

    def remove_address(self, address: str) -> None:
        self.check(["ip", "address", "del", f"{address}/24", "dev", "fabric0"])

    def write_names(self, lines: Iterable[str]) -> None:
        # In place: the file is bind-mounted over /etc/hosts, and a new file would not be seen there.
        (self.directory / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")


class HostGroup:
    """The hosts, their switch, and what they share. Use as a context manager."""

    def __init__(self, names: Sequence[str], kept: Iterable[str | Path] = (),
                 path: Iterable[str] = (), fabric: str = FABRIC) -> None:
        """`kept`: paths that stay visible on the hosts if they are under /tmp; `path`: put before PATH; `fabric`: the
        first three numbers of the hosts' addresses."""
        self.fabric = fabric
        self._run_directory = run_directory.RunDirectory()
        self.directory = self._run_directory.path
        self.home = self.directory / "home"
        self.home.mkdir()
        self.kept = sorted({str(item) for item in kept if Path(item).is_relative_to("/tmp")})
        self.environment = {
            "PATH": ":".join([*path, "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]),
            "HOME": str(self.home), "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh", "LANG": "C.UTF-8",
            "TERM": os.environ.get("TERM", "dumb")} | {
                name: value for name, value in os.environ.items() if name in SANITIZERS}
        self.hosts = {name: Host(self, name, number) for number, name in enumerate(names, start=1)}
        self._first: subprocess.Popen[str] | None = None
        self.first_pid = 0
        self.started: list[Process] = []

    def __enter__(self) -> HostGroup:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def start(self) -> None:
        self._first = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--net", "--mount-proc",
             sys.executable, str(FIRST_PROCESS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        _wait_for_ready(self._first, "the group of hosts")
        self.first_pid = _child_of(self._first)
        self.add_switch("switch")
        for host in self.hosts.values():
            host.start()
        self.use_plain_names()

    def stop(self) -> None:
        if self._first is not None:
            self._first.stdin.close()
            self._first.wait()
        self._run_directory.remove()

    def kill_started(self) -> None:
        """Ends what a failed test may have left, so that the next one finds free ports."""
        for process in self.started:
            if process.is_running():
                process.kill()
                process.wait()
        self.started.clear()

    def add_switch(self, name: str) -> None:
        self.switch("link", "add", name, "type", "bridge")
        self.switch("link", "set", name, "up")

    def plug_in(self, host: Host) -> None:
        """A cable from the host's fabric0 to the switch, and one from its management0 to nowhere."""
        host.connect("fabric0", host.address, "switch")
        host.connect("management0", host.management_address, "")

    @contextlib.contextmanager
    def fast_network(self, interface: str, prefix: str) -> Iterator[None]:
        """A second network that reaches all hosts, on an interface of a site's name (hsn0, ib0)."""
        self.add_switch(interface)
        for number, host in enumerate(self.hosts.values(), start=1):
            host.connect(interface, f"{prefix}{number}", interface)
        try:
            yield
        finally:
            for host in self.hosts.values():
                self.switch("link", "del", f"{interface}-{host.name}")
            self.switch("link", "del", interface)

    def use_plain_names(self) -> None:
        """Every name is the host's address on the fabric."""
        for host in self.hosts.values():
            host.write_names(f"{other.address} {other.name}" for other in self.hosts.values())

    @contextlib.contextmanager
    def own_name_on_loopback(self) -> Iterator[None]:
        """As Debian's installer writes it: a host's own name is 127.0.1.1 on that host."""
        for host in self.hosts.values():
            host.write_names(f"{'127.0.1.1' if other is host else other.address} {other.name}"
                             for other in self.hosts.values())
        try:
            yield
        finally:
            self.use_plain_names()

    @contextlib.contextmanager
    def unreachable_network_first(self) -> Iterator[None]:
        """Names lead to an unreachable management network first and to the fabric second."""
        try:
            self._use_management_network()
            yield
        finally:
            for host in self.hosts.values():
                host.check(["ip", "link", "set", "management0", "down"])
            self.use_plain_names()

    def _use_management_network(self) -> None:
        for host in self.hosts.values():
            host.check(["ip", "link", "set", "management0", "up"])
            for other in self.hosts.values():  # with a known neighbour, what is sent is lost without an error
                if other is not host:
                    host.check(["ip", "neighbour", "replace", other.management_address, "dev", "management0",
                                "lladdr", "02:00:00:00:00:01", "nud", "permanent"])
            host.write_names([f"{other.management_address} {other.name}" for other in self.hosts.values()]
                             + [f"{other.address} {other.name}" for other in self.hosts.values()])

    def processes_with(self, marker: str) -> list[int]:
        """Processes of any host that have `marker` in their environment, zombies not counted."""
        return [pid for pid in _processes() if _environment_has(pid, marker.encode())]

    def switch(self, *arguments: str) -> None:
        subprocess.run(["nsenter", f"--target={self.first_pid}", "--net", "ip", *arguments], check=True)


def _processes() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _network_of(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0  # gone meanwhile


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def _environment_has(pid: int, marker: bytes) -> bool:
    try:
        return marker in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # gone meanwhile


def _wait_for_ready(process: subprocess.Popen[str], what: str) -> None:
    line = process.stdout.readline()
    if line.strip() != "ready":
        raise RuntimeError(f"cannot start {what}: {line.strip() or 'see the message above'}")


def _child_of(parent: subprocess.Popen[str]) -> int:
    """unshare and nsenter stay outside as parents of the one process inside."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")

    def look() -> int:
        found = children.read_text().split() if children.exists() else []
        if not found and parent.poll() is not None:
            return parent.pid  # it has already ended; there is nothing to signal any more
        return int(found[0]) if found else 0

    return wait_until("a process is inside its namespace", look)
