"""Where the program under test and a Python with torch are: named by the build, else guessed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPTS = REPOSITORY / "tests" / "e2e" / "scripts"


def binary() -> Path | None:
    named = os.environ.get("DDPRUN_TEST_BINARY")
    places = [Path(named)] if named else [REPOSITORY / "build" / "release" / "src" / "ddprun",
                                          REPOSITORY / "build" / "release" / "ddprun"]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def binary_directory() -> Path | None:
    found = binary()
    return found.resolve().parent if found else None


def torch_python() -> Path:
    return Path(os.environ.get("DDPRUN_TEST_TORCH_PYTHON") or sys.executable)


def python_directory() -> Path:
    """Not resolved: python in a virtual environment is a link, and where the link lies decides what it imports."""
    return torch_python().absolute().parent


def kept_paths() -> list[Path]:
    """What has to stay visible on test hosts, which have a /tmp of their own."""
    found = binary_directory()
    return [REPOSITORY, python_directory().parent, *([found] if found else [])]


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
    probe = subprocess.run([torch_python(), "-c", "import importlib.util as u, sys;"
                            f"sys.exit(u.find_spec('{module}') is None)"])
    return probe.returncode == 0


def run_as(path: Path, program: str) -> None:
    """Another name for a program that looks for its helpers beside itself."""
    path.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    path.chmod(0o755)
