"""One machine with its own GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hosts import wait_until
from support.machine import Machine


@pytest.fixture
def machine(binary, tmp_path: Path) -> Iterator[Machine]:
    """CUDA and torch leave caches in the temporary folder."""
    machine = Machine(binary, tmp_path)
    (tmp_path / "train.py").touch()
    yield machine
    wait_until("all processes of this test are gone", lambda: not machine.processes())
