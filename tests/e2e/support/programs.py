"""Where the program under test and a Python with torch are: named by the build, else guessed.

A checkout often lies in a home that is its owner's alone. What other users run in the tests, ddprun and the scripts, is
therefore a copy in a folder that everybody may read.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .run_directory import RunDirectory

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = REPOSITORY / "scripts" / "examples"
FOLDER = "DDPRUN_TEST_READABLE"  # one folder for pytest-xdist's processes too, which its first one starts


@functools.cache
def readable(path: Path) -> Path:
    """A copy of a file or a folder that every user of every test host can read; it goes when the tests end."""
    there = _folder() / hashlib.sha1(str(path).encode()).hexdigest()[:8] / path.name
    if not there.exists():
        new = there.parent.with_name(f"{there.parent.name}.{os.getpid()}")
        new.mkdir()
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, new / path.name)
        for item in [new, *new.rglob("*")]:
            item.chmod(0o755 if item.stat().st_mode & 0o100 else 0o644)
        try:
            new.rename(there.parent)
        except OSError:  # another process was faster
            shutil.rmtree(new)
    return there


def temporary_folder() -> Path:
    """An empty one with a short name: a data loader makes sockets in $TMPDIR, and a socket's path has 107 bytes at most."""
    return Path(tempfile.mkdtemp(dir=_folder(), prefix="tmp."))


def _folder() -> Path:
    if FOLDER not in os.environ:
        made = RunDirectory()
        atexit.register(made.remove)
        os.environ[FOLDER] = str(made.path)
    return Path(os.environ[FOLDER])


SCRIPTS = readable(REPOSITORY / "tests" / "e2e" / "scripts")


def binary() -> Path | None:
    named = os.environ.get("DDPRUN_TEST_BINARY")
    places = [Path(named)] if named else [REPOSITORY / "build" / "release" / "src" / "ddprun",
                                          REPOSITORY / "build" / "release" / "ddprun"]
    found = next((place for place in places if os.access(place, os.X_OK)), None)
    return readable(found.resolve()) if found else None


def binary_directory() -> Path | None:
    found = binary()
    return found.parent if found else None


def torch_python() -> Path:
    return Path(os.environ.get("DDPRUN_TEST_TORCH_PYTHON") or sys.executable)


def python_directory() -> Path:
    """Not resolved: python in a virtual environment is a link, and where the link lies decides what it imports."""
    return torch_python().absolute().parent


def kept_paths() -> list[Path]:
    """What has to stay visible on test hosts, which have a /tmp of their own."""
    return [REPOSITORY, python_directory().parent]


def why_no_binary() -> str | None:
    if binary() is None:
        return "there is no ddprun to test: build the release preset or name one in DDPRUN_TEST_BINARY"
    return None


def why_no_torch() -> str | None:
    if _has("torch"):
        return None
    return f"{torch_python()} has no torch: name a Python that has it in DDPRUN_TEST_TORCH_PYTHON"


def why_no(framework: str) -> str | None:
    if _has(framework):
        return None
    return f"{torch_python()} has no {framework}: scripts/torch-python --frameworks installs it where it is online"


def _has(module: str) -> bool:
    try:
        probe = subprocess.run([torch_python(), "-c", "import importlib.util as u, sys;"
                                f"sys.exit(u.find_spec('{module}') is None)"])
    except OSError:  # in a home that this user cannot enter
        return False
    return probe.returncode == 0


def run_as(path: Path, program: str) -> None:
    """Another name for a program that looks for its helpers beside itself."""
    path.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    path.chmod(0o755)
