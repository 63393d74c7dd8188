"""ddprun.checkpoint: in a folder under plain Python and torchrun, and against a stand-in for the process of a node."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import programs
from support.machine import FOREIGN
from support.python_package import install

TRAINING = programs.SCRIPTS / "checkpointed.py"
KINDS = pytest.mark.parametrize("kind", ["ddp", "fsdp", "dcp"])


class Scripts:
    """Scripts that import the module, in an empty folder."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder = str(python), folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith((*FOREIGN, "DDPRUN_CHECKPOINT"))}
        self.environment |= {"PYTHONPATH": str(install(Path("/bin/true"), folder.parent / f"{folder.name}-environment")), "PYTHONDONTWRITEBYTECODE": "1",
                             "OMP_NUM_THREADS": "1"}

    def run(self, *command: str, env: dict[str, str] | None = None, fails: bool = False) -> str:
        done = subprocess.run([self.python, *command], cwd=self.folder, env=self.environment | (env or {}), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        assert (done.returncode != 0) == fails, done.stdout
        return done.stdout

    def plain(self, text: str, env: dict[str, str] | None = None, fails: bool = False) -> list[str]:
        (self.folder / "script.py").write_text(text)
        return self.run("script.py", env=env, fails=fails).splitlines()

    def train(self, kind: str, steps: int, *, ranks: int = 2, event: str = "", env: dict[str, str] | None = None) -> list[list[str]]:
        """Under torchrun: what each rank has written."""
        output = self.folder / "output"
        for old in self.folder.glob("output.*"):
            old.unlink()
        self.run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), str(TRAINING), kind, str(steps),
                 str(output), event, env=env, fails=bool(event))
        return [Path(f"{output}.{rank}").read_text().splitlines() for rank in range(ranks)]


@pytest.fixture
def scripts(torch_python, tmp_path) -> Scripts:
    (tmp_path / "work").mkdir()
    return Scripts(torch_python, tmp_path / "work")


def steps_of(lines: list[str], first: int) -> list[str]:
    return [line for line in lines if line[0].isdigit() and int(line.split()[0]) >= first]


def started_from(ranks: list[list[str]]) -> set[str]:
    return {lines[0].split()[1] for lines in ranks}


@KINDS
def test_a_training_that_was_killed_while_it_saved_begins_again_and_is_equal_to_the_last_bit(scripts, kind):
    whole = scripts.train(kind, 9)
    assert started_from(whole) == {"None"}
    folder = scripts.folder / "checkpoints"
    assert sorted(os.listdir(folder)) == ["step-6", "step-8"]
    shutil.rmtree(folder)
    scripts.train(kind, 9, event="die-in-6")
    assert (folder / "step-4").exists() and not (folder / "step-6").exists() and list(folder.glob(".step-6*"))
    again = scripts.train(kind, 9)
    assert started_from(again) == {"4"}
    for one, other in zip(whole, again):
        assert len(steps_of(other, 5)) == 5 and steps_of(one, 5) == steps_of(other, 5)
    assert sorted(os.listdir(folder)) == ["step-6", "step-8"]


def test_two_ranks_load_what_four_have_saved(scripts):
    four = scripts.train("dcp", 4, ranks=4)
    two = scripts.train("dcp", 5, ranks=2)
    assert [lines[0] for lines in two] == [four[0][-1].replace("saved", "from")] * 2


def test_sharded_parts_are_not_loaded_by_another_number_of_ranks(scripts):
    scripts.train("fsdp", 2, ranks=2)
    text = scripts.run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", str(TRAINING), "fsdp", "4", "output", fails=True)
    assert "has sharded tensors of 2 ranks, and there are 1 now: save with checkpoint.Writer, for any number of ranks" in text


def test_ranks_that_are_new_load_the_state_of_ddp_from_the_others(scripts):
    two = scripts.train("ddp", 2, ranks=2)
    four = scripts.train("ddp", 4, ranks=4)
    assert {lines[0] for lines in four} == {two[0][-1].replace("saved", "from")}


VALUES = """
import os, torch
from ddprun import checkpoint
weights, names = torch.zeros(3), {"a": torch.zeros(2), "epoch": 0}
state = {"weights": weights, "names": names, "best": None}
print(checkpoint.load(state), state["best"], names["epoch"], weights.sum().item(), names["a"].sum().item())
for step in range(5):
    weights += 1
    names["a"] += 2
    names["epoch"] = step
    state["best"] = [step, "x"]
    assert checkpoint.save(step, state)
"""


