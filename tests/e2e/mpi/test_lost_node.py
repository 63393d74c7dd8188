"""--nnodes MIN:MAX under real MPI launchers: which of them leaves the others alone when a ddprun is killed."""

from __future__ import annotations

import dataclasses

from support.hosts import wait_until
from support.mpi import one_each

# In the first attempt rank 1 kills its ddprun once all have noted that they run.
PROGRAM = ("cd {0}; touch $TORCHELASTIC_RESTART_COUNT.$RANK.of.$WORLD_SIZE; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0;"
           "if [ $RANK = 1 ]; then until [ $(ls 0.* | wc -l) = 3 ]; do sleep 0.1; done; kill -KILL $PPID; fi; exec sleep 600")

WAITING = ("cd {0}; touch $TORCHELASTIC_RESTART_COUNT.$RANK.of.$WORLD_SIZE; until [ -e end ]; do sleep 0.1; done;"
           "touch $TORCHELASTIC_RESTART_COUNT.$RANK.ended")


def run(hosts, launcher, directory):
    return hosts["a"].run(launcher.line(one_each("abc"), "ddprun", "--nnodes", "2:3", "--no-python", "sh", "-c",
                                        PROGRAM.format(directory)))


def test_open_mpi_goes_on_if_it_is_told_to_recover(hosts, open_mpi, directory):
    recovering = dataclasses.replace(open_mpi, options=(*open_mpi.options, "--enable-recovery"))
    result = run(hosts, recovering, directory)
    assert sorted(path.name for path in directory.glob("1.*")) == ["1.0.of.2", "1.1.of.2"], str(result)
    assert "starting all workers again on 2 of 3 nodes" in result.stderr, str(result)
    assert "ends ddprun on all nodes" not in result.stderr, str(result)


def test_open_mpi_ends_the_job_else_and_ddprun_says_so_before(hosts, open_mpi, directory):
    result = run(hosts, open_mpi, directory)
    assert result.code != 0, str(result)
    assert "Open MPI ends ddprun on all nodes when ddprun is lost on one, without --enable-recovery\n" in result.stderr, str(result)


def test_hydra_ends_the_job_and_ddprun_says_so_before(hosts, hydra, directory):
    result = run(hosts, hydra, directory)
    assert result.code != 0, str(result)
    assert "hydra ends ddprun on all nodes when ddprun is lost on one" in result.stderr, str(result)


def test_workers_go_on_without_a_host_that_is_silent(hosts, launcher, directory):
    started = hosts["a"].popen(launcher.line(one_each("abc"), "ddprun", "--nnodes", "2:3", "--host-timeout", "7", "--no-python",
                                             "sh", "-c", WAITING.format(directory)))
    wait_until("all workers run", lambda: len(list(directory.glob("0.*"))) == 3)
    hosts["b"].unplug()
    try:
        wait_until("two run again", lambda: len(list(directory.glob("1.*.of.2"))) == 2)
        (directory / "end").touch()
        wait_until("both have ended", lambda: len(list(directory.glob("1.*.ended"))) == 2)
    finally:
        hosts["b"].plug_in_again()
        started.kill()
