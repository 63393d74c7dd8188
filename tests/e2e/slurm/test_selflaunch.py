"""ddprun is the whole line of a batch script: it starts itself on every node of the job."""

from __future__ import annotations

import json
import shlex
import signal
import uuid

import pytest

from support import evidence
from support.hosts import wait_until
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")


def batch(cluster, directory, options, script, name="job") -> tuple[int, str]:
    """Runs a batch script; gives back its exit code and output."""
    path = directory / f"{name}.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    result = cluster.batch(*options, f"--output={directory}/{name}.output", str(path))
    return result.code, (directory / f"{name}.output").read_text()


def places(directory) -> list[tuple[str, str, str, str]]:
    return [(worker["host"], worker["RANK"], worker["LOCAL_RANK"], worker["WORLD_SIZE"])
            for worker in evidence.workers(directory)]


def test_a_batch_script(cluster, directory):
    code, output = batch(cluster, directory, ["-N2", "--ntasks-per-node=1"], f"ddprun {PRINT} {directory}")
    assert code == 0, output
    assert places(directory) == [("n1", "0", "0", "2"), ("n2", "1", "0", "2")], output
    for worker in evidence.workers(directory):
        ours = {name for name in worker if name.startswith("DDPRUN_")}
        assert ours == {"DDPRUN_AGENT_ID", "DDPRUN_INSPECT", "DDPRUN_LAUNCH_ID", "DDPRUN_PROGRESS_FILE", "DDPRUN_WORKER_VARIABLES"}, worker


@pytest.mark.parametrize("options", [
    ["-N3", "--ntasks-per-node=4", "--gres=gpu:4"],
    ["-N3", "--ntasks-per-node=4", "-c2", "--gpus-per-node=4"],
    ["-N3", "-n12", "--gpus-per-task=1"],
    ["-N3", "--ntasks-per-node=2", "--export=NONE", "--gres=gpu:4"],
], ids=["gres", "cpus-per-task", "gpus-per-task", "export-none"])
def test_every_node_is_used_whole_whatever_the_job_asked_for(cluster, directory, options):
    script = f"export PATH={cluster.hosts.environment['PATH']} OF_THE_SCRIPT=1; ddprun {PRINT} {directory}"
    code, output = batch(cluster, directory, options, script)
    assert code == 0, output
    assert [(host, int(local)) for host, _, local, _ in places(directory)] == [
        (host, local) for host in ("n1", "n2", "n3") for local in range(4)], output
    workers = evidence.workers(directory)
    assert {worker["CUDA_VISIBLE_DEVICES"] for worker in workers} == {"0,1,2,3"}
    assert {worker["OF_THE_SCRIPT"] for worker in workers} == {"1"}
    if "-c2" in options:
        assert {worker["SLURM_CPUS_PER_TASK"] for worker in workers} == {"2"}


def test_fewer_nodes_than_the_job_s_have_their_own_gpus(cluster, directory):
    code, output = batch(cluster, directory, ["-N3", "-n12", "--gpus-per-task=1"],
                         f"ddprun --nnodes 2 {PRINT} {directory}")
    assert code == 0, output
    assert [(host, int(local)) for host, _, local, _ in places(directory)] == [
        (host, local) for host in ("n1", "n2") for local in range(4)], output


def test_words_of_the_user_s_for_srun(cluster, directory):
    line = "ddprun --launcher-args \"--export=ALL,OF_THE_WORDS='x y' --cpu-bind=none\""
    code, output = batch(cluster, directory, ["-N2"], f"{line} {PRINT} {directory}")
    assert code == 0, output
    assert {worker["OF_THE_WORDS"] for worker in evidence.workers(directory)} == {"x y"}, output
    code, output = batch(cluster, directory, ["-N2"], f"ddprun --launcher-args=--wait=5 {PRINT} {directory}", "refused")
    assert code == 2, output
    assert "--launcher-args cannot have '--wait=5': ddprun sets --wait of srun itself: it decides how long" in output


def test_salloc_on_the_submit_host(cluster, directory):
    result = cluster.run("salloc", "-N2", "ddprun", PRINT, str(directory))
    assert result.code == 0, str(result)
    assert [host for host, *_ in places(directory)] == ["n1", "n2"]


def test_salloc_of_one_node(cluster, directory):
    result = cluster.run("salloc", "-N1", "-w", "n2", "ddprun", PRINT, str(directory))
    assert result.code == 0, str(result)
    assert places(directory) == [("n2", "0", "0", "1")]


def test_a_heterogeneous_job(cluster, directory):
    result = cluster.run("salloc", "-N1", "-n1", ":", "-N2", "-n2", "ddprun", "--nproc-per-node", "2", PRINT,
                         str(directory))
    assert result.code == 0, str(result)
    assert [host for host, *_ in places(directory)] == ["n1", "n1", "n2", "n2", "n3", "n3"], str(result)


def test_fewer_nodes_than_the_job_has(cluster, directory):
    result = cluster.run("salloc", "-N3", "ddprun", "--nnodes", "2", PRINT, str(directory))
    assert result.code == 0, str(result)
    assert [host for host, *_ in places(directory)] == ["n1", "n2"]


def test_a_failing_worker_ends_the_script_with_its_code(cluster, directory):
    program = "--no-python sh -c '[ $RANK = 1 ] && exit 7; exec sleep 600'"
    code, output = batch(cluster, directory, ["-N2", "--ntasks-per-node=1"], f"ddprun {program}")
    assert code == 7, output
    assert evidence.times_said(output, "rank 1 on n2 exited with code 7") == 1, output


