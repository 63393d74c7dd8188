"""A worker of scripts/bench/recovery, which resumes from its checkpoint, with a lock as wait_in_attempt.sh has one.

train_in_attempt.py FOLDER PAUSE: see recovery_worker.py.
"""

import fcntl
import os
import runpy
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
ATTEMPT, RANK = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), os.environ["RANK"]
TRAINING = Path(__file__).resolve().parents[3] / "scripts" / "bench" / "recovery_worker.py"


def is_held(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


own = (FOLDER / f"lock.{ATTEMPT}.{RANK}").open("w")
fcntl.flock(own, fcntl.LOCK_EX)
for before in range(ATTEMPT):
    for lock in FOLDER.glob(f"lock.{before}.*"):
        if is_held(lock):
            (FOLDER / f"overlap.{ATTEMPT}.{RANK}.{lock.name}").touch()
runpy.run_path(str(TRAINING), run_name="__main__")
