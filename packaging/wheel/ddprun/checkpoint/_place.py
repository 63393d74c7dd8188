"""Where the parts of a step are: in a folder of ddprun on this node, or in one that all ranks share.

FOLDER/step-N/rank-R.manifest, with the names and sizes of the files beside it, says that rank R has saved its part of step N.
Files and folders whose names begin with "." are being written.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import os
import shutil
import socket
import stat
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator, Union

import torch.distributed as dist

Named = Union[str, "os.PathLike[str]", None]
FETCH_SECONDS = 1800  # from another node or a shared folder


class Part:
    """What one rank saves of a step."""

    def __init__(self, place: Place, step: int, folder: Path, rank: int, world: int) -> None:
        self.place, self.step, self.folder, self.rank, self.world = place, step, folder, rank, world
        self.files: dict[str, int] = {}
        if operator.index(step) < 0:
            raise ValueError(f"ddprun.checkpoint: a step is 0 or more, not {step}")
        folder.mkdir(mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A file that has its name once it is whole."""
        new = self.folder / f".{name}.new"
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
                yield file
        except BaseException:
            new.unlink()
            raise
        self.add(new, name)

    def add(self, path: Path, name: str) -> None:
        path.chmod(0o600)
        self.files[name] = path.stat().st_size
        path.rename(self.folder / name)

    def finish(self) -> None:
        manifest = json.dumps({"world": self.world, "files": self.files})
        with self.open(f"rank-{self.rank}.manifest") as file:
            file.write(manifest.encode())
        self.place.there.add(self.step)
        self.place.saved(self)


class Place:
    """A folder that all ranks share. A step has its name once all of them have saved their parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.there: set[int | None] = set()  # steps that this rank has loaded or saved
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = (os.environ.get(name, "0") for name in ("TORCHELASTIC_RESTART_COUNT", "MASTER_PORT", "SLURM_JOB_ID"))
        self._run = agreed(lambda: os.urandom(6).hex()) if dist_is_on() or rank_and_world()[1] == 1 else "-".join(known)

    def folder(self, step: int) -> Path:
        """Refuses a place that other users can change, as what is in it is unpickled."""
        status = os.lstat(self.path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise RuntimeError(f"ddprun.checkpoint: {self.path} has to be a folder of user {os.geteuid()} that others cannot "
                               f"change; it has owner {status.st_uid} and mode {stat.filemode(status.st_mode)}")
        return self.path / f"step-{step}"

    def look(self) -> int | None:  # at the step to load
        step: int | None = agreed(self._newest)
        self.there = {step}
        return step

    def begin(self, step: int, rank: int, world: int, size: int) -> Part | None:  # None where there is no room
        shutil.rmtree(self.folder(step), ignore_errors=True)  # of a former run: it has its name when this rank has saved, too
        partial = self.path / f".step-{step}.{self._run}.partial"  # never mixed with parts of another run
        return Part(self, step, partial, rank, world)

    def saved(self, part: Part) -> None:
        if self._publish(part.folder):
            older = sorted((path for path in self.path.glob("step-*") if 0 <= _step_of(path) < part.step), key=_step_of)
            left = [path for path in self.path.glob(".step-*") if _step_of(path) <= part.step or self._run not in path.name]
            for path in older[:-1] + left:
                shutil.rmtree(path, ignore_errors=True)

    def part(self, step: int, rank: int) -> tuple[int, int, list[str]]:
        """By how many ranks the step was saved, whose part this rank reads, and its files."""
        of = rank % _manifest(self.folder(step), 0)["world"]
        return _manifest(self.folder(step), 0)["world"], of, list(_manifest(self.folder(step), of)["files"])

    def fetch(self, step: int, name: str) -> str:
        return str(self.folder(step) / name)

    def _newest(self) -> int | None:
        for partial in self.path.glob(".step-*"):  # complete, but its run was killed before it was named
            self._publish(partial)
        return max((_step_of(path) for path in self.path.glob("step-*") if _is_complete(path)), default=None)

    def _publish(self, partial: Path) -> bool:
        with contextlib.suppress(OSError):  # another rank was faster
            return _is_complete(partial) and bool(partial.rename(self.folder(_step_of(partial))))
        return False


class NodeMemory(Place):
    """ddprun's folder on this node, and its process, which answers a line with a line."""

    def __init__(self, path: Path) -> None:
        self.path, self.there = path, {self.look()}

    def look(self) -> int | None:
        step = os.environ.get("DDPRUN_CHECKPOINT_STEP")
        return int(step) if step else None

    def begin(self, step: int, rank: int, world: int, size: int) -> Part | None:
        with contextlib.suppress(OSError, RuntimeError):  # ddprun has said why
            self.ask(f"room {size}")
            return Part(self, step, self.folder(step), rank, world)
        return None

    def saved(self, part: Part) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # it looks at the folder too
            self.ask(f"saved {part.step} {part.rank}")

    def part(self, step: int, rank: int) -> tuple[int, int, list[str]]:
        with contextlib.suppress(FileNotFoundError):
            own = _manifest(self.folder(step), rank)
            return own["world"], rank, list(own["files"])
        answer = json.loads(self.ask(f"files {step}", FETCH_SECONDS))
        of = rank % answer["world"]
        return answer["world"], of, list(answer["parts"][str(of)])

    def fetch(self, step: int, name: str) -> str:
        path = self.folder(step) / name
        if not path.exists():
            self.ask(f"fetch {step} {name}", FETCH_SECONDS)
        return str(path)

    def ask(self, request: str, seconds: float = 30) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(os.environ["DDPRUN_CHECKPOINT_SOCKET"])
            connection.sendall(f"{request}\n".encode())
            word, _, rest = connection.makefile("r", encoding="utf-8").readline().rstrip("\n").partition(" ")
        if word != "ok":
            raise RuntimeError(f"ddprun.checkpoint: {request}: {rest or 'no answer'}")
        return rest