def start_waiting(cluster, directory, marker, *options):
    worker = (f"trap 'touch {directory}/stopped.$RANK; exit 0' TERM INT; touch {directory}/ready.$RANK;"
              "while :; do sleep 0.1; done")
    name, value = marker.split("=")
    process = cluster.popen("salloc", "-N2", "-Q", "sh", "-c",
                            f"echo $$ > {directory}/pid; exec ddprun {shlex.join(options)} --no-python sh -c {shlex.quote(worker)}",
                            env={name: value})
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    return process, int((directory / "pid").read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_first_ddprun_stops_all_in_order(cluster, directory, number):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    process, pid = start_waiting(cluster, directory, marker)
    cluster.control.check(["kill", f"-{int(number)}", str(pid)])
    result = process.wait()
    assert result.code == 128 + number, str(result)
    assert sorted(path.name for path in directory.glob("stopped.*")) == ["stopped.0", "stopped.1"], str(result)
    wait_until("no process is left", lambda: not cluster.hosts.processes_with(marker), 20)


def test_a_killed_first_ddprun_leaves_nothing(cluster, directory):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    process, pid = start_waiting(cluster, directory, marker)
    cluster.control.check(["kill", "-9", str(pid)])
    process.wait()
    wait_until("no process is left", lambda: not cluster.hosts.processes_with(marker), 30)


@pytest.mark.parametrize("lost", ["n2", "n1"])
def test_a_host_that_is_cut_off_ends_the_job(cluster, directory, lost):
    process, _ = start_waiting(cluster, directory, f"DDPRUN_TEST_MARKER={uuid.uuid4()}")
    cluster.hosts[lost].unplug()
    try:
        result = process.wait(90)  # 20 s until a silent host counts as lost, and 6 s for what waits for it
    finally:
        cluster.hosts[lost].plug_in_again()
    assert result.code == 125, str(result)
    assert "lost" in result.stderr and lost in result.stderr, str(result)


def test_warnings_before_the_time_limit_reach_every_worker(cluster, directory):
    worker = (f"trap 'touch {directory}/warned.$RANK; exit 0' USR1; touch {directory}/ready.$RANK;"
              "while :; do sleep 0.1; done")
    process = cluster.popen("salloc", "-N2", "-Q", "sh", "-c", f"echo $$ > {directory}/pid; exec ddprun --no-python sh -c {shlex.quote(worker)}")
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    cluster.control.check(["kill", "-USR1", (directory / "pid").read_text().strip()])
    result = process.wait()
    assert result.code == 0, str(result)
    assert len(list(directory.glob("warned.*"))) == 2, str(result)


def test_standard_input_reaches_rank_0_alone(cluster, directory):
    result = cluster.run("salloc", "-N2", "-Q", "sh", "-c",
                         "echo typed | ddprun --no-python sh -c 'echo $RANK:$(cat)'")
    assert result.code == 0, str(result)
    assert sorted(result.stdout.split()) == ["0:typed", "1:"], str(result)


def test_a_prompt_of_rank_0_is_shown_on_the_terminal_of_salloc(cluster, directory):
    (directory / "ask.py").write_text("import os\nif os.environ['RANK'] == '0': print('read', input('prompt> '))\n")
    for nodes in ("1", "2"):
        result = cluster.run("python3", str(SCRIPTS / "answer_prompt.py"), "salloc", f"-N{nodes}", "-Q", "ddprun",
                             str(directory / "ask.py"))
        assert result.code == 0 and "read hello" in result.stdout, str(result)


def test_dry_run_shows_the_command_line(cluster, directory):
    result = cluster.run("salloc", "-N2", "-Q", "ddprun", "--dry-run=json", "--nproc-per-node", "3", PRINT, str(directory))
    assert result.code == 0, str(result)
    plan = json.loads(result.stdout)
    [command] = plan["remote_launcher"]["commands"]
    assert plan["remote_launcher"]["name"]["value"] == "srun" and command["words"][:3] == ["srun", "--nodes=2", "--ntasks=2"], plan
    assert plan["remote_launcher"]["hosts"] == ["n1", "n2"] and plan["workers_per_node"]["value"] == 3
    assert plan["world_size"]["value"] == 6, plan
    assert not evidence.workers(directory)
    result = cluster.run("salloc", "-N2", "-Q", "ddprun", "--dry-run", PRINT, str(directory))
    assert result.code == 0 and "srun --nodes=2 --ntasks=2 --ntasks-per-node=1" in result.stdout, str(result)


def test_without_srun_a_sentence_says_so(cluster, directory):
    binary = cluster.control.check(["sh", "-c", "command -v ddprun"]).strip()
    result = cluster.run("salloc", "-N2", "-Q", "env", "PATH=/nowhere", binary, PRINT, str(directory))
    assert result.code == 125, str(result)
    assert "cannot start ddprun on the other hosts: no srun on PATH" in result.stderr, str(result)


def test_a_worker_that_starts_ddprun_does_not_start_all_again(cluster, directory):
    script = ("env -u SLURM_STEP_ID -u SLURM_STEPID -u SLURM_STEP_NODELIST "
              "ddprun --no-python sh -c 'echo $RANK of $WORLD_SIZE on $(hostname)'")
    result = cluster.run("salloc", "-N2", "-Q", "ddprun", "--no-python", "sh", "-c", script)
    assert result.code == 0 and sorted(result.stdout.splitlines()) == ["0 of 1 on n1", "0 of 1 on n2"], str(result)


@pytest.mark.parametrize("line", ["ddprun --check train.py", "srun ddprun --check"])
def test_a_check_of_all_nodes_of_an_allocation(cluster, directory, line):
    # The checking workers are ddprun too, and traced for their signals: LeakSanitizer cannot look at them.
    script = f"export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0\n{line}"
    code, output = batch(cluster, directory, ["-N2", "--ntasks-per-node=1"], script)
    assert code == 0 and output.count("checked 2 nodes in ") == 1, output
