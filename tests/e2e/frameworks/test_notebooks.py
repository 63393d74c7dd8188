"""ddprun.launch in a notebook's kernel: a function of a cell, the output in the cell, failures and the stop button."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import require
from support.python_package import install
from support.programs import SCRIPTS


def test_cells_launch_functions_of_the_notebook(machine, torch_python, tmp_path_factory):
    for module in ("ipykernel", "jupyter_client", "cloudpickle"):
        require(module)
    environment = {"PYTHONPATH": str(install(Path(machine.binary), tmp_path_factory.mktemp("environment"))),
                   "HOME": str(machine.directory), "PYTHONDONTWRITEBYTECODE": "1"}
    program = machine.start_program([str(torch_python), str(SCRIPTS / "frameworks" / "notebook.py")], env=environment)
    result = program.wait(timeout=240)
    assert result.code == 0, result
    imports, values, failure, interrupted, after = [json.loads(line) for line in result.stdout.splitlines()]
    printed = "".join(message[1] for message in values if message[0] == "stdout")
    assert imports == [] and sorted(printed.splitlines()) == ["rank 0", "rank 1"], values
    assert values[-1] == ["result", "[tensor([0]), tensor([5])]"], values
    assert failure[-1][:2] == ["error", "Failure"] and failure[-1][2].endswith("ValueError: no such layer"), failure
    assert any(message[0] == "stderr" and "ValueError: no such layer" in message[1] for message in failure[:-1]), failure
    assert interrupted[-1] == ["error", "KeyboardInterrupt", ""] and after == [["result", "2"]], interrupted
