"""Real torch on the cluster: what users' scripts see."""

from __future__ import annotations

import json
import re

import pytest

from support.programs import SCRIPTS

ALLREDUCE = str(SCRIPTS / "allreduce.py")
TRAIN = str(SCRIPTS / "train_ddp.py")

pytestmark = pytest.mark.usefixtures("torch_python")


def sums(text: str) -> list[str]:
    return sorted(re.findall(r"^rank \d+ .*?: .*$|^rank \d+: .*$", text, re.MULTILINE))


def reduced(size: int) -> list[str]:
    return [f"rank {rank} of {size}: sum {sum(range(size))}" for rank in range(size)]


@pytest.mark.parametrize("options", [
    pytest.param(["-N3", "--ntasks-per-node=1"], id="one-a-node"),
    pytest.param(["-N2", "-n3", "-m", "cyclic"], id="one-a-task"),
])
def test_allreduce(cluster, options):
    result = cluster.run("srun", *options, "ddprun", ALLREDUCE)
    assert result.code == 0, str(result)
    assert sums(result.stdout) == reduced(3), str(result)


def test_the_store_can_be_left_to_rank_0(cluster):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "ddprun", "--store", "worker", ALLREDUCE)
    assert result.code == 0, str(result)
    assert sums(result.stdout) == reduced(2), str(result)


def test_the_store_can_be_left_to_rank_0_on_a_host_that_does_not_coordinate(cluster, directory):
    host_file = directory / "hostfile"
    host_file.write_text("n3\nn1\nn3\nn2\n")
    result = cluster.run("srun", "-N3", "-n4", "-m", "arbitrary", "ddprun", "--store", "worker", "--max-restarts", "1",
                         str(SCRIPTS / "allreduce_again.py"), env={"SLURM_HOSTFILE": str(host_file)})
    assert result.code == 0, str(result)
    address = cluster.hosts["n3"].address
    for attempt in (0, 1):
        for rank in range(4):
            assert f"attempt {attempt} rank {rank}: sum 6 at {address}" in result.stdout, str(result)


def test_a_training_that_fails_twice_ends_as_an_undisturbed_one(cluster, directory):
    def train(name: str, *arguments: str) -> dict[int, dict]:
        result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "ddprun", "--max-restarts", "3",
                             "--restart-policy", "always", TRAIN, str(directory / name), *arguments)
        assert result.code == 0, str(result)
        records = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        return {record["rank"]: record for record in records}

    calm = train("calm")
    disturbed = train("disturbed", "2")
    assert [record["attempt"] for record in disturbed.values()] == [2, 2]
    assert disturbed[0]["losses"] == calm[0]["losses"]
    assert calm[0]["losses"][-1] < calm[0]["losses"][0]


@pytest.mark.parametrize("names", ["own_name_on_loopback", "unreachable_network_first"])
def test_names_that_lead_astray(cluster, names):
    with getattr(cluster.hosts, names)():
        result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "ddprun", ALLREDUCE)
    assert result.code == 0, str(result)
    assert sums(result.stdout) == reduced(2), str(result)


def test_guide_script_that_spawns_its_own_processes(cluster):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "ddprun", str(SCRIPTS / "guides" / "spawn.py"))
    assert result.code == 0, str(result)
    # The two processes of a worker share its pipe, and an unbuffered python writes a line's end by itself.
    found = sorted(re.findall(r"rank \d+: sum \d+", result.stdout))
    assert found == [f"rank {rank}: sum 6" for rank in range(4)], str(result)


def test_guide_trainer(cluster):
    result = cluster.run("srun", "-N1", "--ntasks-per-node=1", "ddprun", "--nproc-per-node", "2",
                         str(SCRIPTS / "guides" / "trainer.py"))
    assert result.code == 0, str(result)
    lines = sums(result.stdout)
    assert [line.split(":")[0] for line in lines] == ["rank 0 local 0", "rank 1 local 1"], str(result)
    assert len({line.split(": ")[1] for line in lines}) == 1, str(result)


@pytest.mark.parametrize(("options", "places"), [
    pytest.param(["srun", "-N2", "-n3", "-m", "cyclic", "ddprun"], [(0, 0), (1, 0), (2, 1)], id="one-a-task"),
    pytest.param(["srun", "-N1", "--ntasks-per-node=1", "ddprun", "--nproc-per-node=2"], [(0, 0), (1, 1)],
                 id="one-a-node"),
])
def test_guide_script_that_takes_its_rank_from_slurm(cluster, options, places):
    result = cluster.run(*options, str(SCRIPTS / "guides" / "slurm_procid.py"))
    assert result.code == 0, str(result)
    total = sum(rank for rank, _ in places)
    assert sums(result.stdout) == [f"rank {rank} local {local}: sum {total}" for rank, local in places], str(result)
