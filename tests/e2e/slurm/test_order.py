"""Ranks in the order of the switches, on a Slurm that knows them (topology/tree)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support import evidence, programs
from support.hosts import wait_until
from support.programs import SCRIPTS
from support.slurm_cluster import SlurmCluster, why_impossible

PRINT = str(SCRIPTS / "print_env.py")
# The scheduler's order goes to and fro between two leaf switches.
TREE = ["TopologyPlugin=topology/tree", "SlurmdTimeout=10"]
SWITCHES = """SwitchName=leaf1 Nodes=n1,n3,n5
SwitchName=leaf2 Nodes=n2,n4,n6
SwitchName=s0 Switches=leaf[1-2]
"""


@pytest.fixture(scope="module")
def tree(binary) -> Iterator[SlurmCluster]:
    if reason := why_impossible():
        pytest.skip(reason)
    with SlurmCluster(6, settings=TREE, files={"topology.conf": SWITCHES}, kept=programs.kept_paths(),
                      path=[str(item) for item in (programs.binary_directory(), programs.python_directory()) if item]) as cluster:
        yield cluster


def hosts_by_rank(directory) -> list[str]:
    return [worker["host"] for worker in sorted(evidence.workers(directory), key=lambda each: int(each["RANK"]))]


def run(cluster, directory, *lines: str) -> str:
    path = directory / "job.sh"
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    result = cluster.batch("--nodelist=n[1-4]", f"--output={directory}/output", str(path))
    output = (directory / "output").read_text()
    assert result.code == 0, output
    return output


@pytest.mark.parametrize("way", ["srun ddprun", "ddprun"])
def test_ranks_follow_the_switches(tree, directory, way):
    run(tree, directory, f"{way} --order network {PRINT} {directory}")
    assert hosts_by_rank(directory) == ["n1", "n3", "n2", "n4"]


def test_by_default_they_follow_the_scheduler(tree, directory):
    run(tree, directory, f"srun ddprun {PRINT} {directory}")
    assert hosts_by_rank(directory) == ["n1", "n2", "n3", "n4"]


def test_a_file_has_the_last_word(tree, directory):
    order = directory / "order"
    order.write_text("# from the machine room\nn4\nn[2-3]\nn1\n")
    run(tree, directory, f"srun ddprun --order {order} {PRINT} {directory}")
    assert hosts_by_rank(directory) == ["n4", "n2", "n3", "n1"]


def test_the_site_s_switches_count_more_than_slurm_s(tree, directory):
    site = directory / "site.json"
    site.write_text(json.dumps({"format": 1, "name": "ours", "switches": ["n[1,4] s0/leaf1", "n[2-3] s0/leaf2"]}))
    run(tree, directory, f"srun ddprun --site {site} --order network {PRINT} {directory}")
    assert hosts_by_rank(directory) == ["n1", "n4", "n2", "n3"]


def test_a_file_that_is_not_there_is_told(tree, directory):
    result = tree.run("srun", "-N2", "ddprun", "--order", f"{directory}/none", "true")
    assert result.code != 0
    assert f"cannot read {directory}/none: no such file or directory" in result.stderr, str(result)


def test_a_bad_file_is_told_with_its_line(tree, directory):
    (directory / "order").write_text("n1\nn[2-\n")
    result = tree.run("srun", "-N2", "ddprun", "--order", f"{directory}/order", "true")
    assert result.code != 0
    assert "order has a bad host list" in result.stderr and "in line 2" in result.stderr, str(result)


def test_the_plan_shows_the_order_and_what_it_spares(tree, directory):
    output = run(tree, directory, f"srun --output={directory}/plan.%t ddprun --dry-run --order network {PRINT} out",
                 f"srun --output={directory}/json.%t ddprun --dry-run=json --order network {PRINT} out")
    words = " ".join((directory / "plan.0").read_text().split())
    assert "this host n1, node 0 of 0-3 --order" in words, output
    assert "order n[1,3,2,4] --order" in words, output
    assert "a ring of all hosts leaves a switch 2 times; 4 in the scheduler's order" in words, output
    assert "switches s0/leaf1 scontrol show topology" in words, output
    plan = json.loads((directory / "json.0").read_text())
    assert plan["rendezvous"]["ordered_agents"] == [0, 2, 1, 3], output
    assert plan["rendezvous"]["switches"]["value"] == "s0/leaf1", output


def test_one_a_task_has_the_ranks_of_slurm(tree, directory):
    result = tree.run("srun", "-N2", "-n4", "ddprun", "--order", "network", "true")
    assert result.code != 0
    assert "--order requires one ddprun per node, but srun started one per task" in result.stderr, str(result)


def test_status_shows_the_switches(tree, directory):
    path = directory / "job.sh"
    path.write_text(f"#!/bin/sh\nsrun ddprun --order network sh -c 'touch {directory}/up.$RANK;"
                    f" while [ ! -e {directory}/end ]; do sleep 0.1; done'\n")
    job = tree.popen("sbatch", "-N4", "--nodelist=n[1-4]", "--wait", f"--output={directory}/output", str(path))
    wait_until("all run", lambda: len(list(directory.glob("up.*"))) == 4)
    try:
        table = tree.nodes[0].run(["ddprun", "--status"])
        shown = tree.nodes[0].run(["ddprun", "--status=json"])
    finally:
        (directory / "end").touch()
    assert job.wait().code == 0
    assert "SWITCHES" in table.stdout and "s0/leaf2" in table.stdout, str(table)
    assert [node["switches"] for node in json.loads(shown.stdout)[0]["nodes"]] == ["s0/leaf1", "s0/leaf1", "s0/leaf2", "s0/leaf2"]


def test_the_spare_of_the_same_switch_takes_over(tree, directory):
    """Two of each switch take part, so that n5 (leaf1) and n6 (leaf2) wait; n4 (leaf2) is lost."""
    path = directory / "job.sh"
    path.write_text(f"""#!/bin/sh
srun --no-kill --kill-on-bad-exit=0 --wait=0 ddprun --order network --domain-size 2 --spares 2 --max-restarts 1 sh -c '
echo $(hostname) > {directory}/at.$TORCHELASTIC_RESTART_COUNT.$RANK
while [ ! -e {directory}/end ]; do sleep 0.1; done'
""")

    def at(attempt: int) -> list[str]:
        def look() -> list[str]:
            return [path.read_text().strip() for path in sorted(directory.glob(f"at.{attempt}.*"))]

        wait_until(f"attempt {attempt} runs", lambda: len(look()) == 4 and all(look()))
        return look()

    job = tree.popen("sbatch", "-N6", "--no-kill", "--wait", f"--output={directory}/output", str(path))
    assert at(0) == ["n1", "n3", "n2", "n4"]
    tree.kill_all("n4", silently=False)
    try:
        assert at(1) == ["n1", "n3", "n2", "n6"]
        wait_until("it is told", lambda: "n6 replaces n4" in (directory / "output").read_text())
    finally:
        (directory / "end").touch()
        tree.restore("n4")  # and ends the job, of which Slurm waits for n4
        job.wait()
