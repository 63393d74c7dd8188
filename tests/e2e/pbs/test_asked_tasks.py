"""mpiprocs of a PBS job are the workers where no GPU is visible, by every way to start."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from support import evidence
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
HYDRA = "mpiexec.hydra -launcher ssh -f $PBS_NODEFILE"


@pytest.mark.parametrize(("select", "workers"), [
    ("2:ncpus=2", [1, 1]),
    ("2:ncpus=2:mpiprocs=2", [2, 2]),
    ("1:ncpus=2:mpiprocs=2+1:ncpus=2:mpiprocs=1", [2, 1]),
])
def test_mpiprocs_are_workers(cluster, ssh_daemons, directory, select, workers):
    if shutil.which("mpiexec.hydra") is None:
        pytest.skip("mpiexec.hydra is not installed")
    ways = {"one-a-node": f"{HYDRA} -n 2 -ppn 1 ddprun", "one-a-task": f"{HYDRA} -n {sum(workers)} ddprun", "alone": "ddprun"}
    for way in ways:
        (directory / way).mkdir()
        (directory / way).chmod(0o777)
    script = "\n".join(f"{line} {PRINT} {directory}/{way} || exit 1" for way, line in ways.items())
    result = cluster.submit(directory, script, "-l", f"select={select}", "-l", "place=scatter").wait()
    assert result.code == 0, str(result)
    for way in ways:
        started = evidence.workers(directory / way)
        hosts = Counter(worker["host"] for worker in started)
        assert sorted(hosts.values(), reverse=True) == workers and len(hosts) == 2, f"{way}: {result}"
        assert [int(worker["RANK"]) for worker in started] == list(range(sum(workers))), f"{way}: {result}"
