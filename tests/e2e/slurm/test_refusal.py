"""Launches that cannot be right are refused with a sentence and what to do instead."""

from __future__ import annotations

import json
import shlex

import pytest

from support import evidence
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")


def batch(cluster, directory, options, script) -> tuple[int, str]:
    """Runs a batch script; gives back its exit code and output."""
    path = directory / "job.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    result = cluster.batch(*options, f"--output={directory}/output", str(path))
    return result.code, (directory / "output").read_text()


def test_batch_script_with_srun(cluster, directory):
    code, output = batch(cluster, directory, ["-N2", "--ntasks-per-node=1"], f"srun ddprun {PRINT} {directory}")
    assert code == 0, output
    assert [worker["host"] for worker in evidence.workers(directory)] == ["n1", "n2"]


def test_batch_script_of_one_node_needs_no_srun(cluster, directory):
    code, output = batch(cluster, directory, ["-N1", "-w", "n3"], f"ddprun --nproc-per-node 2 {PRINT} {directory}")
    assert code == 0, output
    assert [(worker["host"], worker["RANK"], worker["WORLD_SIZE"]) for worker in evidence.workers(directory)] == [
        ("n3", "0", "2"), ("n3", "1", "2")]


def test_batch_script_of_two_nodes_without_srun(cluster, directory):
    code, output = batch(cluster, directory, ["-N2", "--ntasks-per-node=1"], f"ddprun --launcher none {PRINT} {directory}")
    assert code == 125, output
    line = evidence.srun_hint(output)
    assert shlex.split(line)[0] == "srun" and PRINT in line, output
    assert not evidence.workers(directory)
    code, output = batch(cluster, directory, ["-N2", "--ntasks-per-node=1"], line)
    assert code == 0, output
    assert len({worker["host"] for worker in evidence.workers(directory)}) == 2


@pytest.mark.parametrize("nodes", [1, 2])
def test_salloc_shell_on_the_submit_host(cluster, directory, nodes):
    result = cluster.run("salloc", f"-N{nodes}", "ddprun", "--launcher", "none", PRINT, str(directory))
    assert result.code == 125, str(result)
    line = evidence.srun_hint(result.stderr)
    assert cluster.run("salloc", f"-N{nodes}", *shlex.split(line)).code == 0
    assert len(evidence.workers(directory)) == nodes


def test_variables_of_another_job_are_refused_on_a_host_it_does_not_have(cluster, directory):
    cluster.run("srun", "-N2", "-w", "n1,n2", "--ntasks-per-node=1", "sh", "-c",
                f"env -0 > {directory}/env.$SLURM_PROCID")
    entries = (directory / "env.1").read_text().split("\0")[:-1]
    leaked = {name: value for name, _, value in (entry.partition("=") for entry in entries)
              if name.startswith(("SLURM", "SRUN"))}
    result = cluster.hosts["n3"].run(["ddprun", PRINT, str(directory)], env=leaked)
    assert result.code == 125, str(result)
    assert "SLURM_" in result.stderr and "n3" in result.stderr, str(result)
    assert not evidence.workers(directory)


def test_step_variables_in_a_batch_script_submitted_from_a_step_are_not_followed(cluster, directory):
    script = directory / "inner.sh"
    script.write_text(f"#!/bin/sh\nddprun {PRINT} {directory}\n")
    result = cluster.run("srun", "-N2", "-w", "n1,n2", "--ntasks-per-node=1", "sh", "-c",
                         "[ $SLURM_PROCID = 1 ] || exit 0;"
                         f"sbatch --parsable -N1 -n1 -w n3 --output={directory}/output {script}")
    code = cluster.wait_for_job(result.stdout)
    output = (directory / "output").read_text()
    workers = evidence.workers(directory)
    if code == 0:  # told apart: a batch script of one node
        assert [(worker["host"], worker["WORLD_SIZE"]) for worker in workers] == [("n3", "1")], output
    else:
        assert "SLURM_STEP" in output and "hint: " in output and not workers, output


def test_dry_run_is_printed_once(cluster):
    result = cluster.run("srun", "-N3", "--ntasks-per-node=1", "ddprun", "--dry-run=json", "--no-python", "true")
    assert result.code == 0, str(result)
    json.loads(result.stdout)  # exactly one document


def test_dry_run_runs_nothing(cluster, directory):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "ddprun", "--dry-run", PRINT, str(directory))
    assert result.code == 0 and result.stdout, str(result)
    assert not evidence.workers(directory)


def untimed(plan):
    """A printed plan without its heading and without what is left of the job's time: the two were made at different moments."""
    lines = plan.partition("\n\n")[2].splitlines()
    kept = [line for line in lines if not line.lstrip().startswith("time limit ") and " from SIGTERM to SIGKILL " not in line]
    assert len(kept) == len(lines) - 2, plan
    return kept


def test_a_captured_step_gives_the_same_plan_elsewhere(cluster, directory):
    program = "--no-python true"
    step = cluster.run("srun", "-N2", "--ntasks-per-node=1", "sh", "-c",
                       f"[ $SLURM_PROCID = 0 ] || exit 0; ddprun --capture {directory}/snapshot.json {program} &&"
                       f"ddprun --dry-run {program}")
    assert step.code == 0 and "n[" in step.stdout, str(step)
    result = cluster.run("ddprun", "--snapshot", f"{directory}/snapshot.json", *program.split())
    assert result.code == 0, str(result)
    assert untimed(result.stdout) == untimed(step.stdout)
