"""Every way to start ddprun in the script of a PBS job, and how such a job ends."""

from __future__ import annotations

import shutil
import textwrap

import pytest

from support import evidence, programs
from support.hosts import wait_until
from support.pbs_cluster import USER
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
TWO_HOSTS = ["-l", "select=2:ncpus=4:mpiprocs=2", "-l", "place=scatter"]
SELF_LAUNCH = ["pbsdsh", "pbs_tmrsh", "ssh"]
WITH_MPIEXEC = {
    "hydra": ("mpiexec.hydra", "mpiexec.hydra -launcher ssh -f $PBS_NODEFILE -n 2 -ppn 1"),
    "open-mpi": ("mpirun.openmpi", "mpirun.openmpi --mca plm_rsh_agent ssh --mca btl_tcp_if_include fabric0 "
                                   "--hostfile $PBS_NODEFILE -n 2 --map-by ppr:1:node --bind-to none")}


def mpiexec_line(name: str) -> str:
    program, line = WITH_MPIEXEC[name]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return line


def places(directory) -> list[tuple[str, str, str]]:
    return [(worker["host"], worker["RANK"], worker["WORLD_SIZE"]) for worker in evidence.workers(directory)]


@pytest.mark.parametrize("launcher", SELF_LAUNCH)
def test_self_launch(cluster, ssh_daemons, directory, launcher):
    script = f"cd $PBS_O_WORKDIR; export OF_THE_SCRIPT=1; ddprun --launcher {launcher} --nproc-per-node 2 {PRINT} ."
    result = cluster.submit(directory, script, *TWO_HOSTS).wait()
    assert result.code == 0, str(result)
    assert places(directory) == [("p1", "0", "4"), ("p1", "1", "4"), ("p2", "2", "4"), ("p2", "3", "4")], str(result)
    assert {worker["OF_THE_SCRIPT"] for worker in evidence.workers(directory)} == {"1"}


@pytest.mark.parametrize(("launcher", "words"), [("pbsdsh", "-v"), ("pbs_tmrsh", f"-l {USER}"), ("ssh", "-v")])
def test_words_of_the_user_s_for_the_remote_launcher(cluster, ssh_daemons, directory, launcher, words):
    script = f"cd $PBS_O_WORKDIR; ddprun --launcher {launcher} --launcher-args='{words}' --nproc-per-node 1 {PRINT} ."
    result = cluster.submit(directory, script, *TWO_HOSTS).wait()
    assert result.code == 0, str(result)
    assert places(directory) == [("p1", "0", "2"), ("p2", "1", "2")], str(result)


@pytest.mark.parametrize("launcher", WITH_MPIEXEC)
def test_mpiexec_with_the_node_file(cluster, ssh_daemons, directory, launcher):
    line = mpiexec_line(launcher)
    result = cluster.submit(directory, f"{line} ddprun --nproc-per-node 1 --nnodes 2 {PRINT} {directory}", *TWO_HOSTS).wait()
    assert result.code == 0, str(result)
    assert places(directory) == [("p1", "0", "2"), ("p2", "1", "2")], str(result)


@pytest.mark.parametrize("launcher", WITH_MPIEXEC)
def test_both_processes_on_one_host_are_not_two_nodes(cluster, ssh_daemons, directory, launcher):
    line = mpiexec_line(launcher).replace(" -ppn 1", " -ppn 2").replace("ppr:1:node", "ppr:2:node")
    result = cluster.submit(directory, f"{line} ddprun --nnodes 2 {PRINT} {directory}", *TWO_HOSTS).wait()
    assert result.code == 125, str(result)
    assert not evidence.workers(directory)
    assert "--nnodes 2, but" in result.stderr and "started 2 ddprun processes on 1 node (p1)" in result.stderr, str(result)
    assert "start one ddprun on each node: mpi" in result.stderr, str(result)


@pytest.mark.parametrize("launcher", WITH_MPIEXEC)
def test_fewer_hosts_than_the_job_has_are_noticed(cluster, ssh_daemons, directory, launcher):
    line = mpiexec_line(launcher).replace(" -ppn 1", " -ppn 2").replace("ppr:1:node", "ppr:2:node")
    result = cluster.submit(directory, f"{line} ddprun {PRINT} {directory}", *TWO_HOSTS).wait()
    assert result.code == 0, str(result)
    assert "started ddprun on 1 of the job's 2 nodes (p1)" in result.stderr, str(result)


