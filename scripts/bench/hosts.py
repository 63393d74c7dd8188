"""Several hosts on one machine: each its own network, host name and /etc/hosts, joined by a bridge.

Every namespace lives as long as a process of ours that reads from us, and has no name. When the benchmark ends, however
it ends, these processes read the end of the pipe, and the kernel takes the namespaces, links and bridge away.
"""

import subprocess
from pathlib import Path

from processes import Failed

SUBNET = "10.213.0"
TIME_LIMIT = 20  # seconds for one set-up command

_HOLD = "echo held; exec cat > /dev/null"


class Hosts:
    """`with Hosts(4, folder) as hosts:`; `hosts.enter(i)` is what goes before a command to run it on host i."""

    def __init__(self, count: int, folder: Path):
        self.count = count
        self._holders: list[subprocess.Popen] = []
        self._hosts_file = folder / "hosts"

    def address(self, index: int) -> str:
        return f"{SUBNET}.{index + 1}"

    def enter(self, index: int) -> list[str]:
        return ["nsenter", "--target", str(self._holders[index].pid), "--net", "--uts", "--mount", "--"]

    def __enter__(self) -> "Hosts":
        lines = [f"{self.address(index)} node{index + 1}" for index in range(self.count)]
        self._hosts_file.write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")
        try:
            for index in range(self.count):
                self._hold(f"hostname node{index + 1} && mount --bind '{self._hosts_file}' /etc/hosts && {_HOLD}")
            switch = self._hold(_HOLD)
            _run(["nsenter", "--target", str(switch), "--net", "--",
                  "ip", "link", "add", "bridge", "up", "type", "bridge"])
            for index in range(self.count):
                self._connect(index, switch)
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

    def _connect(self, index: int, switch: int) -> None:
        port = f"port{index + 1}"
        in_switch = ["nsenter", "--target", str(switch), "--net", "--", "ip", "link"]
        _run([*in_switch, "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(self._holders[index].pid)])
        _run([*in_switch, "set", port, "master", "bridge", "up"])
        for words in (f"address add {self.address(index)}/24 dev eth0", "link set eth0 up", "link set lo up"):
            _run([*self.enter(index), "ip", *words.split()])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failed(f"cannot connect the hosts: {(done.stderr.strip() or 'no reason given').splitlines()[0]}")
