"""What MPI programs see behind ddprun."""

from __future__ import annotations

import pytest

from support import programs
from support.mpi import one_each
from support.programs import SCRIPTS


def check_ranks(result, size):
    lines = sorted(line for line in result.stdout.splitlines() if line.startswith("MPI rank"))
    assert result.code == 0, str(result)
    assert lines == [f"MPI rank {rank} of {size}" for rank in range(size)], str(result)


def test_a_worker_for_each_process_has_the_launcher_s_connection(hosts, hydra, mpi_hello):
    check_ranks(hosts["a"].run(hydra.line({"a": 2, "b": 2}, "ddprun", "--no-python", str(mpi_hello))), 4)


@pytest.mark.parametrize("options", [[], ["--rdzv", "pmi"]], ids=["auto", "pmi"])
def test_one_worker_on_each_host_has_the_connection_that_ddprun_has_used(hosts, hydra, mpi_hello, options):
    check_ranks(hosts["a"].run(hydra.line(one_each("abc"), "ddprun", *options, "--no-python", str(mpi_hello))), 3)


def test_several_workers_of_one_agent_are_alone_to_mpi(hosts, hydra, mpi_hello):
    result = hosts["a"].run(hydra.line(one_each("ab"), "ddprun", "--nproc-per-node", "2", "--no-python",
                                       str(mpi_hello)))
    assert result.code == 0, str(result)
    assert result.stdout.splitlines().count("MPI rank 0 of 1") == 4, str(result)


def test_several_workers_have_no_descriptors_of_the_launcher(hosts, launcher, directory):
    script = "ls /proc/self/fd | grep -vx '[0-3]' || true"
    result = hosts["a"].run(launcher.line(one_each("ab"), "ddprun", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                                          script))
    assert result.code == 0 and result.stdout == "", str(result)


@pytest.mark.parametrize("workers_each", ["1", "2"])
def test_gloo(hosts, launcher, torch_python, workers_each):
    reason = programs.why_no_torch()
    if reason is not None:
        pytest.skip(reason)
    processes = one_each("ab") if workers_each == "2" else {"a": 2, "b": 2}
    result = hosts["a"].run(launcher.line(processes, "ddprun", "--nproc-per-node", workers_each, "--no-python",
                                          str(torch_python), str(SCRIPTS / "allreduce.py")), timeout=240)
    assert result.code == 0, str(result)
    assert sorted(result.stdout.splitlines()) == [f"rank {rank} of 4: sum 6" for rank in range(4)], str(result)