def test_tensors_are_loaded_in_place_and_other_values_replaced(scripts):
    assert scripts.plain(VALUES) == ["None None 0 0.0 0.0"]
    assert scripts.plain(VALUES) == ["4 [4, 'x'] 4 15.0 20.0"]
    print_plain = "import torch; print(torch.load('checkpoints/step-4/rank-0.pt')['names']['a'].tolist())"
    assert scripts.run("-c", print_plain) == "[10.0, 10.0]\n"  # which was loaded, and so not saved again
    assert json.loads((scripts.folder / "checkpoints/step-4/rank-0.manifest").read_text())["world"] == 1
    modes = {path.name: path.stat().st_mode & 0o777 for path in (scripts.folder / "checkpoints").rglob("*")}
    assert {mode for name, mode in modes.items() if name.startswith("rank")} == {0o600} and modes["step-4"] == 0o700


def test_the_folder_is_named_by_the_argument_or_a_variable(scripts):
    text = "import os\nfrom ddprun import checkpoint\ncheckpoint.save(1, {}, folder={})\nprint(sorted(os.listdir('.')))"
    assert scripts.plain(text.format({}, None), env={"DDPRUN_CHECKPOINT_FILES": "named"}) == ["['named', 'script.py']"]
    assert scripts.plain(text.format({}, "'other'"), env={"DDPRUN_CHECKPOINT_FILES": "named"}) == ["['named', 'other', 'script.py']"]


@pytest.mark.parametrize("others", ["owner", "mode"])
def test_a_folder_that_another_user_can_change_is_refused(scripts, others):
    folder = scripts.folder / "checkpoints"
    scripts.plain(VALUES)
    if others == "mode":
        folder.chmod(0o770)
    elif os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    else:
        pytest.skip("only root gives a folder away")
    said = "owner 0 and mode drwxrwx---" if others == "mode" else "owner 65534 and mode drwx------"
    message = f"RuntimeError: ddprun.checkpoint: {folder} has to be a folder of user {os.geteuid()} that others cannot change; it has {said}"
    assert scripts.plain(VALUES, fails=True)[-1] == message.replace("owner 0", f"owner {os.geteuid()}")
    only_save = "from ddprun import checkpoint\ncheckpoint.save(9, {})"
    assert scripts.plain(only_save, fails=True)[-1] == message.replace("owner 0", f"owner {os.geteuid()}")


def test_a_disk_that_is_full_is_a_warning_and_the_former_step_stays(scripts, small_disk):
    text = """
import sys, warnings, torch
from ddprun import checkpoint
print(checkpoint.save(1, {"a": torch.zeros(100_000)}))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    print(checkpoint.save(2, {"a": torch.zeros(10_000_000)}), said[0].filename == checkpoint.__file__, said[0].message)
print(checkpoint.load({"a": torch.zeros(100_000)}))
"""
    (scripts.folder / "script.py").write_text(text)
    (scripts.folder / "checkpoints").mkdir(0o700)
    script = f"mount -t tmpfs -o size=4m,mode=700 none checkpoints && exec {scripts.python} script.py"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=scripts.folder, env=scripts.environment, capture_output=True, text=True,
                          timeout=120)
    lines = done.stdout.splitlines()
    assert lines[0] == "True" and lines[2] == "1", done
    assert lines[1].startswith("False ") and "step 2 is not saved" in lines[1] and "No space left on device" in lines[1], done


def test_an_entry_that_was_not_saved_is_named(scripts):
    scripts.plain(VALUES)
    text = "from ddprun import checkpoint\ncheckpoint.load({'weights': 0, 'scheduler': 0})"
    assert scripts.plain(text, fails=True)[-1] == """KeyError: "the checkpoint has no 'scheduler', only 'weights', 'names', 'best'\""""


def test_an_optimizer_holds_nothing_of_the_file(scripts):
    text = """
import torch
from ddprun import checkpoint
model = torch.nn.Linear(500, 500)
optimizer = torch.optim.AdamW(model.parameters())
state = {"model": model, "optimizer": optimizer}
step = checkpoint.load(state)
print(step, "rank-0.pt" in open("/proc/self/maps").read(), len(optimizer.state))
model(torch.ones(500)).sum().backward()
optimizer.step()
checkpoint.save(1, state)
"""
    assert scripts.plain(text) == ["None False 0"]
    assert scripts.plain(text) == ["1 False 2"]


