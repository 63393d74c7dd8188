#!/usr/bin/env python3
"""Holds memory in small pages, which take the kernel some time to free when this is killed; the last of its
threads does that.

hold_memory.py FILE MIB: makes FILE once it does.
"""

import mmap
import signal
import sys
import threading
from pathlib import Path

size = int(sys.argv[2]) << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, size, mmap.PAGESIZE):
    memory[at] = 1
for _ in range(8):
    threading.Thread(target=signal.pause).start()
Path(sys.argv[1]).touch()
signal.pause()
