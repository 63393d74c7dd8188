"""Several programs in one job of a real OpenPBS: by ddprun itself, by mpiexec, and at the end of the walltime."""

from __future__ import annotations

import sys

import pytest

from pbs.test_styles import mpiexec_line
from support import programs, several
from support.pbs_cluster import TWO_HOSTS

# The trainer asks its server, on the other host, for as many answers as it is told, and adds them up.
ASKS = """import os, sys, time, urllib.request
total = 0
for step in range(int(sys.argv[1])):
    url = f"http://{os.environ['DDPRUN_ADDR_SERVER']}:18080/?step={step}&rank=0"
    total += float(urllib.request.urlopen(url).read())
    time.sleep(0.05)
print("total", round(total, 6), "of rank", os.environ["RANK"], "on", os.uname().nodename, flush=True)
"""


def line(directory, steps: int, colon: str) -> str:
    (directory / "ask.py").write_text(ASKS)
    serve = several.SCRIPTS / "serve.py"
    return (f"--after server --name train --nnodes 1 --nproc-per-node 1 --no-python {sys.executable} {directory}/ask.py {steps} {colon} "
            f"--name server --nnodes 1 --nproc-per-node 1 --ready 18080 --on-exit restart --no-python {sys.executable} {serve} 18080")


@pytest.mark.parametrize("how", ["itself", "hydra"])
def test_a_trainer_and_its_server(cluster, ssh_daemons, directory, how):
    start = programs.binary() if how == "itself" else f"{mpiexec_line(how)} {programs.binary()}"
    job = cluster.submit(directory, f"{start} {line(directory, 20, ':' if how == 'itself' else '::')}; echo code $?", *TWO_HOSTS)
    result = job.wait()
    total = round(sum(step * 7 % 11 / 11 for step in range(20)), 6)
    assert f"[train 0 p1] total {total} of rank 0 on p1" in job.stdout and "code 0" in job.stdout, str(result)
    assert "ddprun: train ended with code 0; stopping server" in job.stderr, job.stderr


def test_qdel_stops_all_of_it(cluster, ssh_daemons, directory):
    job = cluster.submit(directory, f"exec {programs.binary()} {line(directory, 100000, ':')}", *TWO_HOSTS)
    job.wait_until("the server answers", lambda: several.workers("serve.py", 18080))
    cluster.as_user(cluster.nodes[0], ["qdel", job.number])
    job.wait()
    job.wait_until("nothing is left", lambda: not several.workers("serve.py", 18080))


def test_the_walltime_stops_the_trainer_and_then_its_server(cluster, ssh_daemons, directory):
    words = several.waiting(directory, train=("--nnodes", "1", "--no-python", sys.executable), server=("--nnodes", "1", "--no-python", sys.executable))
    job = cluster.submit(directory, f"exec {programs.binary()} {' '.join(words)}", *TWO_HOSTS, "-l", "walltime=00:00:25")
    job.wait_until("the trainer runs", (directory / "up.train").exists)
    job.wait()
    assert (directory / "order").read_text() == "train.0 server.0 ", job.stderr
    assert not several.processes(str(several.WAITS), str(directory)), job.stderr
