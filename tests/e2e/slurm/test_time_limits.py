"""--signal-before-end, --requeue and --min-attempt-time on a real Slurm, whose least time limit is a minute."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from support.hosts import wait_until
from support.programs import SCRIPTS
from support.slurm_cluster import SlurmCluster

SAVER = f"--no-python {sys.executable} {SCRIPTS / 'save_when_warned.py'}"
WARN = "--signal-before-end USR1@40"


def submit(cluster: SlurmCluster, folder: Path, line: str, *options: str) -> str:
    (folder / "job.sh").write_text(f"#!/bin/sh\ncd {folder}\n{line}\n")
    return cluster.control.check(["sbatch", "--parsable", "-N2", "--time=1", "--requeue", f"--output={folder}/output",
                                  "--open-mode=append", *options, str(folder / "job.sh")]).strip()


def show(cluster: SlurmCluster, job: str) -> str:
    return cluster.control.check(["scontrol", "show", "job", job])


def run_again_now(cluster: SlurmCluster, job: str) -> None:
    wait_until("the job is requeued", lambda: "Restarts=0 " not in show(cluster, job) and "JobState=PENDING" in show(cluster, job))
    cluster.run_again_now(job)


def saved(folder: Path, run: int = 0) -> list[str]:
    return sorted(path.read_text().strip() for path in folder.glob(f"saved.{run}.*"))


def test_each_rank_is_warned_once_and_the_job_is_requeued_as_often_as_allowed(cluster, directory):
    job = submit(cluster, directory, f"ddprun --nproc-per-node 2 {WARN} --requeue=1 --report report.$SLURM_RESTART_COUNT.json "
                                     f"{SAVER} {directory}")
    wait_until("all ranks have saved", lambda: len(saved(directory)) == 4, 120)
    run_again_now(cluster, job)
    output = (directory / "output").read_text()
    assert saved(directory) == ["1 loader lives"] * 4, output
    lines = re.findall(rf"^ddprun: sending SIGUSR1 to all ranks: job {job} ends in (\d+) s \(its time limit\)$", output, re.MULTILINE)
    assert len(lines) == 1 and 30 <= int(lines[0]) <= 40, output
    assert f"ddprun: requeuing job {job}: its workers ended after SIGUSR1 (restart 1 of 1)" in output, output
    report = json.loads((directory / "report..json").read_text())
    assert report["requeue"] == {"asked": True, "refusal": None,
                                 "what": f"requeuing job {job}: its workers ended after SIGUSR1 (restart 1 of 1)"}, report
    assert (report["result"], report["exit_code"], report["scheduler_restarts"]) == ("succeeded", 0, 0), report

    code = cluster.wait_for_job(job)
    output = (directory / "output").read_text()
    assert code == 0, f"{show(cluster, job)}\n{output}"
    assert saved(directory, 1) == ["1 loader lives"] * 4, output
    assert f"job {job} is not requeued: it was requeued 1 time already (--requeue=1)" in output, output
    assert json.loads((directory / "report.1.json").read_text())["scheduler_restarts"] == 1


def test_workers_that_fail_after_the_warning_are_requeued_not_restarted(cluster, directory):
    job = submit(cluster, directory, f"exec srun --ntasks-per-node=1 ddprun --max-restarts 3 {WARN} --requeue {SAVER} {directory} 3")
    wait_until("a rank has saved", lambda: len(saved(directory)) > 0, 120)  # its failure may stop the other before it has
    wait_until("the job is requeued", lambda: "Restarts=1 " in show(cluster, job))
    output = (directory / "output").read_text()
    assert "exited with code 3" in output and "not restarted: the workers were warned" in output, output
    assert f"requeuing job {job}: its workers ended after SIGUSR1 (restart 1)" in output, output


def test_a_code_of_requeue_on_requeues_instead_of_a_restart(cluster, directory):
    job = submit(cluster, directory, "ddprun --max-restarts 3 --requeue=2 --requeue-on 85 --no-python sh -c 'exit 85'")
    wait_until("the job is requeued", lambda: "Restarts=1 " in show(cluster, job))
    output = (directory / "output").read_text()
    assert "not restarted: exit code 85 is in --requeue-on" in output, output
    assert f"requeuing job {job}: exit code 85 is in --requeue-on (restart 1 of 2)" in output, output


def test_a_code_of_no_requeue_on_ends_the_job(cluster, directory):
    line = f"exec srun --ntasks-per-node=1 ddprun {WARN} --requeue --no-requeue-on 3 {SAVER} {directory} 3"
    job = submit(cluster, directory, line)
    output = directory / "output"
    said = wait_until("it is said", lambda: output.exists() and f"job {job} is not requeued: " in output.read_text() and output.read_text())
    assert f"ddprun: job {job} is not requeued: exit code 3 is in --no-requeue-on\n" in said, said
    wait_until("the job has failed", lambda: "JobState=FAILED" in show(cluster, job))
    assert "Restarts=0 " in show(cluster, job)


def test_one_element_of_an_array_is_requeued_and_the_others_run_on(cluster, directory):
    """The element that has the id of the array is the one whose id means all of them."""
    (directory / "fail.sh").write_text(f"""#!/bin/sh
