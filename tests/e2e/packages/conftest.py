"""The packages: of the program that build/release has, or those that are shipped: DDPRUN_TEST_PACKAGES names a folder that
has them, or is `portable`, which makes them, in a quarter of an hour."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support.programs import REPOSITORY

EXAMPLE = REPOSITORY / "scripts" / "examples" / "train_ddp.py"


class Packages:
    """`how` are scripts/package's arguments that made them; None where they were made elsewhere."""

    def __init__(self, folder: Path, how: list[str] | None):
        self.folder = folder
        self.how = how

    def one(self, pattern: str) -> Path:
        """This machine's package of that kind."""
        [found] = self.folder.glob(pattern)
        return found

    @property
    def wheel(self) -> Path:
        return self.one("*-py3-none-manylinux_2_*_x86_64.whl")

    @property
    def glibc(self) -> str:
        """The oldest that they say they run with."""
        return "2." + self.wheel.name.split("manylinux_2_")[1].split("_")[0]


def make(folder: Path, *how: str) -> None:
    call(REPOSITORY / "scripts" / "package", "all", *how, "--output", folder, timeout=5400)


@pytest.fixture(scope="session")
def packages(tmp_path_factory) -> Packages:
    named = os.environ.get("DDPRUN_TEST_PACKAGES", "here")
    if named not in ("here", "portable"):
        return Packages(Path(named), None)
    if named == "here" and not (REPOSITORY / "build" / "release" / "ddprun").exists():
        pytest.skip("build/release has no program")
    made = Packages(tmp_path_factory.mktemp("packages"), ["--here"] if named == "here" else [])
    make(made.folder, *made.how)
    return made


def call(*command, **more) -> str:
    result = subprocess.run([str(word) for word in command], text=True, capture_output=True, **{"timeout": 300, **more})
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def programs_in(folder: Path, processor: str, debian: str, there: Path) -> dict[str, Path]:
    """Unpacks every package of the processor, without running anything of it: the program by the kind of package."""
    ways = {"deb": (f"*_{debian}.deb", "dpkg-deb --extract {} ."),
            "tar": (f"*-linux-{processor}.tar.gz", "tar -xzf {}"),
            "wheel": (f"*_{processor}.whl", "python3 -m zipfile -e {} ."),
            "rpm": (f"*.{processor}.rpm", "rpm2archive - < {} | tar -xzf -")}
    if shutil.which("rpm2archive") is None:
        del ways["rpm"]
    programs = {}
    for kind, (pattern, command) in ways.items():
        [package] = folder.glob(pattern)
        (there / kind).mkdir(parents=True)
        call("sh", "-euc", command.format(shlex.quote(str(package))), cwd=there / kind)
        [programs[kind]] = [path for path in (there / kind).rglob("ddprun") if path.is_file() and path.stat().st_size > 10**6]
    return programs


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
