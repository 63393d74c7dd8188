"""Every file of scripts/examples is run as its head says, on a smaller allocation than it asks for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support import programs
from support.programs import EXAMPLES


def submit(cluster, examples: Path, script: str, *options: str, arguments: tuple[str, ...] = (),
           env: dict[str, str] | None = None) -> str:
    """The job's output. Options of sbatch win over the script's own."""
    output = examples / "job.out"
    path = f"{examples / 'bin'}:{cluster.hosts.environment['PATH']}"
    result = cluster.batch("--nodes=2", "--cpus-per-task=2", "--partition=test", f"--output={output}", *options, script,
                           *arguments, cwd=examples, env={"PATH": path, **(env or {})})
    text = output.read_text() if output.exists() else ""
    assert result.code == 0, f"{result}\n{text}"
    return text


def losses(text: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss (\S+)", text)]


def places(text: str) -> list[str]:
    return re.findall(r"^rank (\d+ of \d+ on \w+, local rank \d+),", text, re.MULTILINE)


@pytest.mark.parametrize(("script", "options"), [
    ("slurm-by-itself.sbatch", ["--gpus-per-node=2"]),
    ("slurm-one-per-node.sbatch", ["--gpus-per-node=2"]),
    ("slurm-one-per-task.sbatch", ["--ntasks-per-node=2"]),
    ("torchrun-tutorial.sbatch", ["--gpus-per-node=2"]),
])
def test_both_ways_to_start_give_the_same_world(cluster, examples, script, options):
    text = submit(cluster, examples, script, *options)
    assert places(text) == ["0 of 4 on n1, local rank 0", "1 of 4 on n1, local rank 1",
                            "2 of 4 on n2, local rank 0", "3 of 4 on n2, local rank 1"], text
    assert losses(text)[-1] < losses(text)[0] / 100, text


@pytest.mark.parametrize(("script", "options", "modules"), [
    ("isambard-ai.sbatch", ["--gpus-per-node=2"], "load brics/nccl"),
    ("leonardo.sbatch", ["--gpus-per-node=2"], ""),
    ("snellius.sbatch", ["--ntasks-per-node=2"], "load 2024"),
])
def test_batch_script_of_a_site(cluster, examples, script, options, modules):
    text = submit(cluster, examples, script, *options)
    assert places(text) == ["0 of 4 on n1, local rank 0", "1 of 4 on n1, local rank 1",
                            "2 of 4 on n2, local rank 0", "3 of 4 on n2, local rank 1"], text
    assert losses(text)[-1] < losses(text)[0] / 100, text
    assert loaded(examples) == modules


def loaded(examples: Path) -> str:
    noted = examples / "modules"
    return noted.read_text().strip() if noted.exists() else ""


@pytest.fixture
def infiniband_names(hosts):
    """As at JSC: n1i is n1 on the network that carries traffic."""
    for host in hosts.hosts.values():
        host.write_names(f"{other.address} {other.name} {other.name}i" for other in hosts.hosts.values())
    yield
    hosts.use_plain_names()


@pytest.mark.usefixtures("infiniband_names")
def test_juwels_booster(cluster, examples):
    text = submit(cluster, examples, "juwels-booster.sbatch", "--gres=gpu:2", env={"SYSTEMNAME": "juwelsbooster"})
    assert len(places(text)) == 4, text
    assert "none of the interfaces that the site jsc (built in) names: ib0" in text, text
    assert loaded(examples) == "load Stages/2025 GCC OpenMPI PyTorch"


@pytest.mark.usefixtures("infiniband_names")
def test_juwels_booster_with_lightning(cluster, examples):
    why = programs.why_no("pytorch_lightning")
    if why is not None:
        pytest.skip(why)
    text = submit(cluster, examples, "juwels-booster-lightning.sbatch", "--gres=gpu:2",
                  env={"SYSTEMNAME": "juwelsbooster"})
    lines = sorted(re.findall(r"^rank \d of 4, local rank \d, TorchElasticEnvironment, weights .*$", text, re.MULTILINE))
    assert len(lines) == 4, text
    weights = [float(weight) for weight in lines[0].split("weights ")[1].split()]
    assert weights == pytest.approx([1, -2, 3, 0.5], abs=0.05), text


def test_restart_goes_on_from_the_checkpoint(cluster, examples):
    text = submit(cluster, examples, "restart.sbatch", "--gpus-per-node=1", arguments=("--fail-at", "12"))
    assert re.findall(r"^attempt .*? step \d+", text, re.MULTILINE) == [
        "attempt 0 begins at step 0", "attempt 1 begins at step 10", "attempt 1 ends at step 40"], text
    assert "rank 1 on n2 exited with code 1" in text, text


def test_a_spare_node_goes_on_from_the_checkpoint(cluster, examples):
    text = submit(cluster, examples, "spare-node.sbatch", "--nodes=3", "--gpus-per-node=1", arguments=("--lose-at", "12"))
    assert re.findall(r"^attempt .*? step \d+", text, re.MULTILINE) == [
        "attempt 0 begins at step 0", "attempt 1 begins at step 10", "attempt 1 ends at step 40"], text
    assert "n3 replaces n2" in text, text


def test_three_programs_of_a_job(cluster, examples):
    text = submit(cluster, examples, "programs.sbatch", "--nodes=3", "--gpus-per-node=2")
    assert re.findall(r"^\[train 0 n1\] step (\d+) loss", text, re.MULTILINE) == [str(step) for step in range(40)], text
    assert "train ended with code 0; stopping server" in text, text


def test_two_machines_manual(hosts, examples):
    first = hosts["n1"].address
    both = [hosts[name].popen(["./two-machines.sh", str(rank), first], cwd=examples)
            for rank, name in enumerate(("n1", "n2"))]
    results = [process.wait() for process in both]
    text = "\n".join(str(result) for result in results)
    assert [result.code for result in results] == [0, 0], text
    assert places(results[0].stdout) == ["0 of 2 on n1, local rank 0", "1 of 2 on n2, local rank 0"], text


def test_what_was_captured_on_the_cluster_is_planned_elsewhere(cluster, examples):
    submit(cluster, examples, "capture.sbatch", "--mem=0")
    for task, host in enumerate(("n1", "n2")):
        plan = cluster.run("ddprun", "--snapshot", f"capture.{task}.json", "--dry-run=json", "train_ddp.py",
                           cwd=examples)
        assert plan.code == 0, str(plan)
        if task == 0:
            assert json.loads(plan.stdout)["host"] == host


def test_every_example_is_run_here():
    here = Path(__file__).parent
    tested = "".join(path.read_text() for path in here.glob("test_*.py")) + (EXAMPLES / "two-machines.sh").read_text()
    tested += "".join(path.read_text() for path in EXAMPLES.glob("*.sbatch"))
    assert [path.name for path in sorted(EXAMPLES.iterdir()) if path.is_file() and path.name not in tested] == []
    several = (here.parent / "support" / "several.py").read_text()  # of local/test_programs.py and slurm/test_programs.py
    assert [path.name for path in sorted((EXAMPLES / "programs").glob("*.py")) if f'"{path.name}"' not in several] == []
