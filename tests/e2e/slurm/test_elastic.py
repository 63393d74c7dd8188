"""--nnodes MIN:MAX in a Slurm step: a ddprun that is killed leaves the others to go on."""

from __future__ import annotations

import pytest


# In the first attempt rank 1 kills its ddprun once all have noted that they run.
PROGRAM = ("cd {0}; touch $TORCHELASTIC_RESTART_COUNT.$RANK.of.$WORLD_SIZE;"
           "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0;"
           "if [ $RANK = 1 ]; then until [ $(ls 0.* | wc -l) = $WORLD_SIZE ]; do sleep 0.1; done; kill -KILL $PPID; fi;"
           "exec sleep 600")


@pytest.mark.parametrize(("step", "nnodes", "workers"), [
    (["-N3", "--ntasks-per-node=1"], "2:3", 3),
    (["-N2", "--ntasks-per-node=2"], "1:2", 4),
], ids=["a_node", "a_task"])
def test_the_others_start_again_without_a_killed_ddprun(cluster, directory, step, nnodes, workers):
    result = cluster.run("srun", "--no-kill", *step, "ddprun", "--nnodes", nnodes, "--no-python", "sh", "-c",
                         PROGRAM.format(directory))
    names = sorted(path.name for path in directory.iterdir())
    assert names == [f"0.{rank}.of.{workers}" for rank in range(workers)] + [
        f"1.{rank}.of.{workers - 1}" for rank in range(workers - 1)], str(result)
    assert "starting all workers again on" in result.stderr, str(result)


def test_it_starts_itself_with_a_fixed_number_of_nodes_only(cluster):
    result = cluster.run("salloc", "-N2", "ddprun", "--nnodes", "1:2", "--no-python", "true")
    assert result.code == 2, str(result)
    assert "--nnodes with a range is not supported where ddprun starts itself on the nodes" in result.stderr, str(result)
