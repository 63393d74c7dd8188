"""The examples of a training of many jobs: what a job saves before its time limit, the next one resumes from."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from support.hosts import wait_until


def undisturbed_loss(cluster, examples: Path, steps: int) -> str:
    result = cluster.run("salloc", "--nodes=2", "--gpus-per-node=1", "-Q", "ddprun", "train_for_a_week.py", "--steps", str(steps),
                         "undisturbed.pt", cwd=examples)
    assert result.code == 0, str(result)
    return re.findall(r"loss (\S+)$", result.stdout, re.MULTILINE)[-1]


def test_a_week_of_jobs_ends_as_one_undisturbed_job(cluster, examples):
    """Warned a minute after its start, and requeued: Slurm would wait two minutes before it starts the job again."""
    path = f"{examples / 'bin'}:{cluster.hosts.environment['PATH']}"
    output = examples / "job.out"
    job = cluster.control.check(["sbatch", "--parsable", "--nodes=2", "--gpus-per-node=1", "--cpus-per-task=2", "--time=6",
                                 f"--output={output}", "week.sbatch", "--steps", "240", "--pause", "0.3"],
                                cwd=examples, env={"PATH": path}).strip()

    def state() -> str:
        shown = cluster.control.check(["scontrol", "show", "job", job])
        if "JobState=PENDING Reason=BeginTime" in shown:
            cluster.run_again_now(job)
        found = re.search(r"JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)\b", shown)
        return found[1] if found else ""

    ended = wait_until("all jobs of the training have ended", state, 360, pause=1)
    text = output.read_text()
    assert ended == "COMPLETED", f"{cluster.explain(job)}\n{text}"
    assert "sending SIGUSR1 to all ranks: job" in text and "requeuing job" in text, text
    begins = [int(step) for step in re.findall(r"^this job begins at step (\d+)$", text, re.MULTILINE)]
    ends = re.findall(r"^this job ends at step (\d+), loss (\S+?)(, to be resumed)?$", text, re.MULTILINE)
    # On a busy machine one may be warned as it ends anyway: then there is one more, with nothing left to do.
    assert begins == [0, *(int(step) for step, _, _ in ends[:-1])] and len(begins) >= 2, text
    assert all(resumed or step == "240" for step, _, resumed in ends), text
    assert ends[-1] == ("240", undisturbed_loss(cluster, examples, 240), ""), text


@pytest.mark.nightly
def test_a_week_of_pbs_jobs_ends_as_one_undisturbed_job(cluster, examples):
    """Without PBS: its programs are played, and show a walltime that ends a little after the warning."""
    node, programs_folder = cluster.nodes[0], examples / "bin"
    (examples / "nodefile").write_text(f"{node.name}\n")
    for name, text in {"qstat": f"cat {examples}/shown", "qsub": f"echo $1 >> {examples}/submitted"}.items():
        (programs_folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs_folder / name).chmod(0o755)
    environment = {"PATH": f"{programs_folder}:{cluster.hosts.environment['PATH']}", "PBS_O_WORKDIR": str(examples),
                   "PBS_JOBID": "29.ctl", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": str(examples / "nodefile")}
    text, codes = "", []
    while len(codes) < 20 and 0 not in codes:  # on a busy machine a job makes a few steps
        now = time.strftime("%a %b %d %H:%M:%S %Y")
        (examples / "shown").write_text(f"Job Id: 29.ctl\n    Resource_List.walltime = 00:05:20\n    stime = {now}\n")
        result = node.run(["./week.pbs", "--steps", "150", "--pause", "0.2"], cwd=examples, env=environment, timeout=120)
        codes.append(result.code)
        text += result.output
    assert codes[0] == 85 and codes[-1] == 0 and set(codes) == {0, 85}, text
    assert (examples / "submitted").read_text().split() == ["week.pbs"] * (len(codes) - 1), text
    assert "sending SIGUSR1 to all ranks: job 29.ctl ends in 5 min (its time limit)" in text, text
    result = node.run(["ddprun", "train_for_a_week.py", "--steps", "150", "undisturbed.pt"], cwd=examples)
    assert re.findall(r"loss (\S+)$", text, re.MULTILINE)[-1] == re.findall(r"loss (\S+)$", result.stdout, re.MULTILINE)[-1], text
