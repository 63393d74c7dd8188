"""What a job's processes find on their hosts, and what they do not."""

from __future__ import annotations

from support import evidence, programs
from support.hosts import wait_until
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
    wait_until("the script has the node file", lambda: list((directory / "pbs" / "aux").iterdir()), 120)
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
    for host in cluster.nodes:
        host.check(["chmod", mode, "/var/spool/pbs/aux"])


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
