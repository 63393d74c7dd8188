"""A job of three programs: a trainer of two ranks or more, a server that it asks for samples, a loader on its nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from .hosts import wait_until
from .programs import SCRIPTS as TEST_SCRIPTS
from .programs import readable

SCRIPTS = readable(Path(__file__).resolve().parents[3] / "scripts" / "examples" / "programs")
WAITS = TEST_SCRIPTS / "in_program.py"
PORT = 18080


def words(folder: Path, *, train: tuple[str, ...] = (), server: tuple[str, ...] = (), steps: int = 20, port: int = PORT,
          colon: str = ":") -> list[str]:
    """What follows `ddprun`."""
    return ["--after", "server,load", *train, str(SCRIPTS / "train.py"), str(folder), str(steps), str(port),
            colon, "--name", "server", "--nproc-per-node", "1", "--ready", str(port), "--on-exit", "restart", *server,
            str(SCRIPTS / "serve.py"), str(port),
            colon, "--with", "train", "--nproc-per-node", "1", str(SCRIPTS / "load.py"), f"{folder}/batches", str(steps)]


def losses(text: str) -> dict[int, str]:
    """By step; of one that ran twice both have to be the same."""
    found: dict[int, str] = {}
    for step, loss in re.findall(r"step (\d+) loss (\d\.\d+)", text):
        assert found.setdefault(int(step), loss) == loss, text
    return found


def saved_step(folder: Path) -> int:
    """The number of files that the loader was told of."""
    return len(list(folder.glob("batches/*/done.*")))


def wait_for_steps(folder: Path, number: int) -> None:
    wait_until(f"{number} batches are done", lambda: saved_step(folder) >= number)


def one(look: Callable[[], list[int]]) -> int:
    found = wait_until("there is one", look)
    assert len(found) == 1, found
    return found[0]


def waiting(folder: Path, colon: str = ":", train: tuple[str, ...] = (), server: tuple[str, ...] = ()) -> list[str]:
    """A trainer and its server that only wait to be stopped (scripts/in_program.py)."""
    script = str(WAITS)
    return ["--after", "server", "--name", "train", "--nproc-per-node", "1", *train, script, str(folder), "train",
            colon, "--name", "server", "--nproc-per-node", "1", *server, script, str(folder), "server"]


def workers(script: str, argument) -> list[int]:
    """The processes of an example's script of this job, which has the argument."""
    return processes(str(SCRIPTS / script), argument)


def processes(script: str, argument) -> list[int]:
    """The processes of a Python script with this argument."""
    found = []
    for path in Path("/proc").iterdir():
        try:
            line = (path / "cmdline").read_bytes().decode(errors="replace").split("\0") if path.name.isdigit() else []
        except OSError:
            continue
        if any(word.endswith(script) for word in line) and str(argument) in line and "python" in line[0]:
            found.append(int(path.name))
    return sorted(found)
