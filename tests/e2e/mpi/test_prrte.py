"""PRRTE's own prterun, which Open MPI 5 starts its processes with: it gives PMIX_RANK and the way to a PMIx server.

Debian 12 has no PRRTE; scripts/test installs Open MPI 5 from PyPI, which brings one.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from support import evidence, programs
from support.mpi import Launcher, one_each, ranks_by_host
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")


@pytest.fixture(params=["prterun", "mpirun"])
def prrte(request) -> Launcher:
    place = Path(os.environ.get("DDPRUN_TEST_PRRTE") or programs.REPOSITORY / "build" / "prrte")
    program = place / "bin" / request.param
    if not os.access(program, os.X_OK):
        pytest.skip(f"no {request.param} of PRRTE: name a folder with bin/prterun in DDPRUN_TEST_PRRTE")
    options = ("--prefix", str(place), "--allow-run-as-root", "--prtemca", "plm_ssh_agent", "ssh", "--prtemca", "prte_if_include", "fabric0",
               "--bind-to", "none")
    return Launcher("prrte", str(program), options)


@pytest.mark.parametrize("layout", [{"a": 2, "b": 2}, {"a": 2, "b": 1}, one_each("abc")], ids=str)
def test_a_ddprun_for_each_process(hosts, prrte, directory, layout):
    size = sum(layout.values())
    result = hosts["a"].run(prrte.line(layout, "ddprun", PRINT, str(directory), str(size)))
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    assert [int(worker["RANK"]) for worker in workers] == list(range(size)), str(result)
    assert {worker["WORLD_SIZE"] for worker in workers} == {str(size)}
    assert {host: len(ranks) for host, ranks in ranks_by_host(workers).items()} == layout


def test_one_ddprun_a_node_with_several_workers(hosts, prrte, directory):
    result = hosts["a"].run(prrte.line(one_each("ab"), "ddprun", "--nproc-per-node", "2", PRINT, str(directory), "4"))
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    assert ranks_by_host(workers) == {"a": [0, 1], "b": [2, 3]}
    assert not [name for name in workers[0] if name.startswith(("PMIX_RANK", "OMPI_COMM_WORLD"))]


def test_a_worker_s_exit_code_comes_back(hosts, prrte):
    result = hosts["a"].run(prrte.line(one_each("ab"), "ddprun", "--no-python", "sh", "-c", "exit $((RANK * 7))"))
    assert result.code == 7, str(result)
    assert "rank 1 on b" in result.stderr, str(result)


# In the first attempt rank 1 kills its ddprun once all have noted that they run.
LOSE_ONE = ("cd {0}; touch $TORCHELASTIC_RESTART_COUNT.$RANK.of.$WORLD_SIZE; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0;"
            "if [ $RANK = 1 ]; then until [ $(ls 0.* | wc -l) = 3 ]; do sleep 0.1; done; kill -KILL $PPID; fi; exec sleep 600")


def lose_one(hosts, prrte, directory, *options):
    recovering = dataclasses.replace(prrte, options=(*prrte.options, *options))
    return hosts["a"].run(recovering.line(one_each("abc"), "ddprun", "--nnodes", "2:3", "--no-python", "sh", "-c",
                                          LOSE_ONE.format(directory)))


def recovery_of(prrte) -> tuple[str, ...]:
    return ("--enable-recovery",) if prrte.program.endswith("mpirun") else ("--runtime-options", "recoverable")


def test_a_job_goes_on_without_a_killed_ddprun_if_prrte_is_told_to_recover(hosts, prrte, directory):
    result = lose_one(hosts, prrte, directory, *recovery_of(prrte))
    assert sorted(path.name for path in directory.glob("1.*")) == ["1.0.of.2", "1.1.of.2"], str(result)
    assert "starting all workers again on 2 of 3 nodes" in result.stderr, str(result)


def test_prrte_ends_the_job_else_and_ddprun_says_so_before(hosts, prrte, directory):
    result = lose_one(hosts, prrte, directory)
    assert result.code != 0, str(result)
    lacking = " ".join(recovery_of(prrte))
    assert f"ends ddprun on all nodes when ddprun is lost on one, without {lacking}\n" in result.stderr, str(result)
