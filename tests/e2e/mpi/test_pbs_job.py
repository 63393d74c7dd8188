"""MPI launchers over ssh from the script of a PBS job, whose variables were recorded under OpenPBS 23.06."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support import evidence, programs
from support.mpi import OPEN_MPI, ranks_by_host
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
RECORDED = programs.REPOSITORY / "tests" / "data" / "allocations" / "pbs-23.06-batch" / "environment"
NODE_FILE = "/run/pbs-node-file"  # /run is each host's own
LAYOUTS = {"one-a-node": {"a": 1, "b": 1}, "two-a-node": {"a": 2, "b": 2}}
OF_THE_ACCOUNT = ("HOME", "PATH", "PWD", "SHELL", "USER", "LOGNAME", "TMPDIR")


def recorded() -> dict[str, str]:
    lines = [line for line in RECORDED.read_text().splitlines() if "=" in line]
    variables = dict(line.split("=", 1) for line in lines if not line.startswith(("#", "recorded", "constructed")))
    for name in OF_THE_ACCOUNT:
        variables.pop(name, None)
    return variables | {"PBS_NODEFILE": NODE_FILE}


@pytest.fixture
def job(hosts) -> Iterator[dict[str, str]]:
    """What the script on host a has; the node file is on that host alone."""
    write_node_file(hosts, "aaaabbbb")
    yield recorded()
    hosts["a"].check(["rm", "-f", NODE_FILE])


def write_node_file(hosts, names) -> None:
    hosts["a"].check(["sh", "-c", f"printf '%s\\n' {' '.join(names)} > {NODE_FILE}"])


def check_world(directory, processes, workers_each=1):
    workers = evidence.workers(directory)
    size = sum(processes.values()) * workers_each
    assert [int(worker["RANK"]) for worker in workers] == list(range(size))
    assert {worker["WORLD_SIZE"] for worker in workers} == {str(size)}
    half = size // 2
    assert ranks_by_host(workers) == {"a": list(range(half)), "b": list(range(half, size))}
    return workers


@pytest.mark.parametrize("processes", LAYOUTS.values(), ids=LAYOUTS)
def test_ranks(hosts, launcher, directory, job, processes):
    """One ddprun a node starts the tasks of the node file."""
    each = 4 if processes == LAYOUTS["one-a-node"] else 1
    count = each * sum(processes.values())
    result = hosts["a"].run(launcher.line(processes, "ddprun", PRINT, str(directory), str(count)), env=job)
    assert result.code == 0, str(result)
    check_world(directory, processes, workers_each=each)


def test_the_threads_of_the_chunk_are_shared_out(hosts, hydra, directory, job):
    processes = LAYOUTS["one-a-node"]
    line = hydra.line(processes, "ddprun", "--nproc-per-node", "2", PRINT, str(directory), "4")
    result = hosts["a"].run(line, env=job)
    assert result.code == 0, str(result)
    workers = check_world(directory, processes, workers_each=2)
    assert job["OMP_NUM_THREADS"] == job["NCPUS"] == "4"
    for worker in workers:  # two share a host, each has cores of its own
        assert 1 <= int(worker["OMP_NUM_THREADS"]) <= len(worker["cpus"]), worker
    if (os.cpu_count() or 1) > 1:
        assert not set(workers[0]["cpus"]) & set(workers[1]["cpus"]), str(workers)


def test_the_plan_names_the_secret_that_is_offered_first(hosts, launcher, directory, job):
    """Over ssh Open MPI's second host knows nothing of the job."""
    line = launcher.line(LAYOUTS["one-a-node"], "ddprun", "--dry-run", PRINT, str(directory), "2")
    result = hosts["a"].run(line, env=job)
    row = next(text for text in result.stdout.splitlines() if "a secret of this job" in text)
    first = "OMPI_MCA_orte_precon" if launcher is OPEN_MPI else "PBS_JOBCOOKIE"  # a long name is wrapped
    assert row.split("a secret of this job")[1].strip().startswith(first), str(result)


def test_a_process_whose_rank_is_lost(hosts, open_mpi, directory, job):
    """As with a launcher that ddprun does not know: every process would be a world of one."""
    lost = [word for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK") for word in ("-u", name)]
    line = open_mpi.line(LAYOUTS["one-a-node"], "env", *lost, "ddprun", PRINT, str(directory))
    result = hosts["a"].run(line, env=job)
    assert result.code != 0 and evidence.workers(directory) == [], str(result)
    assert "started this ddprun on" in result.stderr, str(result)
    assert "but no variable gives its rank" in result.stderr, str(result)
