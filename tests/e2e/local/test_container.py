"""--container, with scripts that stand for the programs that start containers: they drop the environment as these do."""

from __future__ import annotations

import json
import os

import pytest

from support.containers import APPTAINER

# podman run: what -e names.
PODMAN = r"""#!/usr/bin/env python3
import os, sys
names = [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "-e"]
words = sys.argv[sys.argv.index("image") + 1:]
os.execvpe(words[0], words, {name: os.environ[name] for name in ["PATH", *names]})
"""


@pytest.fixture
def containers(machine):
    for name, text in (("apptainer", APPTAINER), ("podman", PODMAN)):
        (machine.directory / name).write_text(text)
        (machine.directory / name).chmod(0o755)
    machine.environment["PATH"] = f"{machine.directory}:{os.environ['PATH']}"
    return machine


@pytest.mark.parametrize("container", ["apptainer exec --cleanenv image.sif", "podman run --network=host image"])
def test_the_workers_variables_enter_and_others_do_not(containers, container):
    show = "echo $RANK of $WORLD_SIZE $NCCL_DEBUG ${SECRET:-none}"
    result = containers.run("--container", container, "--nproc-per-node", "2", "--no-python", "sh", "-c", show,
                            env={"NCCL_DEBUG": "INFO", "SECRET": "x"})
    assert result.code == 0 and sorted(result.stdout.splitlines()) == ["0 of 2 INFO none", "1 of 2 INFO none"], str(result)


def test_the_script_is_the_images(containers):
    result = containers.run("--dry-run=json", "--container", "podman run image", "nowhere.py")
    command = json.loads(result.stdout)["workers"][0]["command"]
    assert command[:2] == ["podman", "run"] and "RANK" in command, str(result)
    assert command[-4:] == ["image", "python3", "-u", "nowhere.py"], str(result)


def test_a_program_that_is_not_there_is_named(machine):
    result = machine.run("--container", "apptainer exec image.sif", "x.py", env={"PATH": "/nowhere"})
    assert result.code == 127 and "cannot start apptainer of --container" in result.stderr, str(result)