def test_a_step_that_was_loaded_or_saved_is_not_saved_again(scripts):
    text = """
import os, torch
from ddprun import checkpoint
def file(): return os.stat("checkpoints/step-3/rank-0.pt").st_ino, os.stat("checkpoints/step-3/rank-0.pt").st_mtime_ns
state = {"a": torch.zeros(4)}
if checkpoint.load(state) is None:
    checkpoint.save(3, state)
before = file()
print(checkpoint.save(3, state), file() == before)
"""
    assert scripts.plain(text) == scripts.plain(text) == ["True True"]


def test_a_step_that_is_not_whole_is_not_loaded(scripts):
    text = """
import os, torch
from ddprun import checkpoint
for damage in "short", "without file", "without manifest", "none":
    for step in 1, 2:
        checkpoint.save(step, {"a": torch.zeros(4)}, folder=damage)
    part = f"{damage}/step-2/rank-0"
    if damage == "short":
        os.truncate(f"{part}.pt", 100)
    elif damage != "none":
        os.unlink(f"{part}.pt" if damage == "without file" else f"{part}.manifest")
    print(damage, checkpoint.load({}, folder=damage))
"""
    assert scripts.plain(text) == ["short 1", "without file 1", "without manifest 1", "none 2"]


def test_the_example_of_the_page_runs_and_its_files_are_those_of_torch_save(scripts):
    block = re.search(r"\n\n((?:    .*\n|\n)+?)\n(?=\S)", (programs.REPOSITORY / "docs" / "checkpoints.md").read_text())[1]
    (scripts.folder / "train.py").write_text(textwrap.dedent(block))
    for _ in range(2):
        text = scripts.run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py")
        assert "rank 0: step 1000\n" in text and "rank 1: step 1000\n" in text, text
    show = "import torch; saved = torch.load('checkpoints/step-1000/rank-1.pt'); print(*saved, len(saved['optimizer']['state']))"
    assert scripts.run("-c", show) == "model optimizer rng 2\n"


class Node:
    """A stand-in for ddprun's process on a node, with the folders of others. It has what they have, in the same form."""

    def __init__(self, folder: Path, others: list[Path], room: int = 1 << 30) -> None:
        self.folder, self.others, self.room = folder, others, room
        self.asked: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}.socket")
        self._listener.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, connection.makefile("rw", encoding="utf-8") as lines:
                    for line in lines:
                        self.asked.append(line.rstrip("\n"))
                        lines.write(self._answer(*line.split()) + "\n")
                        lines.flush()

    def _answer(self, verb: str, *words: str) -> str:
        if verb == "room":
            return "ok" if int(words[0]) <= self.room else f"no {words[0]} bytes are too many"
        if verb == "saved":
            return "ok"
        step = f"step-{words[0]}"
        if verb == "fetch":
            found = [other / step / words[1] for other in self.others if (other / step / words[1]).exists()]
            if not found:
                return "no nobody has it"
            (self.folder / step).mkdir(mode=0o700, exist_ok=True)
            shutil.copy(found[0], self.folder / step / ".copy")
            (self.folder / step / ".copy").rename(self.folder / step / words[1])
            return "ok"
        manifests = [path for folder in (self.folder, *self.others) for path in (folder / step).glob("*.manifest")]
        parts = {path.name[len("rank-"):-len(".manifest")]: json.loads(path.read_text()) for path in manifests}
        return "ok " + json.dumps({"world": next(iter(parts.values()))["world"], "parts": {rank: part["files"] for rank, part in parts.items()}})


class Nodes:
    """Of two ranks each."""

    def __init__(self, folder: Path, count: int) -> None:
        folders = [folder / str(number) for number in range(count)]
        for path in folders:
            path.mkdir(0o700, parents=True)
        self.all = [Node(path, [other for other in folders if other != path]) for path in folders]
        self.environment = {"NODES": str(folder)}

    def at(self, step: int) -> dict[str, str]:
        return {**self.environment, "DDPRUN_CHECKPOINT_STEP": str(step)}

    def swap(self) -> None:
        """What was saved on each node is on the other one."""
        first, second = (node.folder for node in self.all)
        first.rename(first.with_name("moved"))
        second.rename(first)
        first.with_name("moved").rename(second)


