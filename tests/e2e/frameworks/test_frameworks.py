"""Frameworks find the world that ddprun made, and not what a scheduler or an MPI launcher left beside it."""

from __future__ import annotations

import re

import pytest

from conftest import require
from support.hosts import HostGroup, Result
from support.programs import REPOSITORY, SCRIPTS
from support.slurm_cluster import SlurmCluster

FRAMEWORKS = SCRIPTS / "frameworks"
LIGHTNING = REPOSITORY / "scripts" / "examples" / "train_lightning.py"

# What a shell inside an MPI program's process would pass on.
LEFTOVERS = {"PMI_RANK": "3", "PMI_SIZE": "7", "MPI_LOCALRANKID": "3", "MPI_LOCALNRANKS": "7",
             "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "7", "OMPI_COMM_WORLD_LOCAL_RANK": "3",
             "OMPI_COMM_WORLD_LOCAL_SIZE": "7", "MV2_COMM_WORLD_SIZE": "7"}

EACH_WAY = pytest.mark.parametrize("way", ["by-hand", "one-a-node", "one-a-task"])


def run(cluster: SlurmCluster, way: str, script: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    """What the script's four processes, two on each of two hosts, print."""
    command = [str(FRAMEWORKS / script), *arguments]
    if way == "by-hand":
        return manual(cluster.hosts, command, env)
    options = {"one-a-node": ["--ntasks-per-node=1"], "one-a-task": ["--ntasks-per-node=2"]}[way]
    workers = ["--nproc-per-node=2"] if way == "one-a-node" else []
    result = cluster.run("srun", "-N2", *options, "ddprun", *workers, *command, env=env, timeout=240)
    assert result.code == 0, str(result)
    return result.stdout


def manual(hosts: HostGroup, command: list[str], env: dict[str, str] | None) -> str:
    both = [hosts[name].popen(["ddprun", "--nnodes=2", f"--node-rank={number}", "--nproc-per-node=2",
                               f"--master-addr={hosts['n1'].address}", *command], env=env)
            for number, name in enumerate(("n1", "n2"))]
    results: list[Result] = [process.wait(timeout=240) for process in both]
    text = "\n".join(str(result) for result in results)
    assert [result.code for result in results] == [0, 0], text
    return "".join(result.stdout for result in results)


def ranks(text: str) -> list[str]:
    return sorted(re.findall(r"^rank .*$", text, re.MULTILINE))


@EACH_WAY
def test_lightning_takes_the_elastic_environment_also_under_slurm(cluster, way):
    require("pytorch_lightning")
    text = run(cluster, way, str(LIGHTNING), "--nodes=2", "--devices=2")
    lines = ranks(text)
    assert [line.split(", weights")[0] for line in lines] == [
        f"rank {rank} of 4, local rank {rank % 2}, TorchElasticEnvironment" for rank in range(4)], text
    assert len({line.split(", weights")[1] for line in lines}) == 1, text


@EACH_WAY
def test_accelerate_and_the_trainer_of_transformers(cluster, way):
    require("accelerate")
    text = run(cluster, way, "accelerate_state.py")
    assert ranks(text) == [f"rank {rank} of 4 local {rank % 2} MULTI_CPU gloo: sum 6" for rank in range(4)], text


def test_accelerate_with_leftovers_of_mpi_launchers(cluster):
    require("accelerate")
    text = run(cluster, "by-hand", "accelerate_state.py", env=LEFTOVERS)
    assert ranks(text) == [f"rank {rank} of 4 local {rank % 2} MULTI_CPU gloo: sum 6" for rank in range(4)], text


@EACH_WAY
def test_ignite_and_monai(cluster, way):
    require("ignite")
    text = run(cluster, way, "ignite_idist.py")
    assert ranks(text) == [f"rank {rank} of 4 local {rank % 2} node {rank // 2} of 2: sum 6" for rank in range(4)], text


@pytest.mark.parametrize(("way", "env"), [("by-hand", {}), ("by-hand", LEFTOVERS), ("one-a-node", {}),
                                          ("one-a-task", {})],
                         ids=["by-hand", "by-hand-after-mpi", "one-a-node", "one-a-task"])
def test_deepspeed_does_not_ask_mpi(cluster, way, env):
    text = run(cluster, way, "deepspeed_discovery.py", env=env)
    assert ranks(text) == [f"rank {rank} of 4: asks MPI False, local ranks agree True" for rank in range(4)], text
