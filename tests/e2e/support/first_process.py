"""The first process of a group of hosts: reaps orphans, and takes everything with it when its input ends."""

import signal
import sys

signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are reaped by the kernel
print("ready", flush=True)
sys.stdin.read()