@pytest.fixture
def nodes(scripts) -> Iterator[Nodes]:
    nodes = Nodes(programs.temporary_folder() / "nodes", 2)
    yield nodes
    for node in nodes.all:
        node.close()
    shutil.rmtree(nodes.all[0].folder.parents[1])


@pytest.mark.parametrize("kind", ["ddp", "dcp"])
def test_each_node_has_its_ranks_parts_and_fetches_the_others(scripts, nodes, kind):
    whole = scripts.train(kind, 6, ranks=4, env=nodes.environment)
    for number, node in enumerate(nodes.all):
        names = set(os.listdir(node.folder / "step-4"))
        assert {name for name in names if name.endswith(".manifest")} == {f"rank-{rank}.manifest" for rank in (2 * number, 2 * number + 1)}
        assert {name for name in names if name.startswith(".")} == ({".metadata"} if (kind, number) == ("dcp", 0) else set())
        assert sorted(line for line in node.asked if line.startswith("saved")) == sorted(
            f"saved {step} {rank}" for step in (2, 4, 6) for rank in (2 * number, 2 * number + 1))
        assert sum(line.startswith("room ") for line in node.asked) == 6
    saved = next(line for line in whole[0] if line.startswith("saved 4"))
    nodes.swap()
    again = scripts.train(kind, 6, ranks=4, env=nodes.at(4))
    assert all(any(line.startswith("fetch 4 ") for line in node.asked) for node in nodes.all)
    assert {lines[0] for lines in again} == {saved.replace("saved", "from")}
    # DDP lays out its buckets anew after its first step: of more than two ranks the sums then differ in the last bit.
    equal = 1 if kind == "ddp" else 2
    assert [steps_of(lines, 5)[:equal] for lines in again] == [steps_of(lines, 5)[:equal] for lines in whole]


@pytest.fixture
def node(scripts) -> Iterator[Node]:
    folder = programs.temporary_folder()
    (folder / "memory").mkdir(0o700)
    node = Node(folder / "memory", [])
    scripts.environment |= {"DDPRUN_CHECKPOINTS": str(node.folder), "DDPRUN_CHECKPOINT_SOCKET": f"{node.folder}.socket"}
    yield node
    node.close()
    shutil.rmtree(folder)


def test_what_there_is_no_room_for_is_not_saved_and_the_training_goes_on(scripts, node):
    node.room = 3 << 20
    text = """
import torch, torch.distributed.checkpoint as dcp
from ddprun import checkpoint
for step, size in enumerate((100, 1_000_000), 1):
    print(checkpoint.save(step, {"a": torch.zeros(size)}))
for step, size in enumerate((100, 1_000_000), 3):
    dcp.save({"a": torch.zeros(size)}, storage_writer=checkpoint.Writer(step))
"""
    assert [line for line in scripts.plain(text) if line in ("True", "False")] == ["True", "False"]
    assert sorted(path.parent.name for path in node.folder.rglob("*.manifest")) == ["step-1", "step-3"]
    assert [line for line in node.asked if line.startswith("saved")] == ["saved 1 0", "saved 3 0"]
    sizes = [int(line.split()[1]) for line in node.asked if line.startswith("room")]
    assert sizes[0] < 2 << 20 and 4_000_000 < sizes[1] < 6_000_000 and sizes[2] < 2 << 20 and 4_000_000 < sizes[3] < 6_000_000


def test_a_process_that_has_gone_is_no_room(scripts, node):
    text = "from ddprun import checkpoint\nprint(checkpoint.load({}), checkpoint.save(1, {}))"
    assert scripts.plain(text, env={"DDPRUN_CHECKPOINT_SOCKET": f"{node.folder}.none"}) == ["None False"]


def test_a_part_that_nobody_has_is_an_error_that_names_it(scripts, node):
    text = """
import os
from ddprun import checkpoint
checkpoint.save(2, {})
os.environ["DDPRUN_CHECKPOINT_STEP"] = "2"
print(checkpoint.load({}))
os.unlink(os.environ["DDPRUN_CHECKPOINTS"] + "/step-2/rank-0.pt")
checkpoint.load({})
"""
    lines = scripts.plain(text, fails=True)
    assert lines[0] == "2" and lines[-1] == "RuntimeError: ddprun.checkpoint: fetch 2 rank-0.pt: nobody has it"
