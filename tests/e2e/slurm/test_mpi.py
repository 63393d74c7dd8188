"""MPI launchers inside a batch job, and srun's own PMI and PMIx when they are asked for."""

from __future__ import annotations

import shutil

import pytest

from support import evidence
from support.mpi import ranks_by_host
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
OPEN_MPI = "mpirun.openmpi --allow-run-as-root --mca btl_tcp_if_include fabric0"


def check_world(directory, size, ranks):
    workers = evidence.workers(directory)
    assert [int(worker["RANK"]) for worker in workers] == list(range(size))
    assert {worker["WORLD_SIZE"] for worker in workers} == {str(size)}
    assert ranks_by_host(workers) == ranks


def batch(cluster, directory, line):
    """Runs one line in a job of two nodes."""
    script = directory / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {line}\n")
    result = cluster.batch("-N2", "--ntasks-per-node=2", f"--output={directory}/out", str(script))
    output = (directory / "out").read_text()
    assert result.code == 0, f"{result}\n{output}"
    return output


@pytest.mark.parametrize("mpiexec, one_each, two_each", [
    ("mpiexec.hydra", "-ppn 1 -n 2", "-ppn 2 -n 4"),
    (OPEN_MPI, "--map-by ppr:1:node", "--map-by ppr:2:node"),
], ids=["hydra", "open-mpi"])
class TestInABatchScript:
    @pytest.fixture(autouse=True)
    def needs_launcher(self, mpiexec):
        if shutil.which(mpiexec.split()[0]) is None:
            pytest.skip(f"{mpiexec.split()[0]} is not installed")

    def test_one_agent_a_node(self, cluster, directory, mpiexec, one_each, two_each):
        batch(cluster, directory, f"{mpiexec} {one_each} ddprun --nproc-per-node 2 {PRINT} {directory} 4")
        check_world(directory, 4, {"n1": [0, 1], "n2": [2, 3]})

    def test_one_agent_a_worker(self, cluster, directory, mpiexec, one_each, two_each):
        batch(cluster, directory, f"{mpiexec} {two_each} ddprun {PRINT} {directory} 4")
        check_world(directory, 4, {"n1": [0, 1], "n2": [2, 3]})


@pytest.mark.parametrize("mpi", ["pmi2", "pmix"])
@pytest.mark.parametrize("each", [1, 2])
def test_srun_s_own_exchange_where_it_is_asked_for(cluster, directory, mpi, each):
    result = cluster.run("srun", f"--mpi={mpi}", "-N2", f"--ntasks-per-node={each}", "ddprun", "--rdzv", "pmi",
                         "--nproc-per-node", str(3 - each), PRINT, str(directory), "4")
    assert result.code == 0, str(result)
    check_world(directory, 4, {"n1": [0, 1], "n2": [2, 3]})


def test_an_exchange_that_is_not_there_is_missed(cluster):
    result = cluster.run("srun", "--mpi=none", "-N2", "--ntasks-per-node=1", "ddprun", "--rdzv", "pmi", PRINT, ".")
    assert result.code == 2, str(result)
    assert "--rdzv pmi requires a launcher with PMI or PMIx" in result.stderr, str(result)
