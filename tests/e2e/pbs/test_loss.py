"""Hosts, and programs that start others, that are lost while a job of ddprun runs."""

from __future__ import annotations

import pytest

from support.hosts import wait_until
from support.pbs_cluster import TWO_HOSTS

THREE_HOSTS = ["-l", "select=3:ncpus=4", "-l", "place=scatter"]
# Far above 20 s until a silent host counts as lost and 6 s for the programs that wait for it, far below any walltime.
SOON = 90


def start(cluster, directory, launcher, worker, hosts=TWO_HOSTS, options=""):
    """The job writes ddprun's exit code, since PBS itself has its own ideas of when a job on a lost host ends."""
    script = (f"cd {directory}; ddprun --launcher {launcher} {options} --no-python bash -c '{worker}'; "
              "echo $? > ended.new; mv ended.new ended")
    job = cluster.submit(directory, script, *hosts)
    job.wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    return job


def code_of(directory) -> int:
    return int(wait_until("ddprun has ended", lambda: (directory / "ended").exists() and
                          (directory / "ended").read_text(), SOON))


def host_of(cluster, file):
    """Of the worker that has written it: PBS may leave out a host that has just come back."""
    return cluster.hosts[wait_until("the worker has named its host", lambda: file.read_text().strip())]


@pytest.mark.parametrize("launcher", ["pbsdsh", "pbs_tmrsh", "ssh"])
def test_a_host_that_is_cut_off_ends_the_job(cluster, ssh_daemons, directory, launcher):
    start(cluster, directory, launcher, "hostname > ready.$RANK; exec sleep 600")
    with cluster.cut_off(host_of(cluster, directory / "ready.1")):
        assert code_of(directory) == 125


@pytest.mark.parametrize("launcher", ["pbsdsh", "pbs_tmrsh", "ssh"])
def test_a_spare_replaces_a_host_that_is_cut_off(cluster, ssh_daemons, directory, launcher):
    worker = "hostname > ready.$TORCHELASTIC_RESTART_COUNT.$RANK; until [ -e go ]; do sleep 0.1; done; touch done.$RANK"
    start(cluster, directory, launcher, worker, THREE_HOSTS, "--spares 1 --host-timeout 7")
    with cluster.cut_off(host_of(cluster, directory / "ready.0.1")):
        wait_until("both run again", lambda: len(list(directory.glob("ready.1.*"))) == 2, SOON)
        (directory / "go").touch()
        assert code_of(directory) == 0
    assert {path.name for path in directory.glob("done.*")} == {"done.0", "done.1"}


@pytest.mark.parametrize("launcher", ["pbsdsh", "pbs_tmrsh"])
def test_a_restarted_pbs_mom_ends_nothing(cluster, directory, launcher):
    worker = "touch ready.$RANK; until [ -e go ]; do sleep 0.1; done; touch done.$RANK"
    start(cluster, directory, launcher, worker)
    first = cluster.nodes[0]
    cluster.restart_mom(first)
    wait_until("pbs_mom is back", lambda: "state = free" in cluster.control.run(["pbsnodes", first.name]).stdout or
               "job-busy" in cluster.control.run(["pbsnodes", first.name]).stdout, 120)
    (directory / "go").touch()
    assert code_of(directory) == 0
    assert sorted(path.name for path in directory.glob("done.*")) == ["done.0", "done.1"]
