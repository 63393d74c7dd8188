"""Coordinators that the user names inside a job, rightly or not."""

from __future__ import annotations

import pytest

from support import evidence
from support.hosts import wait_until
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")


def master(directory) -> set[str]:
    return {worker["MASTER_ADDR"] for worker in evidence.workers(directory)}


def ranks(directory) -> list[tuple[str, str]]:
    return [(worker["host"], worker["RANK"]) for worker in evidence.workers(directory)]


@pytest.mark.parametrize("options", [[], ["--store", "worker"]], ids=["store-of-ddprun", "store-of-rank-0"])
def test_another_host_of_the_step_may_coordinate(cluster, directory, options):
    result = cluster.run("srun", "-N3", "--ntasks-per-node=1", "ddprun", "--rdzv-endpoint", "n2:29500", "--join-timeout",
                         "20", *options, PRINT, str(directory))
    assert result.code == 0, str(result)
    assert ranks(directory) == [("n1", "0"), ("n2", "1"), ("n3", "2")]
    address = "n1" if options else "n2"
    assert master(directory) == {cluster.hosts[address].address}


@pytest.mark.parametrize("variable", [False, True], ids=["option", "left-variable"])
def test_a_host_that_is_not_the_step_s_is_said_and_the_job_meets_on_its_own_first_host(cluster, directory, variable):
    endpoint = [] if variable else ["--rdzv-endpoint", "ctl:29500"]
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "ddprun", "--join-timeout", "20", *endpoint, PRINT,
                         str(directory), env={"PET_RDZV_ENDPOINT": "ctl:29500"} if variable else {})
    assert result.code == 0, str(result)
    name = "PET_RDZV_ENDPOINT" if variable else "--rdzv-endpoint"
    assert evidence.times_said(result.stderr, f"{name} ctl is not a node of this launch (n[1-2]), so n1 coordinates") == 1
    assert master(directory) == {cluster.hosts["n1"].address}


def test_a_batch_script_that_forgets_srun_hears_why_it_waits(cluster, directory):
    script = directory / "job.sh"
    script.write_text(f"#!/bin/sh\nexec ddprun --nnodes 2 --node-rank 0 --master-addr n1 {PRINT} {directory}\n")
    output = directory / "out"
    job = cluster.control.check(["sbatch", "--parsable", "-N2", "-o", str(output), str(script)]).strip()
    try:
        wait_until("it says so", lambda: output.exists() and "no other node has joined" in output.read_text())
        wait_until("with a hint", lambda: "leave out --nnodes and --node-rank" in output.read_text())
    finally:
        cluster.run("scancel", job)
