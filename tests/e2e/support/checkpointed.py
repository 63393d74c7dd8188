"""Programs whose state is kept by --checkpoint-memory, and what they leave in a folder.

`shell()` saves step 1, 2, ... as long as the file "save" names a higher one, and ends once there is a file "end", with the code that it
has if any. TRAINING is a real one.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from . import programs, python_package
from .hosts import Host

SHELL = """
attempt=$TORCHELASTIC_RESTART_COUNT folder=$DDPRUN_CHECKPOINTS from=$DDPRUN_CHECKPOINT_STEP
found=$(cat "$folder/step-$from/rank-$RANK" 2> /dev/null)
echo "$RANK of $WORLD_SIZE on $(hostname) from ${from:-nothing}: ${found:-nothing}" > {0}/.$attempt.$RANK
mv {0}/.$attempt.$RANK {0}/$attempt.$RANK
echo $$ > {0}/pid.$RANK
step=${from:-0}
trap 'exit 0' TERM
until [ -e {0}/end ]; do
  while [ $step -lt "$(cat {0}/save)" ]; do
    step=$((step + 1))
    mkdir -p $folder/step-$step
    echo "rank $RANK at step $step" > $folder/step-$step/.part
    mv $folder/step-$step/.part $folder/step-$step/rank-$RANK
  done
  sleep 0.05
done
exit $(cat {0}/end)
"""
TRAINING = str(programs.SCRIPTS / "train_with_checkpoints.py")


def shell(folder: Path) -> list[str]:
    return ["--no-python", "sh", "-c", SHELL.replace("{0}", str(folder))]


def save(folder: Path, step: int) -> None:
    written = folder / ".save"
    written.write_text(str(step))
    written.rename(folder / "save")


def environment(home: Path, torch_python: Path) -> dict[str, str]:
    """Of a training that imports ddprun.checkpoint."""
    site = python_package.install(programs.binary(), home / "package")
    return {"PYTHONPATH": str(site), "PYTHON_EXEC": str(torch_python)}


def exports(env: dict[str, str]) -> str:
    """Lines of a batch script."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())


def undisturbed(host: Host, folder: Path, kind: str, env: dict[str, str]) -> str:
    """The hash of the model that two ranks end with where nothing is lost."""
    folder.mkdir()
    host.check(["ddprun", "--nproc-per-node", "2", "--no-inspect", TRAINING, str(folder), "0", kind],
               env={**env, "DDPRUN_CHECKPOINT_FILES": str(folder / "steps")})
    return ended(folder)


def flushed(folder: Path) -> int:
    """The newest step in its flush folder. One is flushed early where the time limit is near."""
    return max(int(path.name.removeprefix("step-")) for path in (folder / "flushed").iterdir())


def ended(folder: Path) -> str:
    return json.loads((folder / "ended").read_text())


def began(folder: Path, attempt: int) -> list[dict]:
    """By rank: pid, host, step, world, and the hash of what was loaded."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"began.{attempt}.*"))]


def saved(folder: Path, step: int) -> str:
    """The hash of what was saved then."""
    return json.loads((folder / f"hash.{step}").read_text())
