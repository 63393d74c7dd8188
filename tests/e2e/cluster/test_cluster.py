"""The test cluster itself: what the other suites rely on, shown without ddprun."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import hosts, run_directory, slurm_cluster
from support.hosts import Result, wait_for_result, wait_until
from support.programs import REPOSITORY
from support.slurm_cluster import SlurmCluster


@pytest.fixture(scope="module", autouse=True)
def needs_slurm() -> None:
    reason = slurm_cluster.why_impossible()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def cluster(needs_slurm) -> Iterator[SlurmCluster]:
    with SlurmCluster() as running:
        yield running


def run_test_cluster(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(REPOSITORY / "scripts" / "test-cluster"), *arguments], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY)


def test_tasks_run_on_every_host(cluster):
    result = cluster.run("srun", "-N4", "--ntasks-per-node=2", "hostname")
    assert sorted(result.stdout.split()) == sorted(["n1", "n2", "n3", "n4"] * 2), str(result)


@pytest.mark.parametrize(("mpi", "variable"), [("pmi2", "PMI_FD"), ("pmix", "PMIX_RANK")])
def test_mpi_plugins(cluster, mpi, variable):
    result = cluster.run("srun", f"--mpi={mpi}", "-N2", "printenv", variable)
    assert result.code == 0 and len(result.stdout.split()) == 2, str(result)


def test_gpus_are_handed_out(cluster):
    result = cluster.run("srun", "-N1", "--gres=gpu:3", "printenv", "CUDA_VISIBLE_DEVICES")
    assert result.stdout.strip() == "0,1,2", str(result)


def test_hosts_have_a_tmp_and_a_network_of_their_own_and_share_the_home(cluster):
    first, second = cluster.nodes[:2]
    first.check(["touch", "/tmp/mine", str(cluster.home / "ours")])
    assert second.run(["test", "-e", "/tmp/mine"]).code == 1
    assert second.run(["test", "-e", str(cluster.home / "ours")]).code == 0
    assert first.check(["hostname", "-i"]).strip() == first.address


def test_names_as_debian_writes_them(cluster):
    with cluster.hosts.own_name_on_loopback():
        assert cluster.nodes[0].check(["getent", "ahostsv4", "n1"]).split()[0] == "127.0.1.1"
        assert cluster.nodes[1].check(["getent", "ahostsv4", "n1"]).split()[0] == cluster.nodes[0].address


def test_management_network_comes_first_and_carries_nothing(cluster):
    node, other = cluster.nodes[:2]
    with cluster.hosts.unreachable_network_first():
        addresses = [line.split()[0] for line in node.check(["getent", "ahostsv4", "n2"]).splitlines()
                     if "STREAM" in line]
        assert addresses == [other.management_address, other.address]
        connect = f"import socket; socket.create_connection(('{other.management_address}', 9), 0.3)"
        assert "timed out" in node.run([sys.executable, "-c", connect]).stderr
        assert cluster.run("srun", "-N2", "hostname").code == 0


def test_reserved_ports_in_a_second_cluster_at_the_same_time(cluster):
    with SlurmCluster(2, reserved_ports="12000-12099") as second:
        result = second.run("srun", "-N2", "printenv", "SLURM_STEP_RESV_PORTS")
        assert len(set(result.stdout.split())) == 1 and result.stdout.startswith("120"), str(result)
    assert cluster.run("srun", "-N1", "printenv", "SLURM_STEP_RESV_PORTS").code == 1


def test_the_command_s_code_is_the_script_s():
    process = run_test_cluster("--nodes", "1", "--", "srun", "sh", "-c", "hostname; exit 6")
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 6, stderr
    assert stdout == "n1\n"


def test_a_killed_cluster_leaves_no_process_and_its_directory_goes_with_the_next_run():
    marker = f"cluster-{os.getpid()}-killed"
    process = run_test_cluster("--nodes", "1", "--", "srun", "sh", "-c", f"touch $HOME/{marker}; exec sleep 600")
    home = wait_until("the job runs", lambda: next(run_directory.PARENT.glob(f"*/home/{marker}"), None)).parent
    daemons = processes_naming(home.parent)
    assert daemons
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until("its daemons are gone", lambda: not any(Path(f"/proc/{pid}").exists() for pid in daemons))

    def is_removed() -> bool:
        run_directory.remove_leftovers()
        return not home.parent.exists()

    wait_until("its directory is removed", is_removed)


def processes_naming(directory: Path) -> list[int]:
    """Processes whose environment names this directory: the daemons, and the job."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and str(directory).encode() in Path(f"/proc/{entry}/environ").read_bytes():
                found.append(int(entry))
        except OSError:
            continue
    return found


def started(line: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["sh", "-c", line], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def result_of(popen: subprocess.Popen[str], timeout: float) -> Result:
    return wait_for_result(["sh"], popen, popen.kill, timeout)


def test_a_program_that_ends_is_a_result():
    result = result_of(started("echo out; echo err >&2; exit 3"), 60)
    assert (result.code, result.stdout, result.stderr) == (3, "out\n", "err\n")


def test_one_that_takes_too_long_is_killed_and_its_output_shown():
    popen = started("echo out; exec sleep 600")
    with pytest.raises(AssertionError, match="still running after 0.5 s\n(.|\n)*out"):
        result_of(popen, 0.5)
    assert popen.returncode == -signal.SIGKILL


def test_its_output_is_shown_although_a_process_that_it_has_left_holds_it(monkeypatch):
    monkeypatch.setattr(hosts, "HELD_OUTPUT", 0.5)
    popen = started("echo out; sleep 600 & echo $! >&2; wait")
    with pytest.raises(AssertionError, match="still running after 0.5 s\n(.|\n)*out") as failure:
        result_of(popen, 0.5)
    left = re.search(r"--- stderr\n(\d+)", str(failure.value))
    os.kill(int(left[1]), signal.SIGKILL)


def test_an_ordinary_user_is_told_why_not(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert slurm_cluster.why_impossible() == "making test hosts (network namespaces) needs root"


def test_a_missing_program_is_named(monkeypatch):
    monkeypatch.setattr(slurm_cluster, "PROGRAMS", ("no-such-daemon",))
    assert slurm_cluster.why_impossible() == "the Slurm tests need the program no-such-daemon"
