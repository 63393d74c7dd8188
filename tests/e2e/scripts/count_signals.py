"""count_signals.py DIRECTORY [SECONDS]: notes every signal in got.RANK as it arrives, and that it is ready in ready.RANK.

One that asks to stop ends it SECONDS later (default 1) with saved.RANK written: meanwhile it still counts. The
interpreter writes each signal into a socket when it comes, so that two that come close together are two."""

import os
import pathlib
import signal
import socket
import sys
import time

STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
OTHERS = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGCONT}

directory, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
saving = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
reader, writer = socket.socketpair()
writer.setblocking(False)
signal.set_wakeup_fd(writer.fileno())
for number in STOPS | OTHERS:
    signal.signal(number, lambda *_: None)
(directory / f"ready.{rank}").write_text(str(os.getpid()))
end = None
while end is None or time.monotonic() < end:
    reader.settimeout(None if end is None else max(0.001, end - time.monotonic()))
    try:
        numbers = reader.recv(64)
    except TimeoutError:
        break
    with open(directory / f"got.{rank}", "a") as file:
        for number in numbers:
            file.write(signal.Signals(number).name + "\n")
            if number in STOPS and end is None:
                end = time.monotonic() + saving
(directory / f"saved.{rank}").touch()
