"""--standby: what a training computes is the same after restarts that import nothing.

One restart each; DDPRUN_TEST_RESTARTS is for more, which are then made without standby interpreters too.
"""

from __future__ import annotations

import json
import os
import re

import pytest

from conftest import require
from support.machine import Machine
from support.programs import SCRIPTS

FOLDER = SCRIPTS / "standby"
NEEDS = {"accelerated.py": "accelerate", "lightning.py": "pytorch_lightning", "configured.py": "hydra"}
RESTARTS = int(os.environ.get("DDPRUN_TEST_RESTARTS", "1"))
SEED = os.environ.get("DDPRUN_TEST_SEED", "1")


def loss_of(machine: Machine, python, script: list[str], restarts: int, *options: str, standby: str = "") -> str:
    """`restarts` times it fails in a step drawn at random."""
    env = {"PYTHON_EXEC": str(python), "PYTHONPATH": str(SCRIPTS) if script[0] == "-m" else None, "RESTARTS": str(restarts),
           "SEED": SEED, "STANDBY": standby}
    result = machine.start("--nproc-per-node", "2", "--max-restarts", str(restarts), "--restart-policy", "always", *options,
                           *script, env=env).wait(timeout=240 + 60 * restarts)
    assert result.code == 0, result
    [loss] = re.findall(r"^loss (.*)$", result.stdout, re.MULTILINE)
    return loss


def command(machine: Machine, script: str) -> list[str]:
    if script == "relative.py":
        return ["-m", "standby.relative"]
    (machine.directory / "checkpoint").unlink(missing_ok=True)
    return [str(FOLDER / script), str(machine.directory / "checkpoint")] if script == "resuming.py" else [str(FOLDER / script)]


@pytest.mark.timeout(600 + 300 * RESTARTS)
@pytest.mark.parametrize("script", ["resuming.py", "fsdp2.py", "loaders.py", *(
    pytest.param(script, marks=pytest.mark.nightly)
    for script in ("compiled.py", "relative.py", "configured.py", "accelerated.py", "lightning.py"))])
def test_a_restarted_training_computes_the_same(machine, torch_python, script):
    if script in NEEDS:
        require(NEEDS[script])
    undisturbed = loss_of(machine, torch_python, command(machine, script), 0)
    warm = loss_of(machine, torch_python, command(machine, script), RESTARTS, "--standby", "--events", "events", standby="yes")
    assert warm == undisturbed, f"DDPRUN_TEST_SEED={SEED}"
    events = [json.loads(line) for line in (machine.directory / "events").read_text().splitlines()]
    started = [event["what"] for event in events if event["event"] == "start" and event["attempt"] > 0]
    assert started == ["by a standby interpreter"] * 2 * RESTARTS
    if RESTARTS > 1:
        assert loss_of(machine, torch_python, command(machine, script), RESTARTS) == undisturbed, f"DDPRUN_TEST_SEED={SEED}"
