"""The commands in README.md, docs and the manual: ddprun understands every one of them, and batch scripts are the
examples' own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess

import pytest

from support import evidence
from support.hosts import wait_until
from support.programs import EXAMPLES, REPOSITORY

PAGES = {path.name: path.read_text() for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))}
BLOCKS = [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip()
          for page in PAGES.values() for block in re.findall(r"(?:^    .*\n)+", page, re.MULTILINE)]
BLOCKS += re.findall(r"^\.nf\n(.*?)^\.fi$", (REPOSITORY / "man" / "ddprun.1").read_text().replace("\\-", "-"),
                     re.MULTILINE | re.DOTALL)
LAUNCHED = re.compile(r"(exec )?((srun|mpiexec|pbsdsh) (\S+ )*?)?ddprun ")
COMMANDS = {line for block in BLOCKS for line in block.splitlines() if LAUNCHED.match(line)}
COMMANDS |= {words for name, page in PAGES.items() if name != "decisions.md"
             for words in re.findall(r"`((?:srun |mpiexec )?ddprun [^`]*)`", page) if "..." not in words}
JOB = next(block for block in BLOCKS if '"programs": [' in block)  # the file of --job
PRINTS = {"--version", "--print-config", "--help-all"}  # and starts nothing by itself


def arguments_of(line: str) -> list[str]:
    """What follows `ddprun`, without the remark that some lines carry after several blanks."""
    return shlex.split(LAUNCHED.sub("", re.split(r" {3,}", line)[0], count=1))


def test_there_is_something_to_test():
    assert len(COMMANDS) >= 40
    for page in ("README.md", "recipes.md"):
        assert "    #SBATCH" in PAGES[page] and "    ddprun " in PAGES[page]
    for page in ("binding.md", "output.md", "monitoring.md", "restarts.md", "lost-nodes.md", "when-it-fails.md", "index.md"):
        assert "    ddprun " in PAGES[page]


@pytest.mark.parametrize("line", sorted(COMMANDS))
def test_command(binary, tmp_path, line):
    directory = shutil.copytree(EXAMPLES, tmp_path / "examples")
    for script in ("train.py", "serve.py", "loader.py"):
        (directory / script).touch()
    (directory / "job.json").write_text(JOB)
    shutil.copy(REPOSITORY / "tests" / "data" / "topologies" / "two-packages.xml", directory / "node.xml")
    (directory / "apptainer").touch(mode=0o755)
    environment = {"PATH": f"{directory}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    arguments = [word for word in arguments_of(line) if word != "--dry-run"]
    for place, word in enumerate(arguments):
        if place and arguments[place - 1] == "--stage":  # the user's; here a file of its name
            arguments[place] = word.strip("/$").replace("/", "_")
            (directory / arguments[place]).touch()
        if place and arguments[place - 1] == "--stacks":  # a folder of dumps
            shutil.copytree(REPOSITORY / "tests" / "data" / "flight_records" / "torch-2.13-gloo-even", directory / word)
    if {"--restart", "--drain", "--profile"} & set(arguments):  # never the job of somebody else: there is none of this name
        named = arguments if arguments[-1] == "JOB" else [*arguments, "JOB"]
        result = subprocess.run([binary, *named], env=environment, cwd=directory, text=True, capture_output=True, timeout=60)
        assert result.returncode == 125 and "has the job id or process id JOB" in result.stderr, result.stderr
        return
    if "--spares" in arguments:  # among the nodes of a job
        arguments = ["--hosts", "n[1-5]", *arguments]
    looks = "--status" in arguments or "--stacks" in arguments or "--timeline" in arguments  # at a job that there has to be
    worker = ["sh", "-c", "until [ -e looked ]; do sleep 0.05; done"] if looks else ["true"]
    with subprocess.Popen([binary, "--events", "run.jsonl", "--no-python", *worker], env=environment, cwd=directory) as job:
        try:
            if looks:
                wait_until("the worker has begun", lambda: evidence.events(directory / "run.jsonl", "start"))
            alone = looks or PRINTS & set(arguments)
            result = subprocess.run([binary, *([] if alone else ["--dry-run"]), *arguments], env=environment, cwd=directory,
                                    text=True, capture_output=True, timeout=60)
        finally:
            (directory / "looked").touch()
    assert job.returncode == 0
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", [block for block in BLOCKS if "#SBATCH" in block])
def test_batch_script_is_one_of_the_examples(block):
    lines = block.splitlines()
    scripts = [path.read_text().splitlines() for path in EXAMPLES.glob("*.sbatch")]
    assert any(set(lines) <= set(script) for script in scripts), block


def test_environment_for_a_script_of_its_own(binary, tmp_path):
    [line] = {line for block in BLOCKS for line in block.splitlines() if line.startswith("eval ")}
    environment = {"PATH": f"{binary.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    shown = subprocess.run(["sh", "-euc", f"{line}\necho $RANK $WORLD_SIZE $MASTER_ADDR"], env=environment, text=True,
                           capture_output=True, timeout=60)
    assert shown.stdout.split()[:2] == ["0", "1"] and len(shown.stdout.split()) == 3, shown
