"""One cluster for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import programs, slurm_cluster
from support.slurm_cluster import SlurmCluster

PATH = [str(item) for item in (programs.binary_directory(), programs.python_directory()) if item]


@pytest.fixture(scope="session")
def running_cluster(binary) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with SlurmCluster(kept=programs.kept_paths(), path=PATH) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster) -> Iterator[SlurmCluster]:
    yield running_cluster
    running_cluster.cancel_all()


@pytest.fixture
def hosts(cluster):
    return cluster.hosts


@pytest.fixture(scope="module")
def running_pinning_cluster(binary) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with SlurmCluster(1, pinning=True, kept=programs.kept_paths(), path=PATH) as cluster:
        yield cluster


@pytest.fixture
def pinning_cluster(running_pinning_cluster) -> Iterator[SlurmCluster]:
    """One node with the CPUs of this machine, where Slurm binds tasks to cores."""
    yield running_pinning_cluster
    running_pinning_cluster.cancel_all()


@pytest.fixture
def reserved_ports_cluster(running_cluster) -> Iterator[SlurmCluster]:
    """A second cluster beside the first, which gives every step ports of its own."""
    with SlurmCluster(2, reserved_ports="12000-12099", kept=programs.kept_paths(), path=PATH) as cluster:
        yield cluster
