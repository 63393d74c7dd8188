"""--nnodes MIN:MAX in a Slurm step: a ddprun that is killed leaves the others to go on."""

from __future__ import annotations

import shlex

import pytest

from support.hosts import wait_until


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
    assert "starting all workers again" in result.stderr, str(result)


# Notes its ddprun in the first attempt, and waits there.
NOTING = ("cd {0}; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || {{ touch again.$RANK.of.$WORLD_SIZE; exit 0; }};"
          "echo $PPID > new.$RANK; mv new.$RANK agent.$RANK; exec sleep 600")


def test_of_the_many_of_each_node_one_takes_over_when_the_coordinator_s_node_is_lost(cluster, directory):
    step = cluster.popen("srun", "--no-kill", "--kill-on-bad-exit=0", "-N3", "--ntasks-per-node=4", "ddprun", "--nnodes",
                         "1:3", "--no-python", "sh", "-c", NOTING.format(directory))
    wait_until("all run", lambda: len(list(directory.glob("agent.*"))) == 12)
    # Stopped first: then none does anything about the loss of another.
    first_node = " ".join((directory / f"agent.{rank}").read_text().strip() for rank in range(4))
    cluster.hosts["n1"].check(["sh", "-c", f"kill -STOP {first_node}; kill -KILL {first_node}"])
    result = step.wait()
    assert sorted(path.name for path in directory.glob("again.*")) == [f"again.{rank}.of.8" for rank in range(8)], str(result)
    assert "n2 coordinates now; starting all workers again, 8 of 12 ranks\n" in result.stderr, str(result)


WAITING = ("cd {0}; echo $(hostname) > $TORCHELASTIC_RESTART_COUNT.$RANK.of.$WORLD_SIZE;"
           "trap 'exit 0' TERM; until [ -e {0}/end ]; do sleep 0.1; done")


def places(directory, attempt: int) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in directory.glob(f"{attempt}.*")}


@pytest.mark.parametrize(("options", "then"), [
    (["--nnodes", "2:3"], {"1.0.of.2": "n1", "1.1.of.2": "n3"}),
    (["--spares", "1"], {"1.0.of.2": "n1", "1.1.of.2": "n3"}),
], ids=["range", "spares"])
def test_where_ddprun_starts_itself_the_job_goes_on_too(cluster, directory, options, then):
    result = cluster.run("salloc", "-N3", "ddprun", *options, "--no-python", "sh", "-c", PROGRAM.format(directory))
    assert result.code == 0, str(result)
    assert sorted(path.name for path in directory.glob("1.*")) == sorted(then), str(result)


def test_a_node_that_is_cut_off_from_a_job_with_a_spare(cluster, directory):
    script = directory / "job.sh"
    program = shlex.quote(WAITING.format(directory))
    script.write_text(f"#!/bin/sh\nddprun --host-timeout 7 --spares 1 --no-python sh -c {program}\necho $? > {directory}/code\n")
    told = cluster.run("sbatch", "--parsable", "-N3", "--no-kill", f"--output={directory}/output", str(script))
    assert told.code == 0, str(told)
    wait_until("both workers run", lambda: len(places(directory, 0)) == 2)
    cluster.hosts["n2"].unplug()
    try:
        wait_until("they run again", lambda: len(places(directory, 1)) == 2 and all(places(directory, 1).values()))
        assert places(directory, 1) == {"1.0.of.2": "n1", "1.1.of.2": "n3"}
        (directory / "end").touch()
        wait_until("ddprun has ended", lambda: (directory / "code").exists() and (directory / "code").read_text())
    finally:
        cluster.hosts["n2"].plug_in_again()
    assert (directory / "code").read_text() == "0\n", (directory / "output").read_text()
    assert cluster.wait_for_job(told.stdout) == 0