cd {directory}
echo $SLURM_JOB_ID > began.$SLURM_ARRAY_TASK_ID
until [ -e began.1 ] && [ -e began.2 ] && [ -e began.3 ]; do sleep 0.1; done
[ $SLURM_JOB_ID != $SLURM_ARRAY_JOB_ID ] || exit 85
until [ -e requeued ]; do sleep 0.1; done
""")
    (directory / "job.sh").write_text(f"#!/bin/sh\ncd {directory}\nexec ddprun --requeue=1 --requeue-on 85 --no-python sh fail.sh\n")
    array = cluster.control.check(["sbatch", "--parsable", "-N1", "--time=5", "--requeue", "--array=1-3", f"--output={directory}/output.%a",
                                   "--open-mode=append", str(directory / "job.sh")]).strip()
    last = wait_until("one of the elements has the array's id", lambda: next(
        (path.suffix[1:] for path in directory.glob("began.*") if path.read_text().strip() == array), ""))
    element = f"{array}_{last}"
    wait_until("it is requeued", lambda: "Restarts=1 " in show(cluster, element))
    others = [f"{array}_{number}" for number in "123" if number != last]
    assert all("JobState=RUNNING" in show(cluster, other) and "Restarts=0 " in show(cluster, other) for other in others)
    output = (directory / f"output.{last}").read_text()
    assert f"ddprun: requeuing job {element}: exit code 85 is in --requeue-on (restart 1 of 1)" in output, output
    (directory / "requeued").touch()
    assert [cluster.wait_for_job(other) for other in others] == [0, 0]
    cluster.cancel_all()


def test_no_restart_is_made_that_the_time_limit_would_end(cluster):
    result = cluster.run("salloc", "-N2", "-Q", "--time=1", "ddprun", "--max-restarts", "3", "--min-attempt-time", "5m", "--no-python",
                         "sh", "-c", "sleep 5; exit 3")
    assert result.code == 3, str(result)
    assert re.search(r"not restarted: the job ends in \d+ s, and --min-attempt-time asks for 5 min for an attempt", result.stderr), str(result)


def test_what_slurm_refuses_is_said(cluster, directory):
    result = cluster.run("salloc", "-N1", "-Q", "--time=5", "ddprun", "--requeue", "--requeue-on", "85", "--report", "report.json",
                         "--no-python", "sh", "-c", "exit 85", cwd=directory)
    assert result.code == 85, str(result)
    assert re.search(r"job \d+ is not requeued: Only batch jobs are accepted", result.stderr), str(result)
    assert "sbatch --requeue" in result.stderr, str(result)
    assert json.loads((directory / "report.json").read_text())["requeue"]["refusal"].startswith("Only batch jobs")


def test_a_worker_that_does_not_handle_the_warning_is_left_alone(cluster, directory):
    result = cluster.run("salloc", "-N1", "-Q", "--time=1", "ddprun", "--signal-before-end", "USR1@1m", "--no-python", "sleep", "20")
    assert result.code == 0, str(result)
    assert re.search(r"rank 0 on n\d cannot be sent SIGUSR1: its main process does not handle it", result.stderr), str(result)


def test_the_time_limit_of_an_extended_job_counts(cluster, directory):
    job = submit(cluster, directory, f"exec srun --ntasks-per-node=1 ddprun {WARN} {SAVER} {directory}")
    wait_until("the workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    cluster.control.check(["scontrol", "update", f"jobid={job}", "TimeLimit=2"])
    wait_until("all ranks have saved", lambda: len(saved(directory)) == 2, 150)
    output = (directory / "output").read_text()
    assert saved(directory) == ["1 loader lives"] * 2, output
    start = int(re.search(r"ends in (\d+) s", output)[1])
    assert 30 <= start <= 40, output


def test_the_plan_shows_the_limit_and_what_follows(cluster):
    options = ["--signal-before-end", "USR1@2m", "--requeue=3", "--requeue-on", "85,99", "--min-attempt-time", "10m"]
    for start in ([], ["srun"]):  # as the ddprun that would start itself on every node, and as one of those
        result = cluster.run("salloc", "-N1", "-Q", "--time=30", *start, "ddprun", "--dry-run", *options, "--no-python", "true")
        text = re.sub(r" {2,}", "  ", result.stdout)
        assert re.search(r"time limit  0 h (29|30) min left, until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  \S", text), str(result)
        assert "5 s from SIGTERM to SIGKILL  KillWait, scontrol show config" in text, str(result)
        assert "signal  SIGUSR1 to each rank, 2 min before the limit  --signal-before-end" in text, str(result)
        assert "min attempt  no restart within 10 min of the limit  --min-attempt-time" in text, str(result)
        assert re.search(r"requeue  after the signal, on code 85, 99, at most 3 times\s+(<- )?--requeue", text), str(result)
