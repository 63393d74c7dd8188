"""One OpenPBS for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import pbs_cluster, programs, ssh
from support.pbs_cluster import USER, PbsCluster


@pytest.fixture(scope="session")
def running_cluster(binary) -> Iterator[PbsCluster]:
    reason = pbs_cluster.why_impossible() or ssh.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with PbsCluster(kept=programs.kept_paths(), path=[str(programs.binary_directory())]) as cluster:
        cluster.as_user(cluster.nodes[0], ["ddprun", "--version"])
        yield cluster


@pytest.fixture
def cluster(running_cluster) -> Iterator[PbsCluster]:
    yield running_cluster
    running_cluster.delete_all()


@pytest.fixture
def hosts(cluster):
    return cluster.hosts


@pytest.fixture(scope="session")
def ssh_daemons(running_cluster) -> Iterator[ssh.SshDaemons]:
    with ssh.SshDaemons(running_cluster.hosts, user=USER) as running:
        yield running
