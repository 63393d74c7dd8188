"""Hosts that seem to have an NVIDIA driver: the fake NVML of the other tests, and a kernel log that the test writes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .hosts import Host, Process, wait_until
from .programs import REPOSITORY

SOURCE = REPOSITORY / "tests" / "programs" / "fake_nvml.cpp"
KERNEL_LOG = REPOSITORY / "tests" / "data" / "kernel_logs" / "off-the-bus" / "kmsg"
GPU = "0000:41:00.0"  # the first one by its address
KIND, PROCESS = "/run/fake-nvml", "/run/fake-nvml-process"  # of each host its own
BYTES = 4 << 30


def why_impossible() -> str | None:
    return None if shutil.which("c++") else "the fake NVML needs a C++ compiler"


def environment(folder: Path) -> dict[str, str]:
    """Of a ddprun that finds the library, which is made in this folder."""
    subprocess.run(["c++", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", SOURCE], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML": KIND, "FAKE_NVML_PROCESS": PROCESS}


def add(host: Host) -> None:
    """Two sound GPUs, and a log without errors."""
    host.check(["sh", "-c", "mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && touch /run/kmsg && mount --bind /run/kmsg /dev/kmsg"])
    restore(host)


def restore(host: Host) -> None:
    begin = KERNEL_LOG.read_text().partition("4,1611,")[0]
    host.check(["sh", "-c", f"rm -f {KIND} {PROCESS}; printf %s \"$1\" > /run/kmsg", "sh", begin])


def lose(host: Host) -> None:
    """The first GPU."""
    host.check(["sh", "-c", f"echo lost > {KIND}"])


def log_errors(host: Host) -> None:
    """What the kernel says of a GPU that falls off the bus, without that it is lost."""
    rest = "4,1611," + KERNEL_LOG.read_text().partition("4,1611,")[2]
    host.check(["sh", "-c", "printf %s \"$1\" >> /run/kmsg", "sh", rest])


def hold_memory(host: Host, *, seconds: str = "infinity") -> tuple[Process, int]:
    """A process of the user 65534 that has memory of the first GPU until it ends."""
    script = f"echo $$ {BYTES} > {PROCESS}; chmod 666 {PROCESS}; sleep {seconds}; : > {PROCESS}"
    host.check(["sh", "-c", f": > {PROCESS}; chmod 666 {PROCESS}"])
    holder = host.popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script])

    def pid() -> int:
        told = host.check(["cat", PROCESS]).split()
        return int(told[0]) if told else 0
    return holder, wait_until("the memory is held", pid)
