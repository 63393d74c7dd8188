"""docs/from-python.md and the examples that start ddprun from Python, with submitit and with TorchX."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import programs
from support.programs import EXAMPLES, REPOSITORY
from support.python_package import install

PAGE = (REPOSITORY / "docs" / "from-python.md").read_text()
BLOCKS = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in re.findall(r"(?:^    .*\n)+", PAGE, re.MULTILINE)]
TRAIN = """import os, sys
import ddprun

def train(lr):
    if "fail" in sys.argv:
        raise ValueError("no such layer")
    return lr, int(os.environ["RANK"])

def train_rank(rank, lr):
    pass

if __name__ == "__main__":
"""


def require(module: str) -> None:
    reason = programs.why_no(module)
    if reason is not None:
        pytest.skip(reason)


def environment_of(binary: Path, folder: Path) -> dict[str, str]:
    """For the package and its program as if they were installed in the Python that has torch."""
    return {"PYTHONPATH": str(install(binary, folder)), "PATH": f"{folder / 'bin'}:{programs.python_directory()}:/usr/bin:/bin",
            "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTHON_EXEC": str(programs.torch_python())}


@pytest.fixture
def environment(binary, torch_python, tmp_path) -> dict[str, str]:
    return environment_of(binary, tmp_path / "environment")


def run(environment: dict[str, str], cwd: Path, *command) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], env=environment, cwd=cwd, text=True, capture_output=True, timeout=240)


def run_block(environment: dict[str, str], folder: Path, block: str, *arguments: str) -> subprocess.CompletedProcess:
    (folder / "train.py").open("a").close()
    show = "    print(globals().get('values'))\n"
    (folder / "block.py").write_text(TRAIN + re.sub(r"^(?=.)", "    ", block, flags=re.MULTILINE) + show)
    return run(environment, folder, programs.torch_python(), "block.py", *arguments)


@pytest.mark.parametrize("block", [block for block in BLOCKS if "ddprun.launch(" in block and "try:" not in block])
def test_launch_as_the_page_says(environment, tmp_path, block):
    workers = 4 if "train, 4," in block else 2
    result = run_block(environment, tmp_path, block.replace("/shared/home", str(tmp_path)))
    assert result.returncode == 0, result.stderr
    assert str([(0.1, rank) for rank in range(workers)]) in result.stdout.splitlines(), result


@pytest.mark.parametrize("block", [block for block in BLOCKS if re.search("mp.spawn|elastic_launch|notebook_launcher", block)],
                         ids=["notebook_launcher", "spawn", "elastic_launch"])
def test_what_the_page_replaces_runs_too(environment, tmp_path, block):
    if "accelerate" in block:
        require("accelerate")
    result = run_block(environment, tmp_path, block)
    assert result.returncode == 0, result.stderr


def test_a_failure_is_printed_as_the_page_says(environment, tmp_path):
    [block] = [block for block in BLOCKS if "except ddprun.Failure" in block]
    result = run_block(environment, tmp_path, block, "fail")
    [shown] = re.findall(r"print\(failure\) +# (.*)", block)
    lines = result.stdout.splitlines()
    assert re.sub(r"rank \d on \S+", "rank 1 on n1", lines[0]) == shown, result
    assert "ValueError: no such layer" in lines[1:], result


def test_accelerate_finds_the_world_of_a_launch(environment, tmp_path):
    require("accelerate")
    block = "from train import state\nvalues = ddprun.launch(state, 2)\n"
    (tmp_path / "train.py").write_text("""def state():
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    total = accelerator.reduce(torch.tensor([accelerator.process_index + 1]))
    return accelerator.process_index, accelerator.num_processes, total.item()
""")
    result = run_block(environment, tmp_path, block)
    assert result.stdout.splitlines()[-1:] == ["[(0, 2, 3), (1, 2, 3)]"], result


def losses(text: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss (\S+)", text)]


@pytest.fixture
def copies(tmp_path) -> Iterator[Path]:
    for name in ("submit_train.py", "torchx_component.py", "train_ddp.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text())
    yield tmp_path


def test_submitit_here(environment, copies):
    require("submitit")
    result = run(environment, copies, programs.torch_python(), "submit_train.py", "--cluster", "local")
    assert result.returncode == 0, result
    assert "exit codes [0]" in result.stdout and losses(result.stdout)[-1] < losses(result.stdout)[0] / 100, result


def test_a_training_that_fails_is_the_exception_of_submitits_job(environment, copies):
    require("submitit")
    (copies / "train_ddp.py").write_text("import os, sys\nsys.exit(7 if os.environ['RANK'] == '1' else 0)\n")
    result = run(environment, copies, programs.torch_python(), "submit_train.py", "--cluster", "local")
    assert result.returncode == 1 and re.search(r"ddprun\.Failure: rank 1 on \S+ exited with code 7", result.stderr), result


def test_a_component_of_torchx(environment, copies):
    require("torchx")
    [line] = re.findall(r"^    (torchx run .*)$", PAGE, re.MULTILINE)
    assert line in (EXAMPLES / "torchx_component.py").read_text()
    result = run(environment, copies, "sh", "-c", line.replace("torchx run", "torchx run --wait --log"))
    assert result.returncode == 0, result
    assert losses(result.stderr)[-1] < losses(result.stderr)[0] / 100, result


# On two nodes of Slurm


@pytest.fixture
def job_folder(cluster, binary, directory) -> Iterator[tuple[Path, dict[str, str]]]:
    for name in ("submit_train.py", "train_ddp.py"):
        (directory / name).write_text((EXAMPLES / name).read_text())
    environment = environment_of(binary, directory / "environment")
    environment["PATH"] = f"{directory / 'environment' / 'bin'}:{cluster.hosts.environment['PATH']}"
    yield directory, environment
    cluster.cancel_all()


def test_submitit_on_two_nodes(cluster, job_folder):
    require("submitit")
    folder, environment = job_folder
    result = cluster.run(str(programs.torch_python()), "submit_train.py", "--nodes", "2", env=environment, cwd=folder, timeout=200)
    assert result.code == 0, str(result)
    assert "exit codes [0, 0]" in result.stdout and "rank 3 of 4 on n2" in result.stdout, str(result)


def test_a_launch_in_a_batch_job_runs_on_all_its_nodes(cluster, job_folder):
    folder, environment = job_folder
    (folder / "launch.py").write_text("""import os, sys
import ddprun

def place():
    return os.environ["RANK"], os.uname().nodename

if __name__ == "__main__":
    print(ddprun.launch(place, 2, folder="."))
    print(ddprun.launch(place, 2, options=["--standalone"]))
""")
    (folder / "job.sh").write_text(f"#!/bin/sh\n{programs.torch_python()} launch.py\n")
    result = cluster.batch("--nodes=2", "--cpus-per-task=2", f"--output={folder}/out", "job.sh", cwd=folder, env=environment)
    output = (folder / "out").read_text()
    assert result.code == 0, f"{result}\n{output}"
    assert str([("0", "n1"), ("1", "n1"), ("2", "n2"), ("3", "n2")]) in output.splitlines(), output
    assert str([("0", "n1"), ("1", "n1")]) in output.splitlines(), output
