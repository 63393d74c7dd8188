"""One directory a run, recognised and removed by the next run when its owner is gone."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

# Not under /tmp: every test host mounts a /tmp of its own over it, and this directory is what they share.
PARENT = Path("/var/tmp")
PREFIX = "ddprun-test."


class RunDirectory:
    """Held by a lock for as long as its owner lives; the kernel lets go of the lock however the owner dies."""

    def __init__(self) -> None:
        remove_leftovers()
        made = Path(tempfile.mkdtemp(prefix="making-" + PREFIX, dir=PARENT))  # no other run looks at it
        made.chmod(0o755)
        self._lock = os.open(made / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = made.rename(PARENT / made.name.removeprefix("making-"))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_leftovers() -> list[Path]:
    """Removes the directories of runs that were killed; those of runs that still live are left alone."""
    removed = []
    for path in PARENT.glob(PREFIX + "*"):
        if _is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def _is_abandoned(path: Path) -> bool:
    try:
        lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # another run has just removed it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
