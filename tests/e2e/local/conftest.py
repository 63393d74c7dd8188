"""Hosts without a scheduler."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest

from support import programs, ssh
from support import hosts as hosts_module
from support.attempts import Job
from support.hosts import HostGroup
from support.machine import Machine

MUNGE = "/run/munge/munge.socket.2"


@pytest.fixture(scope="session")
def host_group(binary) -> Iterator[HostGroup]:
    reason = hosts_module.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    path = [str(programs.binary_directory()), str(programs.python_directory())]
    with HostGroup(["a", "b", "c", "d"], kept=programs.kept_paths(), path=path) as group:
        yield group


@pytest.fixture
def hosts(host_group) -> Iterator[HostGroup]:
    yield host_group
    host_group.kill_started()


@pytest.fixture(scope="session")
def ssh_daemons(host_group) -> Iterator[ssh.SshDaemons]:
    reason = ssh.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with ssh.SshDaemons(host_group) as running:
        yield running


@pytest.fixture
def reachable(hosts, ssh_daemons) -> HostGroup:
    """Hosts that ssh reaches from each other without a password."""
    return hosts


@pytest.fixture
def key(directory) -> str:
    """A key file for --key-file."""
    path = directory / "key"
    path.write_text("0123456789abcdef" * 4 + "\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def job(hosts, directory, key) -> Iterator[Job]:
    """That outlives hosts."""
    job = Job(hosts, directory, key)
    yield job
    job.check_no_overlap()


@pytest.fixture
def no_munge() -> None:
    """For tests of the key file without hosts: ddprun uses munge where a munged answers."""
    with socket.socket(socket.AF_UNIX) as munged:
        if munged.connect_ex(MUNGE) == 0:
            pytest.skip(f"a munged runs on this machine ({MUNGE}), and ddprun then makes no key file")


@pytest.fixture
def small_disk() -> None:
    """For tests that mount one."""
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {probe.stderr.strip()}")


@pytest.fixture
def machine(binary, tmp_path) -> Iterator[Machine]:
    machine = Machine(binary, tmp_path)
    yield machine
    machine.check_nothing_is_left()
