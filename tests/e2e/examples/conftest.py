"""A small cluster whose nodes also serve as machines without a scheduler."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import programs, slurm_cluster
from support.hosts import HostGroup
from support.slurm_cluster import SlurmCluster


@pytest.fixture(scope="session")
def cluster(binary, torch_python) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    path = [str(programs.binary_directory()), str(programs.python_directory())]
    with SlurmCluster(3, kept=programs.kept_paths(), path=path) as running:
        yield running


@pytest.fixture
def hosts(cluster) -> HostGroup:
    return cluster.hosts


@pytest.fixture
def examples(cluster, directory) -> Iterator[Path]:
    """The examples as a user would copy them; jobs write their output beside them."""
    path = directory / "examples"
    shutil.copytree(programs.EXAMPLES, path)
    modules = path / "bin" / "module"  # there is no module system here: what was loaded is noted
    modules.parent.mkdir()
    modules.write_text(f"#!/bin/sh\necho \"$@\" >> {path}/modules\n")
    modules.chmod(0o755)
    yield path
    cluster.cancel_all()
