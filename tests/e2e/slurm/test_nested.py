"""A worker runs a ddprun of its own, as for an evaluation between two epochs."""

from __future__ import annotations

import pytest

from support import evidence
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
OUTER = {"srun": "srun -N2 --ntasks-per-node=1 ddprun", "srun, one a task": "srun -N2 --ntasks-per-node=2 ddprun",
         "mpiexec": "salloc -N2 --ntasks-per-node=1 mpiexec.hydra -ppn 1 ddprun",
         "itself": "salloc -N2 --ntasks-per-node=1 ddprun"}


@pytest.mark.parametrize("outer", OUTER)
def test_a_ddprun_that_a_worker_starts_is_a_launch_of_its_own_on_its_host(cluster, directory, outer):
    (directory / "nested.sh").write_text(
        f"[ $RANK = 1 ] || exit 0\nexport OUTER_LAUNCH=$DDPRUN_LAUNCH_ID\n"
        f"exec ddprun --join-timeout 20 --nproc-per-node 2 {PRINT} {directory}\n")
    result = cluster.run(*OUTER[outer].split(), "--no-python", "sh", f"{directory}/nested.sh")
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    assert [(each["RANK"], each["WORLD_SIZE"], each["LOCAL_WORLD_SIZE"]) for each in workers] == [
        ("0", "2", "2"), ("1", "2", "2")], str(result)
    assert len({(each["host"], each["DDPRUN_LAUNCH_ID"]) for each in workers}) == 1
    assert all(each["DDPRUN_LAUNCH_ID"] != each["OUTER_LAUNCH"] for each in workers)
    assert evidence.times_said(result.stderr, "runs inside a worker of another ddprun") == 1, str(result)
    assert "only: this shell belongs" not in result.stderr, str(result)
