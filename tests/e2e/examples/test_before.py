"""The batch scripts of the guides, under scripts/examples/before, make the same world with torchrun and srun as those
that replace them: with half the workers of a node, and stand-ins for what is of the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ssh
from support.mpi import HYDRA
from support.pbs_stand_ins import PbsJob
from support.programs import EXAMPLES
from test_examples import losses, places, submit

pytestmark = pytest.mark.nightly

TWO_EACH = [f"{rank} of 4 on n{1 + rank // 2}, local rank {rank % 2}" for rank in range(4)]
STAND_INS = {
    "torchrun_jsc": 'exec torchrun "$@"',  # torch 2.13 follows is_host without the patch
    "nslookup": 'getent hosts "$1" | sed "s/ .*//; s/^/Address: /"',
    # PALS' options, by MPICH over ssh.
    "mpiexec": f'shift 6; exec {HYDRA.program} {" ".join(HYDRA.options)} -hosts n1:1,n2:1 -n 2 "$@"',
}


def with_two_workers_a_node(script: Path) -> None:
    text = re.sub(r"(nproc[-_]per[-_]node[= ])\d", r"\g<1>2", script.read_text())
    script.write_text(text.replace("--nnodes 4", "--nnodes 2").replace("SLURM_CPUS_PER_TASK / 4", "2 / 2"))


def check(text: str) -> None:
    assert places(text) == TWO_EACH, text
    assert losses(text)[-1] < losses(text)[0] / 100, text


@pytest.fixture
def guides(cluster, hosts, examples) -> Iterator[Path]:
    """The old batch scripts beside the training script; every name with an "i" behind it leads to InfiniBand."""
    for name, script in STAND_INS.items():
        program = examples / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    for script in (examples / "before").iterdir():
        script.rename(examples / script.name)
        with_two_workers_a_node(examples / script.name)
    with hosts.fast_network("hsn0", "10.81.0."), hosts.fast_network("ib0", "10.82.0."):
        for host in hosts.hosts.values():
            host.write_names(line for number, other in enumerate(hosts.hosts.values(), start=1)
                             for line in (f"{other.address} {other.name}", f"10.82.0.{number} {other.name}i"))
        yield examples
        hosts.use_plain_names()


@pytest.fixture(scope="module")
def sshd(cluster) -> Iterator[None]:
    reason = ssh.why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with ssh.SshDaemons(cluster.hosts):
        yield


@pytest.mark.parametrize(("script", "options"), [
    ("isambard-ai.sbatch", ["--gpus-per-node=2"]),
    ("juwels-booster.sbatch", ["--gres=gpu:2"]),
    ("snellius.sbatch", ["--ntasks-per-node=2", "--gpus-per-node=2"]),
    ("torchrun-tutorial.sbatch", ["--gpus-per-node=2"]),
])
def test_batch_script_of_a_guide(cluster, guides, script, options):
    check(submit(cluster, guides, script, *options, env={"SYSTEMNAME": "juwelsbooster"}))


def test_three_programs_by_srun(cluster, guides):
    script = guides / "programs.sbatch"
    cpus = script.read_text().replace("--cpus-per-task=64", "--cpus-per-task=1")
    script.write_text(cpus.replace("--cpus-per-task=18", "--cpus-per-task=1").replace("--cpus-per-task=8", "--cpus-per-task=1")
                      .replace("--gpus-per-node=4 --cpus", "--gpus-per-node=2 --cpus"))
    text = submit(cluster, guides, "programs.sbatch", "--nodes=3", "--gpus-per-node=2")
    assert re.findall(r"^step (\d+) loss", text, re.MULTILINE) == [str(step) for step in range(40)], text


@pytest.mark.parametrize("script", ["before/derecho.pbs", "derecho.pbs"])
@pytest.mark.usefixtures("sshd")
def test_batch_script_under_a_stand_in_of_pbs(hosts, guides, script):
    if not script.startswith("before/"):
        text = (EXAMPLES / script).read_text().replace("train_ddp.py", "--nproc-per-node 2 train_ddp.py")
        (guides / script).write_text(text)
    job = PbsJob(hosts, guides, ["n1"] * 4 + ["n2"] * 4, programs=[str(guides / "bin")])
    result = job.start(f"bash {guides / Path(script).name}").wait()
    assert result.code == 0, str(result)
    check(result.stdout)


def test_every_batch_script_of_a_guide_is_run_here():
    here = Path(__file__).read_text()
    assert [path.name for path in sorted((EXAMPLES / "before").iterdir()) if f'"{path.name}"' not in here
            and f"before/{path.name}" not in here] == []
