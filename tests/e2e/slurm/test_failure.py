"""How a job on several hosts ends: once, with the cause's exit code, and with nothing left behind."""

from __future__ import annotations

import json
import uuid

import pytest

from support import evidence
from support.hosts import wait_until

ONE_A_NODE = ["--ntasks-per-node=1"]


def test_a_failing_worker_ends_the_job_with_its_code_and_is_named_once(cluster):
    result = cluster.run("srun", "-N3", *ONE_A_NODE, "ddprun", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                         "[ $RANK = 3 ] && exit 3; exec sleep 600")
    assert result.code == 3, str(result)
    assert evidence.times_said(result.output, "rank 3 on n2 exited with code 3") == 1, str(result)
    assert evidence.times_said(result.output, "exited with code") == 1, str(result)


def test_a_failing_worker_of_one_ddprun_a_task(cluster):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=2", "ddprun", "--no-python", "sh", "-c",
                         "[ $RANK = 1 ] && exit 3; exec sleep 600")
    assert result.code == 3, str(result)
    assert evidence.times_said(result.output, "rank 1 on n1 exited with code 3") == 1, str(result)


def test_a_crashing_worker_gives_128_and_its_signal(cluster):
    result = cluster.run("srun", "-N2", *ONE_A_NODE, "ddprun", "--no-python", "sh", "-c",
                         "[ $RANK = 1 ] && kill -SEGV $$; exec sleep 600")
    assert result.code == 139, str(result)
    assert evidence.times_said(result.output, "rank 1 on n2 was killed by SIGSEGV") == 1, str(result)


def test_workers_that_ignore_the_stop_are_killed_and_do_not_change_the_code(cluster):
    result = cluster.run("srun", "-N2", *ONE_A_NODE, "ddprun", "--shutdown-timeout", "1", "--no-python", "sh", "-c",
                         "[ $RANK = 1 ] && exit 3; trap '' TERM; while :; do sleep 1; done")
    assert result.code == 3, str(result)
    assert evidence.times_said(result.output, "rank 1 on n2 exited with code 3") == 1, str(result)


def test_a_program_that_does_not_exist(cluster):
    result = cluster.run("srun", "-N2", *ONE_A_NODE, "ddprun", "--no-python", "no-such-program")
    assert result.code == 127, str(result)
    assert "no-such-program" in result.stderr, str(result)


def test_restarts_count_the_same_on_all_hosts(cluster, directory):
    # Rank 1 fails once rank 0 has written: a worker may be stopped before its first instruction.
    program = (f"cd {directory}; echo $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS >> rank.$RANK;"
               "[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0;"
               "while [ $RANK = 1 ] && ! grep -qs ^$TORCHELASTIC_RESTART_COUNT rank.0; do sleep 0.1; done;"
               "[ $RANK = 1 ] && exit 9; exec sleep 600")
    result = cluster.run("srun", "-N2", *ONE_A_NODE, "ddprun", "--max-restarts", "3", "--restart-policy", "always",
                         "--no-python", "sh", "-c", program)
    assert result.code == 0, str(result)
    for rank in (0, 1):
        assert (directory / f"rank.{rank}").read_text().split("\n")[:-1] == ["0 3", "1 3", "2 3"], str(result)


def test_restarts_are_used_up(cluster, directory):
    result = cluster.run("srun", "-N2", *ONE_A_NODE, "ddprun", "--max-restarts", "1", "--no-python", "sh", "-c",
                         f"echo x >> {directory}/rank.$RANK; [ $RANK = 0 ] && exit 9; exec sleep 600")
    assert result.code == 9, str(result)
    assert (directory / "rank.0").read_text() == "x\nx\n"


def test_scancel_reaches_the_workers_and_leaves_nothing(cluster, directory):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    name, value = marker.split("=")
    # Slurm signals every process of the step, and a worker's own child may die of it before the worker is told.
    worker = (f"trap 'echo $RANK > {directory}/stopped.$RANK; exit 0' TERM; touch {directory}/ready.$RANK;"
              "while :; do sleep 1; done")
    job = cluster.popen("srun", "-N2", *ONE_A_NODE, "ddprun", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                        worker, env={name: value})
    wait_until("all workers run", lambda: len(list(directory.glob("ready.*"))) == 4)
    cluster.run("scancel", "--user=root")
    result = job.wait()
    assert result.code != 0, str(result)
    assert sorted(path.name for path in directory.glob("stopped.*")) == [f"stopped.{rank}" for rank in range(4)], str(result)
    wait_until("no process of the job is left", lambda: not cluster.hosts.processes_with(marker), 20)


def test_a_lost_host_ends_the_others(cluster, directory):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    name, value = marker.split("=")
    job = cluster.popen("srun", "-N2", *ONE_A_NODE, "sh", "-c", f"echo $$ > {directory}/ddprun.$SLURM_PROCID;"
                        f"exec ddprun --report {directory}/report --no-python sh -c 'touch {directory}/ready.$RANK; exec sleep 600'",
                        env={name: value})
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    cluster.hosts["n2"].check(["kill", "-KILL", (directory / "ddprun.1").read_text().strip()])
    result = job.wait()
    assert result.code != 0, str(result)
    # srun ends a step whose task was killed, and may lose what the others have written last.
    said = [*evidence.spoken(result.stderr), json.loads((directory / "report").read_text())["what"]]
    assert any("n2" in line for line in said), str(result)
    wait_until("no process of the job is left", lambda: not cluster.hosts.processes_with(marker), 20)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_host_is_named_when_the_join_timeout_ends(cluster, missing):
    result = cluster.run("srun", "-N2", *ONE_A_NODE, "sh", "-c", f"[ $SLURM_PROCID = {missing} ] && exit 0;"
                         "exec ddprun --join-timeout 3 --no-python true")
    assert result.code == 124, str(result)
    assert any(f"n{missing + 1}" in line for line in evidence.spoken(result.stderr)), str(result)
