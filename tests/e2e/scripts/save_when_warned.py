"""A worker with a child that the warning signal would end: it saves once it is warned, and ends with the code it is given.

save_when_warned.py FOLDER [CODE]
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

folder = Path(sys.argv[1])
code = int(sys.argv[2]) if len(sys.argv) > 2 else 0
rank = os.environ["RANK"]
run = os.environ.get("SLURM_RESTART_COUNT", "0")
child = subprocess.Popen(["sleep", "600"])  # as a process that loads data; SIGUSR1 ends it
warnings = 0


def note_warning(signum, frame) -> None:
    global warnings
    warnings += 1


signal.signal(signal.SIGUSR1, note_warning)
(folder / f"ready.{run}.{rank}").touch()
while not warnings:
    time.sleep(0.05)
time.sleep(2)  # in which a second one would come
loads = child.poll() is None
(folder / f"saved.{run}.{rank}").write_text(f"{warnings} {'loader lives' if loads else 'loader is gone'}\n")
child.kill()
sys.exit(code)