def _manifest(folder: Path, rank: int) -> Any:
    return json.loads((folder / f"rank-{rank}.manifest").read_bytes())


def _is_complete(folder: Path) -> bool:  # with the sizes that the manifests of all ranks name
    with contextlib.suppress(OSError):
        ranks = range(_manifest(folder, 0)["world"])
        return len(list(folder.glob("*.manifest"))) >= len(ranks) and all(
            (folder / name).stat().st_size == (size["bytes"] if isinstance(size, dict) else size)
            for rank in ranks for name, size in _manifest(folder, rank)["files"].items())
    return False


def _step_of(path: Path) -> int:
    digits = path.name.lstrip(".")[len("step-"):].partition(".")[0]
    return int(digits) if digits.isdigit() else -1


def dist_is_on() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank_and_world() -> tuple[int, int]:
    named = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    return (dist.get_rank(), dist.get_world_size()) if dist_is_on() else named


def agreed(value: Callable[[], Any], numbers: Iterator[int] = itertools.count()) -> Any:
    """Rank 0's value, by the store, as not every back end sends objects; the own one before init_process_group()."""
    if not dist_is_on():
        return value()
    store, key = dist.distributed_c10d._get_default_store(), f"ddprun/checkpoint/{next(numbers)}"
    if dist.get_rank() == 0:
        store.set(key, json.dumps(value()))
    return json.loads(store.get(key))


_places: dict[str, Place] = {}


def of(folder: Named) -> Place:
    """ddprun's, whatever folder is named: a script need not choose."""
    memory = os.environ.get("DDPRUN_CHECKPOINTS")
    path = memory or os.path.realpath(folder or os.environ.get("DDPRUN_CHECKPOINT_FILES") or "checkpoints")
    if path not in _places:
        _places[path] = NodeMemory(Path(path)) if memory else Place(Path(path))
    return _places[path]
