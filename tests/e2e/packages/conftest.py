"""The packages: DDPRUN_TEST_PACKAGES names a folder that has them, or is `make`, which makes them once by scripts/package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.programs import REPOSITORY

EXAMPLE = REPOSITORY / "scripts" / "examples" / "train_ddp.py"


class Packages:
    def __init__(self, folder: Path):
        self.folder = folder

    def one(self, pattern: str) -> Path:
        """This machine's package of that kind."""
        [found] = self.folder.glob(pattern)
        return found


@pytest.fixture(scope="session")
def packages() -> Packages:
    named = os.environ.get("DDPRUN_TEST_PACKAGES")
    if not named:
        pytest.skip("the packages' compiler takes minutes: DDPRUN_TEST_PACKAGES=make makes them, or a folder that has them")
    if named != "make":
        return Packages(Path(named))
    made = subprocess.run([REPOSITORY / "scripts" / "package", "all"], text=True, capture_output=True)
    assert made.returncode == 0, made.stderr
    return Packages(REPOSITORY / "build" / "packages")


@pytest.fixture
def train(torch_python, tmp_path):
    """Runs the README's quick example with a ddprun, in an environment that names nothing of this one."""

    def run(ddprun: Path | str, **more) -> str:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHON_EXEC": str(torch_python)}
        result = subprocess.run([ddprun, "--nproc-per-node", "2", EXAMPLE, "--steps", "5"], env=environment, text=True,
                                capture_output=True, timeout=300, cwd=home, **more)
        assert result.returncode == 0, result.stderr
        assert "step" in result.stdout, result.stdout
        return result.stdout

    return run
