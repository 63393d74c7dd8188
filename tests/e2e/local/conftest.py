"""Hosts without a scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import programs
from support import hosts as hosts_module
from support.hosts import HostGroup
from support.machine import Machine


@pytest.fixture(scope="session")
def host_group(binary) -> Iterator[HostGroup]:
    reason = hosts_module.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    path = [str(programs.binary_directory()), str(programs.python_directory())]
    with HostGroup(["a", "b"], kept=programs.kept_paths(), path=path) as group:
        yield group


@pytest.fixture
def hosts(host_group) -> HostGroup:
    return host_group


@pytest.fixture
def machine(binary, tmp_path) -> Iterator[Machine]:
    machine = Machine(binary, tmp_path)
    yield machine
    machine.check_nothing_is_left()
