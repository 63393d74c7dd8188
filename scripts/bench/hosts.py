"""Several hosts on one machine: each its own network, host name and /etc/hosts, joined by a bridge.

Every namespace lives as long as a process of ours that reads from us, and has no name. When the benchmark ends, however
it ends, these processes read the end of the pipe, and the kernel takes the namespaces, links and bridge away.
"""

import os
import shutil
import subprocess
from pathlib import Path

from processes import Failed

SUBNET = "10.213.0"
TIME_LIMIT = 20  # seconds for one set-up command

_HOLD = "echo held; exec cat > /dev/null"


def why_impossible() -> str | None:
    """The reason, or nothing where hosts can be made."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    absent = [program for program in ("unshare", "nsenter", "ip", "mount") if shutil.which(program) is None]
    return f"hosts need the program {absent[0]}" if absent else None


class Hosts:
    """`with Hosts(4, folder) as hosts:`; `hosts.enter(i)` is what goes before a command to run it on host i."""

    def __init__(self, count: int, folder: Path):
        self.count = count
        self._holders: list[subprocess.Popen] = []
        self._hosts_file = folder / "hosts"
        self._switch = 0

    def address(self, index: int) -> str:
        return f"{SUBNET}.{index + 1}"

    def name(self, index: int) -> str:
        return f"node{index + 1}"

    def enter(self, index: int) -> list[str]:
        return ["nsenter", "--target", str(self._holders[index].pid), "--net", "--uts", "--mount", "--"]

    def cut_off(self, index: int) -> None:
        """Nothing reaches the host or leaves it any more, and nobody is told."""
        self._in_switch("set", _port(index), "down")

    def connect_again(self, index: int) -> None:
        self._in_switch("set", _port(index), "up")

    def __enter__(self) -> "Hosts":
        lines = [f"{self.address(index)} {self.name(index)}" for index in range(self.count)]
        self._hosts_file.write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")
        try:
            for index in range(self.count):
                self._hold(f"hostname {self.name(index)} && mount --bind '{self._hosts_file}' /etc/hosts && {_HOLD}")
            self._switch = self._hold(_HOLD)
            self._in_switch("add", "bridge", "up", "type", "bridge")
            for index in range(self.count):
                self._connect(index)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for holder in self._holders:
            holder.stdin.close()
        for holder in self._holders:
            holder.stdout.close()
            holder.wait(timeout=TIME_LIMIT)

    def _hold(self, script: str) -> int:
        """Starts a process in fresh namespaces; returns its id once it is in place."""
        holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", script], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self._holders.append(holder)
        said = holder.stdout.readline().strip()
        if said != "held":
            raise Failed(f"cannot make a host: {said}")
        return holder.pid

    def _connect(self, index: int) -> None:
        port = _port(index)
        self._in_switch("add", port, "type", "veth", "peer", "name", "eth0", "netns", str(self._holders[index].pid))
        self._in_switch("set", port, "master", "bridge", "up")
        for words in (f"address add {self.address(index)}/24 dev eth0", "link set eth0 up", "link set lo up"):
            _run([*self.enter(index), "ip", *words.split()])

    def _in_switch(self, *words: str) -> None:
        _run(["nsenter", "--target", str(self._switch), "--net", "--", "ip", "link", *words])


def _port(index: int) -> str:
    """The switch's end of the cable to a host."""
    return f"port{index + 1}"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failed(f"cannot connect the hosts: {(done.stderr.strip() or 'no reason given').splitlines()[0]}")
