"""Ports for tests."""

from __future__ import annotations

import os
import random
import socket

FIRST, LAST = 20000, 32000  # below what systems give to connections: no other test's connection takes it in between
_chosen = random.Random(os.getpid())


def free_port() -> int:
    """One that nobody uses on this machine."""
    while True:
        port = _chosen.randrange(FIRST, LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        return port
