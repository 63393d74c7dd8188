"""A step whose hosts cannot all start something ends at once, with one message and the failure's exit code."""

from __future__ import annotations

import pytest

from support import evidence
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
MISSING = "/nonexistent/train.py"

SAME_EVERYWHERE = [
    pytest.param([MISSING], 127, "cannot start /nonexistent/train.py on n[1-4]: no such file", id="script"),
    pytest.param(["--no-python", "./missing"], 127, "cannot start ./missing on n[1-4]: no such file", id="no-python"),
    pytest.param(["--nproc-per-node", "x", PRINT], 2, "--nproc-per-node is not a number of workers: 'x'", id="workers"),
    pytest.param(["--standaloned", PRINT], 2, "--standaloned", id="typo"),
]
TOO_FEW_NODES = pytest.param(["--nnodes", "3", PRINT], 2, "--nnodes 3", id="nnodes")  # a batch script may do that


def together(directory, tasks: int) -> str:
    """In a step: until all are here. The first failure waits for the others half a second."""
    return f"touch {directory}/here.$SLURM_PROCID; until [ $(ls {directory}/here.* | wc -l) = {tasks} ]; do sleep 0.02; done;"


@pytest.mark.parametrize(("options", "code", "text"), [*SAME_EVERYWHERE, TOO_FEW_NODES])
def test_one_message_for_the_whole_step(cluster, directory, options, code, text):
    script = together(directory, 8) + 'exec ddprun "$@"'
    result = cluster.run("srun", "-N4", "--ntasks-per-node=2", "sh", "-c", script, "-", *options)
    assert result.code == code, str(result)
    assert evidence.times_said(result.stderr, text) == 1, str(result)
    assert len(evidence.spoken(result.stderr)) <= 2, str(result)


def test_the_script_is_missing_on_one_of_four_hosts(cluster, directory):
    line = f"{together(directory, 4)} [ $SLURM_NODEID = 2 ] && exec ddprun {MISSING}; exec ddprun {PRINT} {directory}"
    result = cluster.run("srun", "-N4", "--ntasks-per-node=1", "sh", "-c", line)
    assert result.code == 127, str(result)
    text = f"cannot start {MISSING} on n3: no such file (the same path exists on n[1-2,4])"
    assert evidence.times_said(result.stderr, text) == 1, str(result)
    assert not evidence.workers(directory)


@pytest.mark.parametrize(("options", "code", "text"), SAME_EVERYWHERE)
def test_a_batch_script_has_the_code_of_the_failure(cluster, directory, options, code, text):
    script = directory / "job.sh"
    script.write_text(f"#!/bin/sh\nddprun {' '.join(options)}\n")
    result = cluster.batch("-N4", f"--output={directory}/output", str(script))
    output = (directory / "output").read_text()
    assert result.code == code, output
    assert evidence.times_said(output, text) == 1, output
