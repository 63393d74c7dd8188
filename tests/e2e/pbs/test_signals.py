"""Signals of PBS: each worker of every host gets each of them once, and may save."""

from __future__ import annotations

import pytest

from support.hosts import wait_until
from support.pbs_cluster import TWO_HOSTS

WORKER = """
import os, signal, sys, time
rank, folder = os.environ["RANK"], sys.argv[1]
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
open(f"{folder}/ready.{rank}", "w").close()
end = None
while end is None or time.monotonic() < end:
    got = signal.sigtimedwait({signal.SIGTERM, signal.SIGUSR1}, 0.1)
    # The tool that shows where ranks are 2 s before they are killed interrupts the wait. Where that lasts longer, CPython 3.11 gives
    # what it has not filled in.
    if got and got.si_signo in (signal.SIGTERM, signal.SIGUSR1):
        open(f"{folder}/got.{rank}", "a").write(signal.Signals(got.si_signo).name + "\\n")
        end = time.monotonic() + 3 if got.si_signo == signal.SIGTERM else end
    if end and time.monotonic() > end - 2.5:
        open(f"{folder}/saving.{rank}", "w").close()
open(f"{folder}/saved.{rank}", "w").close()
"""


def launch(directory, launcher: str) -> str:
    (directory / "worker.py").write_text(WORKER)
    return f"cd {directory}; exec ddprun --launcher {launcher} --no-python python3 worker.py {directory}"


def started(job):
    job.wait_until("both workers run", lambda: len(list(job.directory.glob("ready.*"))) == 2)
    return job


def got(directory) -> list[str]:
    return [path.read_text() if path.exists() else "" for path in (directory / f"got.{rank}" for rank in (0, 1))]


@pytest.mark.parametrize("launcher", ["pbsdsh", "pbs_tmrsh", "ssh"])
def test_every_worker_gets_a_signal_of_qsig_once_and_then_saves(cluster, ssh_daemons, directory, launcher):
    job = started(cluster.submit_without_shell(directory, launch(directory, launcher), *TWO_HOSTS))
    for number, name in enumerate(["SIGUSR1", "SIGUSR1", "SIGTERM"], start=1):
        cluster.control.check(["qsig", "-s", name, job.number])
        wait_until("both workers have it", lambda count=number: [len(each.splitlines()) for each in got(directory)]
                   == [count] * 2)
    result = job.wait()
    assert got(directory) == ["SIGUSR1\nSIGUSR1\nSIGTERM\n"] * 2, str(result)
    assert sorted(path.name for path in directory.glob("saved.*")) == ["saved.0", "saved.1"], str(result)
    assert result.code == 143, str(result)


@pytest.mark.parametrize("launcher", ["pbsdsh", "ssh"])
def test_a_second_sigterm_of_pbs_is_no_hurry_although_the_job_s_shell_has_gone(cluster, ssh_daemons, directory, launcher):
    """qdel ends the login shell above ddprun; on a full node pbs_mom's next SIGTERM comes a second later."""
    job = started(cluster.submit(directory, launch(directory, launcher), *TWO_HOSTS))
    cluster.control.check(["qdel", job.number])
    wait_until("both workers are saving", lambda: len(list(directory.glob("saving.*"))) == 2)
    cluster.control.check(["qdel", job.number])
    result = job.wait()
    assert sorted(path.name for path in directory.glob("saved.*")) == ["saved.0", "saved.1"], str(result)
    assert got(directory) == ["SIGTERM\n"] * 2, str(result)
    assert "killing the remaining processes" not in result.stderr + result.stdout, str(result)


# How a batch script starts ddprun.
STARTS = {
    "self-launch": "exec ddprun --launcher pbsdsh",
    "mpiexec": "exec mpiexec.hydra -launcher ssh -f $PBS_NODEFILE -n 2 -ppn 1 ddprun",
}


@pytest.mark.parametrize("how", STARTS)
@pytest.mark.parametrize("end,why", [("walltime", "reached its walltime of 00:00:15"), ("qdel", "was deleted by root@ctl"),
                                     ("qrerun", "is requeued")])
def test_however_pbs_ends_a_job_each_worker_gets_sigterm_once(cluster, ssh_daemons, directory, how, end, why):
    (directory / "worker.py").write_text(WORKER)
    line = f"[ -e {directory}/begun ] && exit; touch {directory}/begun; cd {directory}; " \
           f"{STARTS[how]} --no-python python3 worker.py {directory} 2> said"
    limit = ["-l", "walltime=00:00:15"] if end == "walltime" else []
    job = started(cluster.submit_without_shell(directory, line, *TWO_HOSTS, *limit))
    if end != "walltime":
        cluster.control.check([end, job.number])
    wait_until("both workers are saving", lambda: len(list(directory.glob("saving.*"))) == 2)
    wait_until("ddprun says why", lambda: "stopped by SIGTERM on " in (directory / "said").read_text())
    said = (directory / "said").read_text()
    assert got(directory) == ["SIGTERM\n"] * 2, said
    assert [line for line in said.splitlines() if line.startswith("ddprun: stopped by SIGTERM on p")
            and line.endswith(f": job {job.number} {why}")], said
