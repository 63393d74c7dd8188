"""Scripts that users copy close their process group before they end. Where threads of gloo still run then, torch 2.13
may abort (`terminate called without an active exception`), now and then only; that they run can be seen every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import programs
from support.programs import EXAMPLES, SCRIPTS

LOOK = """
import atexit, pathlib

def look():
    names = [path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
    running = sorted(set(name for name in names if "gloo" in name))
    if running:
        print("at exit still run:", *running, flush=True)

atexit.register(look)
"""


@pytest.mark.parametrize(("script", "arguments", "needs"), [
    (EXAMPLES / "train_ddp.py", ["--steps", "5"], "torch"),
    (EXAMPLES / "restart_from_checkpoint.py", ["checkpoint.pt", "--steps", "5"], "torch"),
    (EXAMPLES / "train_lightning.py", ["--devices", "2"], "pytorch_lightning"),
    (SCRIPTS / "allreduce.py", [], "torch"),
    (SCRIPTS / "guides" / "trainer.py", [], "torch"),
    (SCRIPTS / "frameworks" / "accelerate_state.py", [], "accelerate"),
    (SCRIPTS / "frameworks" / "ignite_idist.py", [], "ignite"),
], ids=lambda value: value.name if isinstance(value, Path) else "")
def test_no_thread_of_gloo_runs_when_python_ends(machine, script, arguments, needs):
    why = programs.why_no(needs)
    if why is not None:
        pytest.skip(why)
    (machine.directory / "sitecustomize.py").write_text(LOOK)
    environment = {"PYTHON_EXEC": str(programs.torch_python()), "PYTHONPATH": str(machine.directory),
                   "TORCHINDUCTOR_CACHE_DIR": str(machine.directory / "cache")}  # else it lies in TMPDIR
    program = machine.start("--nproc-per-node", "2", str(script), *arguments, env=environment)
    result = program.wait(timeout=300)
    assert result.code == 0, str(result)
    assert "at exit still run" not in result.stdout, str(result)
