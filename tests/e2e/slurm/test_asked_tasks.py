"""The tasks that the batch script asks for are the workers where no GPU is visible, by every way to start."""

from __future__ import annotations

from collections import Counter

import pytest

from support import evidence
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
WAYS = {"one-a-node": "srun -N2 -n2 --ntasks-per-node=1 ddprun", "one-a-task": "srun ddprun", "alone": "ddprun"}


def run(cluster, directory, options, lines):
    path = directory / "job.sh"
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    result = cluster.batch(*options, f"--output={directory}/output", str(path))
    output = (directory / "output").read_text()
    assert result.code == 0, output
    return output


@pytest.mark.parametrize(("options", "workers"), [
    (["-N2"], [1, 1]),
    (["-N2", "--exclusive"], [1, 1]),
    (["-N2", "--ntasks-per-node=2"], [2, 2]),
    (["-N2", "--ntasks-per-node=2", "-c2"], [2, 2]),
    (["-N2", "--ntasks=3"], [2, 1]),
    (["-N2", "-n4"], [3, 1]),
], ids=lambda value: " ".join(map(str, value)))
def test_tasks_are_workers(cluster, directory, options, workers):
    for way in WAYS:
        (directory / way).mkdir()
    output = run(cluster, directory, options, [f"{line} {PRINT} {directory}/{way} || exit 1" for way, line in WAYS.items()])
    for way in WAYS:
        started = evidence.workers(directory / way)
        hosts = Counter(worker["host"] for worker in started)
        assert [hosts["n1"], hosts["n2"]] == workers, f"{way}: {output}"
        assert [int(worker["RANK"]) for worker in started] == list(range(sum(workers))), f"{way}: {output}"
        assert {(worker["WORLD_SIZE"], worker["host"], worker["LOCAL_WORLD_SIZE"]) for worker in started} == {
            (str(sum(workers)), host, str(hosts[host])) for host in hosts}, f"{way}: {output}"


def test_the_plan_shows_uneven_tasks_and_where_they_come_from(cluster, directory):
    output = run(cluster, directory, ["-N2", "--ntasks=3"], ["ddprun --dry-run train.py"])
    words = " ".join(output.split())
    assert "on each node 2,1 tasks of the job (SLURM_TASKS_PER_NODE)" in words, output
    assert "world size 3 tasks of the job (SLURM_TASKS_PER_NODE)" in words, output


def test_with_gpus_one_sentence_names_the_tasks(cluster, directory):
    output = run(cluster, directory, ["-N2", "--ntasks-per-node=2", "--gres=gpu:4"], [f"ddprun {PRINT} {directory}"])
    assert Counter(worker["host"] for worker in evidence.workers(directory)) == {"n1": 4, "n2": 4}
    assert evidence.times_said(output, "the job asks for 2 tasks on n1") == 1, output
    assert "one worker is started for each GPU: 4" in output and "--nproc-per-node 2 starts one for each task" in output
