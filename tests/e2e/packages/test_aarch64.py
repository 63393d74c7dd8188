"""The packages for aarch64 (Grace and others): what they hold, and their program under qemu-user.

Under qemu-user ddprun's own code is aarch64's, its workers and the kernel are this machine's: what is not shown is torch of
aarch64, nor how a real machine's cores and GPUs are found.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from conftest import EXAMPLE, call, programs_in
from support.programs import REPOSITORY

GLIBC = Path("/usr/aarch64-linux-gnu")  # Debian's libc6-arm64-cross


@pytest.fixture(scope="module")
def folder() -> Path:
    """They are made by hand: a quarter of an hour of compiling is too much for every run of the tests."""
    named = os.environ.get("DDPRUN_TEST_PACKAGES", "")
    folder = Path(named) if "/" in named else REPOSITORY / "build" / "packages"
    if not list(folder.glob("*aarch64*")):
        pytest.skip(f"{folder} has no packages for aarch64 (scripts/package all --processor aarch64 makes them)")
    return folder


@pytest.fixture(scope="module")
def programs(folder, tmp_path_factory) -> dict[str, Path]:
    return programs_in(folder, "aarch64", "arm64", tmp_path_factory.mktemp("aarch64"))


@pytest.fixture
def emulated(programs, tmp_path):
    """Runs the program; what it starts are programs of this machine."""
    if shutil.which("qemu-aarch64") is None or not (GLIBC / "lib" / "ld-linux-aarch64.so.1").exists():
        pytest.skip("qemu-user or libc6-arm64-cross is not installed")

    def run(*arguments: str | Path, **environment: str) -> str:
        return call("qemu-aarch64", "-L", GLIBC, programs["tar"], *arguments, cwd=tmp_path,
                    env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **environment})

    return run


def test_all_packages_hold_one_program_of_that_processor(programs):
    [program] = {path.read_bytes() for path in programs.values()}
    assert program[:4] == b"\x7fELF" and program[18:20] == b"\xb7\x00", "ELF's number for aarch64 is 183"


def test_the_version_names_the_processor_and_the_glibc(emulated):
    assert "\nbuilt for aarch64 with glibc 2.28 " in emulated("--version")


def test_a_dry_run_is_that_of_this_machine(emulated):
    assert "127.0.0.1" in emulated("--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--dry-run=env", "--no-python", "true")


def test_two_workers_run_and_their_output_arrives(emulated):
    printed = emulated("--nproc-per-node", "2", "--no-python", "sh", "-c", 'echo "rank $RANK of $WORLD_SIZE"')
    assert sorted(printed.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]


def test_two_workers_of_this_machine_train_with_its_store(emulated, torch_python):
    assert "step" in emulated("--nproc-per-node", "2", EXAMPLE, "--steps", "5", PYTHON_EXEC=str(torch_python))
