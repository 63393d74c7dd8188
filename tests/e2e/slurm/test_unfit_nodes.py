"""A restart looks first: nodes of a Slurm job that have become unfit are left, and what passes is waited for (--check=auto)."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm.conftest import PATH
from slurm.test_lost_nodes import TRAIN, Training, undisturbed_loss  # noqa: F401
from support import fake_gpus, file_systems, programs, slurm_cluster
from support.hosts import Result, wait_until
from support.slurm_cluster import SlurmCluster

STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/"]

pytestmark = pytest.mark.usefixtures("torch_python")


@pytest.fixture(scope="module")
def running_cluster(binary) -> Iterator[SlurmCluster]:
    """Its nodes have GPUs."""
    reason = slurm_cluster.why_impossible() or fake_gpus.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with SlurmCluster(3, kept=programs.kept_paths(), path=PATH) as cluster:
        for node in cluster.nodes:
            fake_gpus.add(node)
        yield cluster


@pytest.fixture(scope="module")
def gpus(running_cluster) -> dict[str, str]:
    folder = running_cluster.home / "nvml"
    folder.mkdir()
    return fake_gpus.environment(folder)


@pytest.fixture
def cluster(running_cluster) -> Iterator[SlurmCluster]:
    yield running_cluster
    running_cluster.cancel_all()
    running_cluster.hosts.kill_started()
    for node in running_cluster.nodes:
        fake_gpus.restore(node)


@pytest.fixture
def start(cluster, directory, gpus):
    """A training on n1 and n2, with n3 as the spare."""
    def run(*options: str, restarts: int = 3) -> Training:
        words = ["ddprun", "--check=auto", "--nproc-per-node", "1", "--spares", "1", "--max-restarts", str(restarts),
                 *(["--restart-policy", "always"] if restarts else []), "--exclude-file", str(directory / "bad-nodes"), *options, str(TRAIN), str(directory)]
        exports = "".join(f"export {name}={value}\n" for name, value in gpus.items())
        (directory / "job.sh").write_text(f"#!/bin/sh\n{exports}{shlex.join(words)}\n"
                                          f"echo $? > {directory}/code.new; mv {directory}/code.new {directory}/code\n")
        told = cluster.run("sbatch", "--parsable", "-N3", f"--output={directory}/output", str(directory / "job.sh"))
        assert told.code == 0, str(told)
        return Training(cluster, directory, told.stdout.strip())
    return run


def fail(cluster: SlurmCluster, node: str) -> None:
    """Its worker."""
    [pid] = [pid for pid, line in cluster.hosts[node].processes().items() if str(TRAIN) in line and "--check=auto" not in line]
    os.kill(pid, signal.SIGKILL)


def end(training: Training, loss: float) -> str:
    """The output of a job that ends well."""
    assert training.finish() == pytest.approx(loss, rel=1e-9)
    assert training.code() == 0, training.output
    return training.output


def excluded(training: Training) -> str:
    path = training.folder / "bad-nodes"
    return path.read_text() if path.exists() else ""


def test_a_node_that_has_lost_a_gpu_is_replaced_before_the_second_attempt(cluster, start, undisturbed_loss):
    training = start()
    assert training.wait_until_held(0, 2) == {0: "n1", 1: "n2"}
    fake_gpus.lose(cluster.hosts["n2"])
    fail(cluster, "n1")
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3"}
    said = end(training, undisturbed_loss)
    assert "ddprun: n2 is unfit for another attempt: GPU 1: GPU is lost\nhint: " in said, said
    assert "ddprun: n3 replaces n2\n" in said and excluded(training) == "n2\n", said


XID = f"GPU {fake_gpus.GPU}: Xid 79, it fell off the bus"


def test_a_node_with_an_error_of_its_gpu_in_the_kernels_log_is_left(cluster, start, undisturbed_loss):
    training = start()
    training.wait_until_held(0, 2)
    fake_gpus.log_errors(cluster.hosts["n2"])
    fail(cluster, "n2")
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3"}
    said = end(training, undisturbed_loss)
    assert f"ddprun: n2 is unfit for another attempt: {XID}\nhint: have the site reboot the node" in said, said


def test_an_error_of_the_gpu_in_the_kernels_log_explains_the_failure(cluster, start):
    training = start(restarts=0)
    training.wait_until_held(0, 2)
    fake_gpus.log_errors(cluster.hosts["n2"])
    fail(cluster, "n2")
    assert training.code() == 137, training.output
    assert f"ddprun: rank 1 on n2 was killed by SIGKILL: {XID}\n" in training.output, training.output
    assert "  hint: have the site reboot the node" in training.output, training.output


def test_memory_that_is_free_after_some_seconds_is_waited_for(cluster, start, undisturbed_loss):
    training = start()
    training.wait_until_held(0, 2)
    holder, _ = fake_gpus.hold_memory(cluster.hosts["n2"], seconds="3")
    fail(cluster, "n1")
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n2"}
    assert not holder.is_running()
    said = end(training, undisturbed_loss)
    assert "unfit" not in said and excluded(training) == "", said


def test_a_node_whose_memory_another_user_holds_for_ever_is_left(cluster, start, undisturbed_loss):
    training = start("--gpu-release-timeout", "2s")
    training.wait_until_held(0, 2)
    _, pid = fake_gpus.hold_memory(cluster.hosts["n2"])
    fail(cluster, "n1")
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3"}
    said = end(training, undisturbed_loss)
    assert (f"ddprun: n2 is unfit for another attempt: GPU {fake_gpus.GPU}: 4.0 GiB of its memory still held after 2 s, by process {pid} "
            "(sh, user nobody)\nhint: end it there (kill -9)") in said, said


def test_what_an_earlier_job_holds_is_named_and_waited_for_before_the_first_attempt(cluster, start, undisturbed_loss):
    holder, pid = fake_gpus.hold_memory(cluster.hosts["n2"], seconds="8")
    training = start("--join-timeout", "60s")
    assert training.wait_until_held(0, 2) == {0: "n1", 1: "n2"}
    assert not holder.is_running()
    said = end(training, undisturbed_loss)
    assert (f"GPU on n2: GPU {fake_gpus.GPU}: 4.0 GiB of its memory held by process {pid} (sh, user nobody); waiting for it, 30 s at most "
            "(--gpu-release-timeout)\n") in said, said


def test_a_job_with_a_spare_starts_without_the_node_on_which_it_is_held_for_ever(cluster, start, undisturbed_loss):
    _, pid = fake_gpus.hold_memory(cluster.hosts["n2"])
    training = start("--gpu-release-timeout", "1s")
    assert training.wait_until_held(0, 2) == {0: "n1", 1: "n3"}
    said = end(training, undisturbed_loss)
    assert re.search(rf"GPU on n2: .* still held after 1 s, by process {pid} \(sh, user nobody\)", said), said
    assert excluded(training) == "n2\n"


HANG = """import sys
from pathlib import Path
from support import file_systems
with file_systems.hanging(Path(sys.argv[1])):
    print("it hangs", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(file_systems.why_impossible() is not None, reason=str(file_systems.why_impossible()))
def test_a_node_whose_file_system_hangs_is_left(cluster, start, directory, undisturbed_loss):
    (directory / "plain").mkdir()
    logs = directory / "logs"
    logs.symlink_to("plain")
    training = start("--logs", str(logs))
    training.wait_until_held(0, 2)
    holder = cluster.hosts["n2"].popen([sys.executable, "-c", HANG, str(directory / "hung")], stdin=subprocess.PIPE,
                                       env={"PYTHONPATH": str(Path(__file__).parents[1])})
    assert holder.popen.stdout.readline() == "it hangs\n"
    (directory / "other").symlink_to("hung")
    (directory / "other").rename(logs)  # the new folder hangs on n2 alone
    fail(cluster, "n1")
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3"}
    holder.kill()
    said = end(training, undisturbed_loss)
    assert re.search(r"ddprun: n2 is unfit for another attempt: disk: .*log folder", said), said


@pytest.mark.parametrize("check, reason", [
    ("echo fan 3 stands still; exit 1", "fan 3 stands still"),
    ("sleep 1000", "did not end within 2 s"),
    (None, "cannot be started: no such file"),
    ("head -c 1000000 /dev/zero | tr '\\0' x; exit 1", "x" * 100),
    ("sleep 1000 & sleep 1000 & exit 1", "says that it is unfit")], ids=["unfit", "hangs", "missing", "megabyte", "forks"])
def test_the_command_of_the_site_judges_its_node(cluster, start, directory, undisturbed_loss, check, reason):
    """Only where it says so is a node left; that which hangs or is not there judges nothing."""
    command = directory / "node-check"
    if check:
        command.write_text(f"#!/bin/sh\n[ $DDPRUN_CHECK_FOR$DDPRUN_NODE = failuren2 ] || exit 0\n{check}\n")
        command.chmod(0o755)
    training = start("--check-command", str(command), "--check-timeout", "2s")
    training.wait_until_held(0, 2)
    fail(cluster, "n2")
    unfit = check is not None and "exit 1" in check
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3" if unfit else "n2"}
    said = end(training, undisturbed_loss)
    verdict = "n2 is unfit for another attempt: --check-command: " if unfit else "n2 is not judged by --check-command: "
    assert verdict in said and reason in said.partition(verdict)[2], said
    assert not [line for node in cluster.nodes for line in node.processes().values() if "sleep 1000" in line]


def ask(cluster: SlurmCluster, job: str, *words: str, node: str = "n1") -> Result:
    return cluster.run("srun", "--overlap", "--jobid", job, "-N1", "-w", node, "--ntasks=1", "ddprun", *words, job)


def test_a_node_is_drained_by_its_owner_from_a_step_and_by_nobody_else(cluster, start, undisturbed_loss):
    training = start()
    training.wait_until_held(0, 2)
    stranger = cluster.hosts["n1"].run([*STRANGER, "ddprun", "--drain", "n2", training.job])
    assert stranger.code == 125 and f"has the job id or process id {training.job}" in stranger.stderr, str(stranger)
    asked = ask(cluster, training.job, "--drain", "n2", node="n3")
    assert (asked.code, asked.stdout) == (0, f"job {training.job}.0: all workers start again without n2\n"), str(asked)
    assert training.wait_until_held(1, 2) == {0: "n1", 1: "n3"}
    again = ask(cluster, training.job, "--drain", "n2")
    assert (again.code, again.stdout) == (0, f"job {training.job}.0: n2 has left the job already\n"), str(again)
    said = end(training, undisturbed_loss)
    assert "n2 is drained, as asked by root" in said and excluded(training) == "n2\n", said


def test_a_restart_is_asked_for_twice_at_once_from_two_nodes(cluster, start, undisturbed_loss):
    training = start()
    training.wait_until_held(0, 2)
    both = [cluster.popen("srun", "--overlap", "--jobid", training.job, "-N1", "-w", node, "--ntasks=1", "ddprun", "--restart", training.job)
            for node in ("n1", "n2")]
    asked = [each.wait() for each in both]
    assert [each.code for each in asked] == [0, 0], "\n".join(map(str, asked))
    wait_until("all run again", lambda: training.held(1) or training.held(2))
    said = end(training, undisturbed_loss)
    assert "restart asked for by root" in said, said
