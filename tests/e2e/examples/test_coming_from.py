"""The launch lines of the table "Lines of other launchers": those for ddprun, and torchrun's with ddprun under its name."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from support import programs
from support.containers import APPTAINER
from support.programs import REPOSITORY

DOCS = REPOSITORY / "docs"
SECTION = (DOCS / "coming-from-torchrun.md").read_text().split("\n## Lines of other launchers\n")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| ([^|]+) \| `([^`]+)`[^|]* \| `([^`]+)` \|$", SECTION, re.MULTILINE)
IN_JOBS = [row for row in ROWS if "by hand" not in row[0]]
TRAIN = """import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:], flush=True)
"""
OPEN_MPI = "mpirun.openmpi --allow-run-as-root --mca btl_tcp_if_include fabric0"


@pytest.fixture
def folder(cluster, directory):
    (directory / "train.py").write_text(TRAIN)
    (directory / "bin").mkdir()
    (directory / "bin" / "torchrun").symlink_to(programs.binary())
    yield directory
    cluster.cancel_all()


def run_line(cluster, folder, where: str, line: str) -> str:
    nodes = 1 if where.startswith("one machine") else 2
    tasks = 2 if "per GPU" in where else 1
    (folder / "job.sh").write_text(f"""#!/bin/sh
export PATH={folder}/bin:$PATH PYTHON_EXEC=/usr/bin/python3
hosts=$(scontrol show hostnames) RANDOM=7
head_node_ip=$(echo "$hosts" | head -n1)
{line.replace("mpirun", OPEN_MPI)}
""")
    result = cluster.batch(f"--nodes={nodes}", f"--ntasks-per-node={tasks}", "--cpus-per-task=2", "--gpus-per-node=2",
                           f"--output={folder}/out", "job.sh", cwd=folder)
    output = (folder / "out").read_text()
    assert result.code == 0, f"{result}\n{output}"
    return output


def check(output: str, workers: int) -> None:
    ranks = sorted(re.findall(r"^rank (\d+) of (\d+)", output, re.MULTILINE))
    assert ranks == [(str(rank), str(workers)) for rank in range(workers)], output


def test_the_table_is_there():
    assert len(ROWS) >= 9 and len(IN_JOBS) == len(ROWS) - 1


@pytest.mark.parametrize(("where", "line"), [(where, now) for where, _, now in IN_JOBS],
                         ids=[where for where, _, _ in IN_JOBS])
def test_line_of_ddprun(cluster, folder, where, line):
    if "mpirun" in line and shutil.which("mpirun.openmpi") is None:
        pytest.skip("Open MPI is not installed")
    output = run_line(cluster, folder, where, line)
    check(output, 2 if where.startswith("one machine") else 4)
    assert ("--local-rank=1" in output) == ("--no-use-env" in line), output


@pytest.mark.parametrize(("where", "line"), [(where, before) for where, before, _ in IN_JOBS if "torchrun" in before],
                         ids=[where for where, before, _ in IN_JOBS if "torchrun" in before])
def test_line_of_torchrun_with_ddprun_under_its_name(cluster, folder, where, line):
    check(run_line(cluster, folder, where, line), 2 if where.startswith("one machine") else 4)


@pytest.mark.parametrize("column", [1, 2], ids=["torchrun", "ddprun"])
def test_line_manual(hosts, folder, column):
    [line] = [row[column] for row in ROWS if "by hand" in row[0]]
    (folder / "key").write_text("0123456789abcdef" * 4 + "\n")
    (folder / "key").chmod(0o600)
    line = line.replace("10.0.0.1", hosts["n1"].address).replace(" --nnodes", f" --key-file {folder}/key --nnodes")
    environment = {"PATH": f"{folder}/bin:{hosts.environment['PATH']}", "PYTHON_EXEC": "/usr/bin/python3"}
    both = [hosts[name].popen(["sh", "-c", line.replace("--node_rank=0", f"--node_rank={rank}")], cwd=folder,
                              env=environment) for rank, name in enumerate(("n1", "n2"))]
    results = [process.wait() for process in both]
    check("".join(result.stdout for result in results), 4)


def test_the_glibc_that_the_page_names_is_enough(binary):
    needed = subprocess.run(["objdump", "-T", binary], check=True, capture_output=True, text=True).stdout
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"\bGLIBC_([\d.]+)", needed)}
    [named] = re.findall(r"glibc ([\d.]+) or newer", (DOCS / "building.md").read_text())
    assert max(versions) <= tuple(map(int, named.split(".")))


def test_workers_in_a_container_keep_variables_and_binding(cluster, folder):
    """Apptainer is not here: a program of its name that runs its command."""
    apptainer = folder / "bin" / "apptainer"
    apptainer.write_text(APPTAINER)
    apptainer.chmod(0o755)
    [line] = re.findall(r"^    (srun ddprun --container .*)$", (DOCS / "questions.md").read_text(), re.MULTILINE)
    check(run_line(cluster, folder, "Slurm, one task per node", line), 4)
