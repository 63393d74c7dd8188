"""Several programs, started by the launchers of MPI."""

from __future__ import annotations

import os
import signal

import pytest

from support import several
from support.hosts import wait_until
from support.mpi import one_each


@pytest.fixture
def env(torch_python) -> dict[str, str]:
    return {"PYTHON_EXEC": str(torch_python), "OMP_NUM_THREADS": "1"}


def test_mpiexec_starts_one_ddprun_a_node(hosts, launcher, directory, env):
    line = several.words(directory, train=("--nnodes", "2", "--nproc-per-node", "1"), colon="::")
    result = hosts["a"].run(launcher.line(one_each("abc"), "ddprun", *line), env=env)
    assert result.code == 0 and len(several.losses(result.stdout)) == 20, str(result)
    assert "ddprun: train ended with code 0; stopping server" in result.stderr, str(result)
    assert "[train 0 a]" in result.stdout, str(result)


def test_the_code_of_a_program_is_that_of_mpiexec(hosts, hydra, env):
    line = hydra.line(one_each("ab"), "ddprun", "--nnodes", "1", "--no-python", "sleep", "600", "::", "--nnodes", "1", "--name", "server",
                      "--no-python", "sh", "-c", "exit 7")
    result = hosts["a"].run(line, env=env)
    assert result.code == 7 and "rank 0 on b exited with code 7" in result.output, str(result)
    assert "server ended with code 7; stopping sleep" in result.output, str(result)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_mpiexec_leaves_nothing(hosts, launcher, directory, number):
    """Launchers end what they started at once or after a moment, so that the server may not wait for its trainer. Hydra ends with 0."""
    line = several.waiting(directory, colon="::", train=("--nnodes", "1"), server=("--nnodes", "1"))
    running = hosts["a"].popen(launcher.line(one_each("ab"), "ddprun", *line))
    wait_until("both run", lambda: all((directory / f"up.{name}").exists() for name in ("train", "server")))
    os.kill(running.pid, number)
    result = running.wait()
    wait_until("nothing is left", lambda: not several.processes(str(several.WAITS), str(directory)))
    assert result.output.count("ddprun: stopped by SIG") <= 1, str(result)
