"""How the suites themselves end: a suite that takes too long, a job that has ended or is not run, files of a closed home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import pbs_cluster, programs
from support.pbs_cluster import Job, PbsCluster

SUITE = str(programs.REPOSITORY / "tests" / "support" / "run_suite.py")
ENDED = "Job Id: 7.ctl\n    job_state = F\n    Exit_status = 127\n"
QUEUED = "Job Id: 7.ctl\n    job_state = Q\n    comment = Not Running: Insufficient amount of resource: ncpus\n"


def run_suite(seconds: float, *command: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SUITE, str(seconds), *command], capture_output=True, text=True, timeout=60, **more)


def test_a_suite_that_ends_in_time_has_its_own_exit_code():
    assert run_suite(50, "sh", "-c", "exit 77").returncode == 77


def test_a_suite_that_takes_too_long_names_its_tests_and_is_killed(tmp_path):
    (tmp_path / "conftest.py").write_text((programs.REPOSITORY / "tests" / "e2e" / "conftest.py").read_text())
    (tmp_path / "test_slow.py").write_text(
        "import os, subprocess\n"
        "def test_that_stands_still(tmp_path):\n"
        "    os.mkfifo('fifo')\n"
        "    subprocess.run(['sh', '-c', 'echo > held; read line < fifo'])\n")
    result = run_suite(15, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", cwd=tmp_path,
                       env=os.environ | {"PYTHONPATH": str(programs.REPOSITORY / "tests" / "e2e")})
    assert result.returncode == 1
    assert "still running after 15 s: " in result.stdout, result.stdout
    assert "runs: test_slow.py::test_that_stands_still (call)" in result.stdout, result.stdout
    assert "test_slow.py\", line 4 in test_that_stands_still" in result.stdout, result.stdout
    assert "read line < fifo" in result.stdout.partition("command line of its processes")[2], result.stdout
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout
    assert left == ""


class StandIn(PbsCluster):
    """Of a cluster, with one job that stays as it is."""

    def __init__(self, shown: str) -> None:
        self.nodes = []
        self.shown = shown


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(Job, "shown", lambda job: job.cluster.shown)
    return lambda shown: Job(StandIn(shown), "7.ctl", tmp_path)


def test_nothing_is_waited_for_that_an_ended_job_has_not_done(job, tmp_path):
    (tmp_path / "err").write_text("line 3: ddprun: command not found\n")
    with pytest.raises(AssertionError, match="job 7.ctl has ended\n(.|\n)*Exit_status = 127(.|\n)*ddprun: command not found"):
        job(ENDED).wait_until("both workers run", lambda: False)
    assert job(ENDED).wait_until("it has done so", lambda: "done") == "done"
    assert job(ENDED).wait().code == 127


def test_why_a_job_is_not_run_is_shown(job, monkeypatch):
    monkeypatch.setattr(pbs_cluster, "START", 0)
    with pytest.raises(AssertionError, match="job 7.ctl is not run\n(.|\n)*Insufficient amount of resource"):
        job(QUEUED).wait()


def test_every_user_can_read_and_run_what_is_copied_for_it(tmp_path):
    tmp_path.chmod(0o700)
    program, text = tmp_path / "program", tmp_path / "text"
    program.write_text("#!/bin/sh\nexec cat \"$1\"\n")
    text.write_text("read\n")
    program.chmod(0o700)
    text.chmod(0o600)
    command = [str(programs.readable(program)), str(programs.readable(text))]
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    assert subprocess.run([*other, *command], capture_output=True, text=True).stdout == "read\n"
    assert Path(command[1]).stat().st_mode & 0o777 == 0o644
