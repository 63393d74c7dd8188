"""What a job's processes find on their hosts, and what they do not."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from support import evidence, programs
from support.hosts import wait_until
from support.pbs_cluster import USER
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
EIGHT_CPUS = ["-l", "select=2:ncpus=8", "-l", "place=scatter"]


def test_the_configuration_tells_where_the_node_file_is(cluster, directory):
    """As where PBS_HOME is elsewhere: the tasks of pbsdsh have no PBS_NODEFILE, and it is not at the usual place."""
    (directory / "pbs" / "aux").mkdir(parents=True)
    (directory / "pbs" / "aux").chmod(0o777)
    (directory / "pbs.conf").write_text(f"PBS_EXEC=/opt/pbs\nPBS_HOME={directory}/pbs\n")
    told = f"echo $RANK $WORLD_SIZE $(hostname) > {directory}/told.$RANK"
    launch = f"pbsdsh -- env PBS_CONF_FILE={directory}/pbs.conf {programs.binary()} --no-python sh -c '{told}'"
    script = f"cp $PBS_NODEFILE {directory}/pbs/aux; until [ -e {directory}/hidden ]; do sleep 0.1; done; {launch}"
    job = cluster.submit(directory, script, *EIGHT_CPUS)
    job.wait_until("the script has the node file", lambda: list((directory / "pbs" / "aux").iterdir()))
    _chmod_aux(cluster, "700")
    try:
        (directory / "hidden").touch()
        result = job.wait()
    finally:
        _chmod_aux(cluster, "755")
    said = [wait_until("the worker has told", lambda rank=rank: (directory / f"told.{rank}").exists() and
                       (directory / f"told.{rank}").read_text(), 10) for rank in range(2)]
    assert said == ["0 2 p1\n", "1 2 p2\n"], str(result)


def _chmod_aux(cluster, mode: str) -> None:
    """Of the first host alone: tasks on the others have PBS_NODEFILE."""
    cluster.nodes[0].check(["chmod", mode, "/var/spool/pbs/aux"])


def test_the_threads_of_pbs_are_nobody_s_wish_on_any_host_of_ssh(cluster, ssh_daemons, directory):
    script = f"cd $PBS_O_WORKDIR; ddprun --launcher ssh --nproc-per-node 2 {PRINT} ."
    result = cluster.submit(directory, script, *EIGHT_CPUS).wait()
    assert result.code == 0, str(result)
    threads = [worker["OMP_NUM_THREADS"] for worker in evidence.workers(directory)]
    assert len(threads) == 4 and len(set(threads)) == 1, f"{threads}\n{result}"


def test_a_folder_that_one_host_lacks_is_named_with_the_host(cluster, ssh_daemons, directory):
    only_here = "d=$(mktemp -d /run/ddprun-XXXXXX 2>/dev/null || mktemp -d /dev/shm/XXXXXX); cd $d"
    script = f"{only_here}; ddprun --launcher ssh --no-python true"
    result = cluster.submit(directory, script, *EIGHT_CPUS).wait()
    said = result.stderr + result.stdout
    assert result.code == 125, str(result)
    assert evidence.times_said(said, "on p2: no such file or directory") >= 1, str(result)
    assert "ended with 125: hint" not in said, str(result)


@contextlib.contextmanager
def login_shell(cluster, shell):
    """Of the user, on all hosts."""
    def change(old, new):
        for host in [cluster.control, *cluster.nodes]:
            host.check(["sed", "-i", f"/^{USER}:/s#:{old}$#:{new}#", "/etc/passwd"])
    change("/bin/bash", shell)
    try:
        yield
    finally:
        change(shell, "/bin/bash")


def test_the_user_s_shell_may_be_a_csh(cluster, ssh_daemons, directory):
    shell = shutil.which("tcsh")
    if shell is None:
        pytest.skip("tcsh is not installed")
    told = 'echo "$0 $RANK $WORLD_SIZE $OF_THE_SCRIPT"'
    lines = [f"ddprun --launcher {name} --no-python sh -c '{told}' {name}" for name in ("pbsdsh", "pbs_tmrsh", "ssh")]
    (directory / "script").write_text("\n".join([f"#!{shell}", "setenv OF_THE_SCRIPT 'a  $b'", *lines, ""]))
    (directory / "script").chmod(0o755)
    with login_shell(cluster, shell):
        result = cluster.submit(directory, str(directory / "script"), *EIGHT_CPUS).wait()
    said = sorted(line for line in result.stdout.splitlines() if line.startswith(("pbs", "ssh")))
    assert said == [f"{name} {rank} 2 a  $b" for name in ("pbs_tmrsh", "pbsdsh", "ssh") for rank in (0, 1)], str(result)


def test_several_chunks_on_a_host_are_one_node_or_a_sentence(cluster, directory):
    manual = f"pbsdsh -- {programs.binary()} --no-python true"
    script = f"ddprun --no-python sh -c 'echo $RANK $WORLD_SIZE'; {manual} 2> {directory}/by-hand"
    result = cluster.submit(directory, script, "-l", "select=2:ncpus=2", "-l", "place=pack").wait()
    assert sorted(result.stdout.splitlines())[:2] == ["0 2", "1 2"], str(result)  # a chunk without mpiprocs is one task
    said = wait_until("pbsdsh has told", lambda: (directory / "by-hand").read_text() + result.stderr, 20)
    assert "names p1 2 times: pbsdsh starts as many ddprun processes there, which cannot be told apart" in said, str(result)
    assert "hint: leave pbsdsh out: ddprun starts itself once on each host" in said, str(result)


def test_a_node_file_that_is_missing_is_a_sentence(cluster, directory):
    script = "PBS_NODEFILE=/nosuch ddprun --no-python true"
    result = cluster.submit(directory, script, *EIGHT_CPUS).wait()
    assert result.code == 125, str(result)
    assert "nothing on p1 shows which hosts it has" in result.stderr, str(result)


def test_a_ddprun_that_one_host_lacks_is_no_hang(cluster, ssh_daemons, directory):
    own = "/dev/shm/of-the-first-host"
    lines = [f"mkdir -p {own}; cp {programs.binary()} {own}/ddprun"]
    lines += [f"{own}/ddprun --launcher {name} --no-python sleep 600; echo {name} $?" for name in ("pbsdsh", "ssh")]
    result = cluster.submit(directory, "\n".join(lines), *EIGHT_CPUS).wait()
    assert "pbsdsh 125\n" in result.stdout and "ssh 127\n" in result.stdout, str(result)
    assert f"hint: try pbsdsh -n 1 -- {own}/ddprun --version in the job to check ddprun on p2" in result.stderr, str(result)
