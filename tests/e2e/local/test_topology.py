"""Nodes that are not here, pictures of nodes, and a description that stands for this machine."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from support import cpus
from support.programs import SCRIPTS

BIG = "pack:2 numa:4 l3:4 core:4 pu:2"  # 256 hardware threads
PRINT = ("--no-python", sys.executable, str(SCRIPTS / "print_binding.py"))


def plan_of(machine, *options: str) -> dict:
    result = machine.run("--dry-run=json", *options)
    assert result.code == 0, str(result)
    return json.loads(result.stdout)


def cpus_of(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_a_node_that_is_not_here_is_drawn_within_100_columns(machine):
    result = machine.run("--dry-run", "--topology", BIG, "--gpus", "8")
    assert result.code == 0, str(result)
    assert max(map(len, result.stdout.splitlines())) <= 100, str(result)
    assert "2 packages, 8 NUMA nodes, 128 cores of 2 threads" in result.stdout, str(result)
    assert "names no GPU, so 8 GPUs are spread evenly over its NUMA nodes" in result.stdout, str(result)


def test_workers_of_a_node_that_is_not_here_share_it_out(machine):
    plan = plan_of(machine, "--topology", BIG, "--gpus", "16")
    held = [cpus_of(worker["binding"]["cpus"]) for worker in plan["workers"]]
    assert len(held) == 16
    assert sum(map(len, held)) == 256 and set().union(*held) == set(range(256))
    assert {worker["binding"]["memory_policy"] for worker in plan["workers"]} == {"preferred"}
    assert {worker["env"]["OMP_NUM_THREADS"] for worker in plan["workers"]} == {"8"}


def test_a_picture_goes_to_a_file_or_to_standard_output(machine, tmp_path):
    file = tmp_path / "node.svg"
    result = machine.run("--topology", BIG, "--gpus", "4", "--dry-run=svg", str(file))
    assert (result.code, result.stdout) == (0, ""), str(result)
    picture = ElementTree.parse(file).getroot()
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    again = machine.run("--topology", BIG, "--gpus", "4", "--dry-run=svg")
    assert again.stdout == file.read_text(), str(again)


def test_the_file_of_a_picture_comes_last(machine):
    result = machine.run("--dry-run=svg", "node.svg", "--topology", BIG)
    assert result.code == 2, str(result)
    assert result.stderr == ("ddprun: unexpected argument --topology after the SVG file\nhint: write the file last, as in ddprun --topology node.xml --dry-run=svg node.svg\n")


def test_a_picture_that_cannot_be_written_or_drawn(machine, tmp_path):
    nowhere = machine.run("--topology", BIG, "--dry-run=svg", str(tmp_path / "no" / "node.svg"))
    assert nowhere.code != 0 and "name another file for the picture" in nowhere.stderr, str(nowhere)
    blind = machine.run("--bind", "none", "--dry-run=svg")
    assert blind.code != 0 and "hint: leave out --bind none" in blind.stderr, str(blind)


def test_a_captured_machine_is_planned_for_elsewhere(machine, tmp_path):
    file = tmp_path / "captured.json"
    assert machine.run("--capture", str(file), "--nproc-per-node", "2", "true").code == 0
    here = plan_of(machine, "--nproc-per-node", "2", "--no-python", "true")
    there = plan_of(machine, "--snapshot", str(file), "--nproc-per-node", "2", "--no-python", "true")
    assert there["binding"] == here["binding"]
    assert [worker["binding"] for worker in there["workers"]] == [worker["binding"] for worker in here["workers"]]


@pytest.mark.skipif(len(cpus.own_cores()) < 2, reason="sharing out cores needs two of them")
def test_a_description_of_this_machine_saves_looking_at_it(machine, tmp_path):
    captured = tmp_path / "captured.json"
    assert machine.run("--capture", str(captured), "true").code == 0
    file = tmp_path / "topology.json"
    topology = json.loads(captured.read_text())["host"]["topology"]
    file.write_text(json.dumps(topology))
    seen = machine.run("--nproc-per-node", "2", *PRINT)
    described = machine.run("--topology", str(file), "--nproc-per-node", "2", *PRINT)
    assert described.code == 0, str(described)
    assert cpus.printed(described.stdout) == cpus.printed(seen.stdout), str(described)
    # What it says counts, not what this machine is: as a single core it cannot be shared out.
    every = set().union(*cpus.own_cores())
    one_core = {"cores": ",".join(map(str, sorted(every))), "package": 0, "node": 0, "cache": 0}
    nodes = [{"number": 0, "cpus": one_core["cores"]}]
    file.write_text(json.dumps({"source": "one core", "packages": 1, "nodes": nodes, "cores": [one_core]}))
    alone = machine.run("--topology", str(file), "--nproc-per-node", "2", *PRINT)
    assert cpus.printed(alone.stdout) == {0: every, 1: every}, str(alone)
    assert "2 workers have 1 core: none of them is bound" in alone.stderr, str(alone)


@pytest.mark.skipif(len(cpus.own_cores()) < 2, reason="a description that leaves out a CPU needs two")
def test_a_description_of_another_machine_is_refused(machine):
    result = machine.run("--topology", "pack:1 core:1 pu:1", "--no-python", "true")
    assert result.code != 0, str(result)
    assert "describes CPUs 0, but this process may use " in result.stderr, str(result)
    assert "hint: leave --topology out, or add --dry-run to plan for that other node" in result.stderr, str(result)


@pytest.mark.parametrize("text", ["core:1", "nofile.xml", "/etc/passwd", "pack:1 core"])
def test_what_is_no_topology_is_refused_with_the_forms_there_are(machine, text):
    result = machine.run("--dry-run", "--topology", text)
    assert result.code != 0, str(result)
    assert result.stderr.startswith(f"ddprun: cannot use the topology {text}: "), str(result)
    assert "hint: a topology is an XML file of hwloc 2 (lstopo node.xml)" in result.stderr, str(result)
