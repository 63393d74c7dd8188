"""Who gets which rank, and that everybody finds the first ddprun."""

from __future__ import annotations

import pytest

from support import evidence
from support.mpi import one_each, ranks_by_host
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")


def launch(hosts, line, *, on="a", **more):
    result = hosts[on].run(line, **more)
    assert result.code == 0, str(result)
    return result


def check_world(workers, size):
    assert [int(worker["RANK"]) for worker in workers] == list(range(size))
    assert {worker["WORLD_SIZE"] for worker in workers} == {str(size)}
    assert len({(worker["MASTER_ADDR"], worker["MASTER_PORT"]) for worker in workers}) == 1
    assert workers[0]["MASTER_ADDR"].startswith("10.77.0.")


def test_one_agent_a_node_with_several_workers(hosts, launcher, directory):
    launch(hosts, launcher.line(one_each("abc"), "ddprun", "--nproc-per-node", "2", PRINT, str(directory), "6"))
    workers = evidence.workers(directory)
    check_world(workers, 6)
    assert ranks_by_host(workers) == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
    assert not [name for name in workers[0] if name.startswith(("PMI_", "PMIX_RANK", "OMPI_COMM_WORLD", "HYDI"))]


def test_one_agent_a_worker(hosts, launcher, directory):
    launch(hosts, launcher.line({"a": 2, "b": 2}, "ddprun", PRINT, str(directory), "4"))
    workers = evidence.workers(directory)
    check_world(workers, 4)
    assert ranks_by_host(workers) == {"a": [0, 1], "b": [2, 3]}
    assert [worker["LOCAL_RANK"] for worker in workers] == ["0", "1", "0", "1"]


def test_uneven_hosts(hosts, launcher, directory):
    launch(hosts, launcher.line({"a": 2, "b": 1}, "ddprun", PRINT, str(directory), "3"))
    workers = evidence.workers(directory)
    check_world(workers, 3)
    assert ranks_by_host(workers) == {"a": [0, 1], "b": [2]}


def test_the_single_task_comes_first(hosts, launcher, directory):
    launch(hosts, launcher.line({"a": 1, "b": 2}, "ddprun", PRINT, str(directory), "3"))
    workers = evidence.workers(directory)
    check_world(workers, 3)
    assert ranks_by_host(workers) == {"a": [0], "b": [1, 2]}


@pytest.mark.parametrize("workers_each", ["1", "2"])
def test_the_launcher_is_on_a_host_without_ranks(hosts, launcher, directory, workers_each):
    count = 2 * int(workers_each)
    launch(hosts, launcher.line(one_each("bc"), "ddprun", "--nproc-per-node", workers_each, PRINT, str(directory),
                                str(count)), on="d")
    workers = evidence.workers(directory)
    check_world(workers, count)
    assert sorted(ranks_by_host(workers)) == ["b", "c"]


def test_ranks_by_node_in_turn(hosts, open_mpi, directory):
    launch(hosts, open_mpi.line({"a": 2, "b": 2}, "--map-by", "node", "ddprun", PRINT, str(directory), "4"))
    workers = evidence.workers(directory)
    check_world(workers, 4)
    assert ranks_by_host(workers) == {"a": [0, 2], "b": [1, 3]}


def test_processes_per_node(hosts, hydra, directory):
    launch(hosts, [hydra.program, *hydra.options, "-hosts", "a,b", "-ppn", "2", "-n", "4", "ddprun", PRINT,
                   str(directory), "4"])
    workers = evidence.workers(directory)
    check_world(workers, 4)
    assert ranks_by_host(workers) == {"a": [0, 1], "b": [2, 3]}


@pytest.mark.parametrize("how", ["pmi", "file"])
@pytest.mark.parametrize("processes", [{"a": 1, "b": 1}, {"a": 2, "b": 2}], ids=["one-a-node", "two-a-node"])
def test_each_way_to_meet(hosts, launcher, directory, how, processes):
    count = sum(processes.values())
    folder = directory / "discovery"
    launch(hosts, launcher.line(processes, "ddprun", "--rdzv", how, "--rdzv-dir", str(folder), PRINT, str(directory),
                                str(count)))
    check_world(evidence.workers(directory), count)
    assert folder.is_dir() == (how == "file")
    assert list(folder.glob("*")) == []


def test_the_environment_of_a_pbs_job_around(hosts, launcher, directory):
    """Over ssh hydra gives every process the first host's variables, Open MPI none of them."""
    nodes = directory / "nodes"
    nodes.write_text("a\na\nb\nb\n")
    job = {"PBS_JOBID": "7.ctl", "PBS_JOBCOOKIE": "00000000AB", "PBS_NODENUM": "0", "PBS_TASKNUM": "1",
           "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": str(nodes), "NCPUS": "2"}
    launch(hosts, launcher.line({"a": 2, "b": 2}, "ddprun", PRINT, str(directory), "4"), env=job)
    workers = evidence.workers(directory)
    check_world(workers, 4)
    assert ranks_by_host(workers) == {"a": [0, 1], "b": [2, 3]}


# prterun gives each process PMIX_RANK and the way to a PMIx server, and no more. Open MPI's mpirun is such a server.
AS_PRTERUN = ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE", "-u", "OMPI_COMM_WORLD_LOCAL_RANK",
              "-u", "OMPI_COMM_WORLD_LOCAL_SIZE"]


@pytest.mark.parametrize("layout", [{"a": 2, "b": 2}, {"a": 2, "b": 1}, {"a": 1, "b": 1}], ids=str)
def test_the_size_is_asked_from_pmix(hosts, open_mpi, directory, layout):
    size = sum(layout.values())
    launch(hosts, open_mpi.line(layout, *AS_PRTERUN, "ddprun", PRINT, str(directory), str(size)))
    workers = evidence.workers(directory)
    check_world(workers, size)
    assert {host: len(ranks) for host, ranks in ranks_by_host(workers).items()} == layout
