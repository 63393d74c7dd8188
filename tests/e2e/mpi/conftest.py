"""Hosts with an sshd each, on which real MPI launchers start what they are told to."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import hosts as hosts_module
from support import programs, ssh
from support.hosts import HostGroup
from support.mpi import HYDRA, OPEN_MPI, Launcher

MPI_HELLO = programs.REPOSITORY / "tests" / "programs" / "mpi_hello.c"


@pytest.fixture(scope="session")
def host_group(binary) -> Iterator[HostGroup]:
    reason = hosts_module.why_impossible() or ssh.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    path = [str(programs.binary_directory()), str(programs.python_directory())]
    with HostGroup(["a", "b", "c", "d"], kept=programs.kept_paths(), path=path) as group, ssh.SshDaemons(group):
        yield group


@pytest.fixture
def hosts(host_group) -> Iterator[HostGroup]:
    yield host_group
    host_group.kill_started()


def launcher_or_skip(launcher: Launcher) -> Launcher:
    if shutil.which(launcher.program) is None:
        pytest.skip(f"{launcher.program} is not installed")
    return launcher


@pytest.fixture
def hydra() -> Launcher:
    return launcher_or_skip(HYDRA)


@pytest.fixture
def open_mpi() -> Launcher:
    return launcher_or_skip(OPEN_MPI)


@pytest.fixture(params=[HYDRA, OPEN_MPI], ids=str)
def launcher(request) -> Launcher:
    return launcher_or_skip(request.param)


@pytest.fixture
def mpi_hello(directory) -> Path:
    """A program of MPICH's that prints its rank and the size of MPI_COMM_WORLD."""
    if shutil.which("mpicc.mpich") is None:
        pytest.skip("mpicc.mpich is not installed")
    program = directory / "mpi_hello"
    subprocess.run(["mpicc.mpich", "-o", str(program), str(MPI_HELLO)], check=True)
    return program
