"""--standby: what a training computes is the same after a restart that imports nothing."""

from __future__ import annotations

import json
import re

import pytest

from conftest import require
from support.machine import Machine
from support.programs import SCRIPTS

FOLDER = SCRIPTS / "standby"
NEEDS = {"accelerated.py": "accelerate", "lightning.py": "pytorch_lightning"}


def loss_of(machine: Machine, python, script: str, *options: str, env: dict[str, str]) -> str:
    program = machine.start(*options, "--nproc-per-node", "2", str(FOLDER / script), env={"PYTHON_EXEC": str(python), **env})
    result = program.wait(timeout=240)
    assert result.code == 0, result
    [loss] = re.findall(r"^loss (.*)$", result.stdout, re.MULTILINE)
    return loss


@pytest.mark.parametrize("script", ["fsdp2.py", "compiled.py", "loaders.py", "accelerated.py", "lightning.py"])
def test_a_restarted_training_computes_the_same(machine, torch_python, script):
    if script in NEEDS:
        require(NEEDS[script])
    undisturbed = loss_of(machine, torch_python, script, env={"UNDISTURBED": "yes"})
    options = ("--standby", "--max-restarts", "1", "--restart-policy", "always", "--events", "events")
    assert loss_of(machine, torch_python, script, *options, env={}) == undisturbed
    events = [json.loads(line) for line in (machine.directory / "events").read_text().splitlines()]
    started = [event["what"] for event in events if event["event"] == "start" and event["attempt"] == 1]
    assert started == ["by a standby interpreter"] * 2