def test_pbsdsh(cluster, directory):
    line = f"pbsdsh -- {programs.binary()} --no-python sh -c 'echo $RANK $WORLD_SIZE $(hostname) > {directory}/told.$RANK'"
    result = cluster.submit(directory, line, "-l", "select=2:ncpus=4", "-l", "place=scatter").wait()
    told = [wait_until("the worker has told", lambda rank=rank: (directory / f"told.{rank}").exists() and
                       (directory / f"told.{rank}").read_text(), 10) for rank in range(2)]
    assert told == ["0 2 p1\n", "1 2 p2\n"], str(result)


@pytest.mark.parametrize("launcher", SELF_LAUNCH)
def test_the_exit_status_is_the_failing_rank_s(cluster, ssh_daemons, directory, launcher):
    script = f"ddprun --launcher {launcher} --no-python sh -c '[ $RANK = 1 ] && exit 7; exec sleep 600'"
    result = cluster.submit(directory, script, "-l", "select=2:ncpus=4", "-l", "place=scatter").wait()
    assert result.code == 7, str(result)
    assert evidence.times_said(result.stderr + result.stdout, "rank 1 on p2 exited with code 7") == 1, str(result)


@pytest.mark.parametrize("launcher", SELF_LAUNCH)
@pytest.mark.parametrize("program", ["--no-python nosuch", "nosuch.py"])
def test_a_failed_start_is_no_success(cluster, ssh_daemons, directory, launcher, program):
    script = f"ddprun --launcher {launcher} {program}"
    result = cluster.submit(directory, script, "-l", "select=2:ncpus=4", "-l", "place=scatter").wait()
    assert result.code == 127, str(result)


@pytest.mark.parametrize("end", ["qdel", "walltime"])
def test_workers_can_save_when_pbs_ends_the_job(cluster, directory, end):
    (directory / "worker.sh").write_text(textwrap.dedent(f"""
        trap 'touch {directory}/saved.$RANK; exit 0' TERM
        touch {directory}/ready.$RANK
        while :; do sleep 0.1; done
        """))
    limit = ["-l", "walltime=00:00:15"] if end == "walltime" else []
    script = f"exec ddprun --launcher pbsdsh --no-python sh {directory}/worker.sh"
    job = cluster.submit(directory, script, "-l", "select=2:ncpus=4", "-l", "place=scatter", *limit)
    job.wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    if end == "qdel":
        cluster.control.check(["qdel", job.number])
    result = job.wait()
    assert sorted(path.name for path in directory.glob("saved.*")) == ["saved.0", "saved.1"], str(result)


def test_a_restart_takes_place_on_all_hosts(cluster, directory):
    worker = (f"echo $TORCHELASTIC_RESTART_COUNT >> {directory}/attempts.$RANK; "
              f"until [ -s {directory}/attempts.0 ]; do sleep 0.1; done;"
              "[ $RANK.$TORCHELASTIC_RESTART_COUNT = 1.0 ] && exit 3; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 600")
    script = f"ddprun --max-restarts 1 --no-python sh -c '{worker}'"
    result = cluster.submit(directory, script, "-l", "select=2:ncpus=4", "-l", "place=scatter").wait()
    assert result.code == 0, str(result)
    assert [(directory / f"attempts.{rank}").read_text() for rank in range(2)] == ["0\n1\n"] * 2


def test_the_elements_of_an_array_are_launches_of_their_own(cluster, directory):
    worker = f"echo $RANK $WORLD_SIZE > {directory}/told.$PBS_ARRAY_INDEX.$RANK"
    job = cluster.submit(directory, f"ddprun --no-python sh -c '{worker}'", "-J", "1-2", "-l", "select=2:ncpus=4",
                         "-l", "place=scatter")
    names = [f"told.{element}.{rank}" for element in (1, 2) for rank in (0, 1)]
    job.wait_until("all workers have told", lambda: all((directory / name).exists() and (directory / name).read_text()
                                                        for name in names), 90)
    assert [(directory / name).read_text() for name in names] == ["0 2\n", "1 2\n"] * 2, job.number
