"""A tracer as slow as a debugger at its prompt: attaches to PID and lets go when its standard input ends.

Says "attached", and "ended" once the process has ended and only its tracer knows."""

import ctypes
import os
import sys

PTRACE_CONT, PTRACE_SEIZE = 7, 0x4206
ENDED = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
    sys.exit(f"cannot trace: {os.strerror(ctypes.get_errno())}")
print("attached", flush=True)
while True:
    seen = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    if seen.si_code in ENDED:
        break
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    libc.ptrace(PTRACE_CONT, pid, None, seen.si_status)
print("ended", flush=True)
sys.stdin.read()
