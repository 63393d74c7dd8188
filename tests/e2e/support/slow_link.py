"""A slow cable between a host and the switch: what the host sends arrives late, and some of it never.

As `tc qdisc add dev fabric0 root netem delay 200ms loss 5%` on that host, for kernels without netem: a process takes the
frames from one end and gives them to the other.
"""

from __future__ import annotations

import collections
import contextlib
import random
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if __name__ != "__main__":
    from .hosts import HostGroup

ALL_PROTOCOLS = 3
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23  # of linux/if_packet.h
LARGEST_FRAME = 1 << 17
QUEUE_BYTES = 1 << 22


@contextlib.contextmanager
def slow_link(hosts: HostGroup, name: str, milliseconds: int = 200, loss_percent: int = 5) -> Iterator[None]:
    """Of what the host sends; both ways are as fast as before afterwards."""
    host_end, switch_end = f"fabric0-{name}", f"slow-{name}"
    hosts.switch("link", "add", switch_end, "type", "veth", "peer", "name", f"{switch_end}-peer")
    hosts.switch("link", "set", f"{switch_end}-peer", "master", "switch")
    for end in (switch_end, f"{switch_end}-peer"):
        hosts.switch("link", "set", end, "up")
    hosts[name].unplug()
    forwarder = subprocess.Popen(
        ["nsenter", f"--target={hosts.first_pid}", "--net", sys.executable, str(Path(__file__).resolve()),
         host_end, switch_end, str(milliseconds), str(loss_percent)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert forwarder.stdout.readline() == "ready\n"
        yield
        assert forwarder.poll() is None
    finally:
        forwarder.stdin.close()
        forwarder.wait()
        forwarder.stdout.close()
        hosts.switch("link", "delete", switch_end)
        hosts[name].plug_in_again()


def open_end(interface: str) -> socket.socket:
    """Frames of this interface with what the kernel notes of each: a checksum may still be missing."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE_BYTES)
    end.bind((interface, ALL_PROTOCOLS))
    return end


def forward(host_end: str, switch_end: str, delay: float, loss: float) -> None:
    """Until its input ends."""
    slow, fast = open_end(host_end), open_end(switch_end)
    waiting: collections.deque[tuple[float, bytes]] = collections.deque()
    print("ready", flush=True)
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready = select.select([slow, fast, sys.stdin], [], [], pause)[0]
        if sys.stdin in ready:
            return
        if fast in ready:
            send(slow, fast.recv(LARGEST_FRAME))
        if slow in ready:
            frame = slow.recv(LARGEST_FRAME)
            if random.random() >= loss:
                waiting.append((time.monotonic() + delay, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            send(fast, waiting.popleft()[1])


def send(end: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # as a cable that is down, or a full queue
        end.send(frame)


if __name__ == "__main__":
    forward(sys.argv[1], sys.argv[2], int(sys.argv[3]) / 1000, int(sys.argv[4]) / 100)
