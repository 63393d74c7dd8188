"""ddprun alone in the script of a PBS job (support/pbs_stand_ins): through mpiexec, pbsdsh, pbs_tmrsh or ssh."""

from __future__ import annotations

import shutil
import signal
import uuid
from pathlib import Path

import pytest

from support import evidence
from support.hosts import HostGroup, wait_until
from support.pbs_stand_ins import PROGRAMS, PbsJob
from support.programs import SCRIPTS, run_as

PRINT = str(SCRIPTS / "print_env.py")
REMOTE_LAUNCHERS = ["mpiexec", "pbsdsh", "pbs_tmrsh", "ssh"]


def make_job(hosts: HostGroup, directory: Path, remote_launcher: str, slots=("b", "c")) -> PbsJob:
    """A job on a PATH where `remote launcher` is what ddprun finds first."""
    programs = directory / "programs"
    programs.mkdir()
    if remote_launcher == "mpiexec":
        hydra = shutil.which("mpiexec.hydra")
        if hydra is None:
            pytest.skip("hydra (mpich) is not installed")
        run_as(programs / "mpiexec", hydra)
    else:  # one that nobody knows, before any other of this machine
        (programs / "mpiexec").write_text("#!/bin/sh\necho some mpiexec\n")
        (programs / "mpiexec").chmod(0o755)
    if remote_launcher in ("pbsdsh", "pbs_tmrsh"):
        (programs / remote_launcher).symlink_to(PROGRAMS / remote_launcher)
    return PbsJob(hosts, directory, slots, programs=[str(programs)])


@pytest.mark.parametrize("remote_launcher", REMOTE_LAUNCHERS)
def test_the_script(reachable, directory, remote_launcher):
    job = make_job(reachable, directory, remote_launcher, slots=("b", "b", "c", "c"))
    script = f"export OF_THE_SCRIPT='x y'; cd {directory}; ddprun --verbose --nproc-per-node 2 {PRINT} ."
    result = job.start(script).wait()
    assert result.code == 0, str(result)
    assert "starting ddprun on" in result.stderr and remote_launcher in result.stderr, str(result)
    workers = evidence.workers(directory)
    assert [(worker["host"], worker["RANK"], worker["WORLD_SIZE"]) for worker in workers] == [
        ("b", "0", "4"), ("b", "1", "4"), ("c", "2", "4"), ("c", "3", "4")], str(result)
    assert {worker["OF_THE_SCRIPT"] for worker in workers} == {"x y"}
    assert {worker["PBS_JOBID"] for worker in workers} == {"7.ctl"}
    assert {path.stat().st_mode & 0o777 for path in directory.glob("worker.*")} == {0o600}, "not the script's umask"
    if remote_launcher in ("pbsdsh", "pbs_tmrsh"):
        assert [worker["PBS_NODENUM"] for worker in workers] == ["0", "0", "1", "1"]


@pytest.mark.parametrize("remote_launcher", REMOTE_LAUNCHERS)
def test_a_failing_worker(reachable, directory, remote_launcher):
    job = make_job(reachable, directory, remote_launcher)
    result = job.start("ddprun --no-python sh -c '[ $RANK = 1 ] && exit 7; exec sleep 600'").wait()
    assert result.code == 7, str(result)
    output = result.output + (job.output.read_text() if job.output.exists() else "")
    assert evidence.times_said(output, "rank 1 on c exited with code 7") == 1, output


@pytest.mark.parametrize("remote_launcher", REMOTE_LAUNCHERS)
def test_a_program_that_is_on_no_host_fails_the_job(reachable, directory, remote_launcher):
    job = make_job(reachable, directory, remote_launcher)
    result = job.start("ddprun --no-python nosuch").wait()
    assert result.code == 127, str(result)


@pytest.mark.parametrize("remote_launcher", REMOTE_LAUNCHERS)
def test_a_script_that_one_host_lacks_fails_the_job_before_the_others_stop_waiting_for_it(
        reachable, directory, remote_launcher):
    job = make_job(reachable, directory, remote_launcher)
    reachable["b"].check(["cp", PRINT, "/tmp/only-on-b.py"])  # every host has a /tmp of its own
    result = job.start(f"ddprun /tmp/only-on-b.py {directory}").wait(60)
    assert result.code == 127, str(result)
    output = result.output + (job.output.read_text() if job.output.exists() else "")
    assert "/tmp/only-on-b.py" in output, output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("remote_launcher", REMOTE_LAUNCHERS)
def test_a_stopped_or_killed_first_ddprun_leaves_nothing(reachable, directory, remote_launcher, number):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    job = make_job(reachable, directory, remote_launcher)
    worker = f"touch {directory}/ready.$RANK; exec sleep 600"
    process = job.start(f"export {marker}; exec ddprun --no-python sh -c '{worker}'")
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    process.send_signal(number)
    result = process.wait()
    assert number == signal.SIGKILL or result.code == 143, str(result)
    wait_until("no process is left", lambda: not reachable.processes_with(marker), 30)


def test_an_unreachable_host_of_the_node_file_is_named(reachable, directory):
    job = make_job(reachable, directory, "ssh", slots=("b", "nowhere"))
    result = job.start(f"ddprun {PRINT} {directory}").wait()
    assert result.code == 125, str(result)
    assert "cannot start ddprun on nowhere: ssh ended with 255: " in result.stderr, str(result)


def test_a_job_of_one_host_needs_no_remote_launcher(reachable, directory):
    job = make_job(reachable, directory, "ssh", slots=("b", "b"))
    result = job.start(f"ddprun --nproc-per-node 2 {PRINT} {directory}").wait()
    assert result.code == 0, str(result)
    assert [worker["host"] for worker in evidence.workers(directory)] == ["b", "b"]


@pytest.mark.parametrize("home", [["HOME=/tmp"], []], ids=["another home", "no home"])
def test_who_knows_the_jobs_cookie_gets_no_environment(reachable, directory, home):
    job = make_job(reachable, directory, "pbsdsh")
    worker = f"touch {directory}/ready.$RANK; until [ -e {directory}/end ]; do sleep 0.05; done"
    process = job.start(f"export OF_THE_SCRIPT=token; exec ddprun --no-python sh -c '{worker}'")
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    words = next(words for words in command_lines() if "--started-by" in words and words[-1].startswith(str(reachable.home)))
    assert Path(words[-1]).stat().st_mode & 0o777 == 0o600, words
    address = words[words.index("--started-by") + 1]
    path = reachable.environment["PATH"]
    stranger = reachable["d"].run(["env", "-i", f"PATH={path}", *home, f"PBS_JOBCOOKIE={job.cookie}", "ddprun", "--started-by",
                                   address, "0"], timeout=60)
    assert stranger.code == 125 and "ddprun: agent on d cannot reach its launching ddprun: " in stranger.stderr, str(stranger)
    (directory / "end").touch()
    result = process.wait()
    assert result.code == 0, str(result)
    assert not Path(words[-1]).exists(), "the key outlives the job"


def command_lines() -> list[list[str]]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text().split("\0")[:-1])
        except OSError:
            continue
    return lines
