"""Two nodes of a Slurm cluster, which also serve as machines without a scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import programs, slurm_cluster
from support.hosts import HostGroup, wait_until
from support.machine import Machine
from support.slurm_cluster import SlurmCluster


def require(module: str) -> None:
    """Skips where the Python with torch lacks a framework, as one that scripts/torch-python did not make may."""
    reason = programs.why_no(module)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def running_cluster(binary, torch_python) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    path = [str(programs.binary_directory()), str(programs.python_directory())]
    with SlurmCluster(2, kept=programs.kept_paths(), path=path) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster) -> Iterator[SlurmCluster]:
    yield running_cluster
    running_cluster.cancel_all()
    running_cluster.hosts.kill_started()


@pytest.fixture
def hosts(cluster) -> HostGroup:
    return cluster.hosts


@pytest.fixture
def machine(binary, tmp_path: Path) -> Iterator[Machine]:
    """torch leaves caches in the temporary folder."""
    machine = Machine(binary, tmp_path)
    yield machine
    wait_until("all processes of this test are gone", lambda: not machine.processes())
