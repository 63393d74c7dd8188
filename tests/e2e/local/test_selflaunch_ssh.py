"""ddprun --hosts a,b: it starts itself through ssh on hosts without a scheduler."""

from __future__ import annotations

import json
import os
import shutil
import signal
import uuid

import pytest

from support import evidence
from support.hosts import HostGroup, wait_until
from support.programs import SCRIPTS, run_as

ALLREDUCE = str(SCRIPTS / "allreduce.py")
PRINT = str(SCRIPTS / "print_env.py")


def places(directory) -> list[tuple[str, str]]:
    return [(worker["host"], worker["RANK"]) for worker in evidence.workers(directory)]


def test_hosts(reachable, directory):
    result = reachable["a"].run(["ddprun", "--hosts", "a,b,c", PRINT, "."],
                                env={"OF_THE_SHELL": "x y\nz", "CUDA_VISIBLE_DEVICES": "0"}, cwd=directory)
    assert result.code == 0, str(result)
    assert places(directory) == [("a", "0"), ("b", "1"), ("c", "2")], str(result)
    for worker in evidence.workers(directory):
        assert worker["OF_THE_SHELL"] == "x y\nz" and worker["CUDA_VISIBLE_DEVICES"] == "0"
        ours = {name for name in worker if name.startswith("DDPRUN_")}
        assert ours == {"DDPRUN_AGENT_ID", "DDPRUN_INSPECT", "DDPRUN_LAUNCH_ID", "DDPRUN_PROGRESS_FILE", "DDPRUN_WORKER_VARIABLES"}, worker
    assert len({worker["TORCHELASTIC_RUN_ID"] for worker in evidence.workers(directory)}) == 1


@pytest.mark.usefixtures("torch_python")
def test_the_hosts_work_together(reachable):
    result = reachable["a"].run(["ddprun", "--hosts", "b,c", ALLREDUCE])
    assert result.code == 0, str(result)
    assert {line for line in result.stdout.splitlines() if "sum" in line} == {
        "rank 0 of 2: sum 1", "rank 1 of 2: sum 1"}, str(result)


def test_hostfile(reachable, directory):
    (directory / "hosts").write_text("# the machines\nb slots=4\n\nc:2\nb\n")
    result = reachable["a"].run(["ddprun", "--verbose", "--hostfile", f"{directory}/hosts", PRINT, str(directory)])
    assert result.code == 0, str(result)
    assert places(directory) == [("b", "0"), ("c", "1")], str(result)
    assert "the numbers of slots" in result.stderr, str(result)


def test_a_failing_worker(reachable):
    program = ["--no-python", "sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 600"]
    result = reachable["a"].run(["ddprun", "--hosts", "a,b", *program])
    assert result.code == 7, str(result)
    assert evidence.times_said(result.stderr, "rank 1 on b exited with code 7") == 1, str(result)


def start_waiting(hosts, directory, marker):
    worker = (f"trap 'touch {directory}/stopped.$RANK; exit 0' TERM INT; touch {directory}/ready.$RANK;"
              "while :; do sleep 0.1; done")
    process = hosts["a"].popen(["ddprun", "--hosts", "a,b,c", "--no-python", "sh", "-c", worker],
                               env=dict([marker.split("=")]))
    wait_until("all workers run", lambda: len(list(directory.glob("ready.*"))) == 3)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_in_order(reachable, directory, number):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    process = start_waiting(reachable, directory, marker)
    process.send_signal(number)
    result = process.wait()
    assert result.code == 128 + number, str(result)
    assert len(list(directory.glob("stopped.*"))) == 3, str(result)
    wait_until("no process is left", lambda: not reachable.processes_with(marker), 20)


def test_a_killed_first_ddprun_leaves_nothing(reachable, directory):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    process = start_waiting(reachable, directory, marker)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until("no process is left", lambda: not reachable.processes_with(marker), 30)


@pytest.fixture
def deaf_front_end(reachable):
    """From b and c nothing but sshd's answers gets to a: agents there cannot call back."""
    rules = [["priority", "100", "to", reachable["a"].address, "ipproto", "tcp", "sport", "22", "lookup", "main"],
             ["priority", "101", "to", reachable["a"].address, "ipproto", "tcp", "unreachable"]]
    for name in ("b", "c"):
        for rule in rules:
            reachable[name].check(["ip", "rule", "add", *rule])
    yield reachable
    for name in ("b", "c"):
        for rule in rules:
            reachable[name].check(["ip", "rule", "del", *rule])


@pytest.mark.parametrize("code", [0, 7])
def test_a_front_end_that_cannot_be_reached_is_not_needed(deaf_front_end, directory, code):
    program = ["--no-python", "sh", "-c", f"echo rank $RANK of $WORLD_SIZE; touch {directory}/$RANK; [ $RANK = 0 ] && exit;"
               f"until [ -e {directory}/0 ]; do sleep 0.02; done; exit {code}"]
    result = deaf_front_end["a"].run(["ddprun", "--verbose", "--hosts", "b,c", *program])
    assert result.code == code, str(result)
    assert {"rank 0 of 2", "rank 1 of 2"} <= set(result.stdout.splitlines()), str(result)
    assert "agent on b cannot reach its launching ddprun and continues without it" in result.stderr, str(result)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_front_end_that_cannot_be_reached_still_ends_all(deaf_front_end, directory, number):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    worker = f"touch {directory}/ready.$RANK; exec sleep 600"
    process = deaf_front_end["a"].popen(["ddprun", "--hosts", "b,c", "--no-python", "sh", "-c", worker],
                                      env=dict([marker.split("=")]))
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    process.send_signal(number)
    result = process.wait()
    assert number == signal.SIGKILL or result.code == 143, str(result)
    wait_until("no process is left", lambda: not deaf_front_end.processes_with(marker), 30)


def test_a_host_without_sshd_is_named_and_the_others_stop(reachable, ssh_daemons, directory):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    ssh_daemons.stop(reachable["c"])
    try:
        result = reachable["a"].run(["ddprun", "--hosts", "a,b,c", PRINT, str(directory)],
                                    env=dict([marker.split("=")]))
    finally:
        ssh_daemons.start(reachable["c"])
    assert result.code == 125, str(result)
    assert "cannot start ddprun on c: ssh ended with 255: " in result.stderr, str(result)
    assert "hint: try ssh c true" in result.stderr, str(result)
    assert not evidence.workers(directory)
    wait_until("no process is left", lambda: not reachable.processes_with(marker), 20)


def test_an_unknown_host_is_named(reachable, directory):
    result = reachable["a"].run(["ddprun", "--hosts", "a,nowhere", PRINT, str(directory)])
    assert result.code == 125, str(result)
    assert "cannot start ddprun on nowhere: ssh ended with 255: " in result.stderr, str(result)


def test_where_the_reason_was_said_that_all_were_stopped_is_not(reachable, directory):
    reachable["a"].check(["sh", "-c", "echo 'print()' > /tmp/only_here.py"])  # each host has a /tmp of its own
    result = reachable["a"].run(["ddprun", "--hosts", "a,b", "/tmp/only_here.py"])
    assert result.code == 127, str(result)
    assert "/tmp/only_here.py" in result.stderr and "stopped by" not in result.stderr, str(result)


def test_one_of_two_listed_hosts_alone(hosts, directory):
    result = hosts["a"].run(["ddprun", "--hosts", "a,b", "--nnodes", "1", PRINT, str(directory)])
    assert result.code == 0 and places(directory) == [("a", "0")], str(result)


def test_a_host_twice_is_refused(hosts):
    result = hosts["a"].run(["ddprun", "--hosts", "a,a", "--no-python", "true"])
    assert result.code == 2 and "--hosts names a twice" in result.stderr, str(result)


def test_without_ssh_a_sentence_says_so(hosts, directory):
    binary = hosts["a"].check(["sh", "-c", "command -v ddprun"]).strip()
    result = hosts["a"].run(["/usr/bin/env", "PATH=/nowhere", binary, "--hosts", "a,b", PRINT, str(directory)])
    assert result.code == 125, str(result)
    assert "cannot start ddprun on the other hosts: no ssh on PATH" in result.stderr, str(result)


def test_only_this_host_needs_no_ssh(hosts, directory):
    result = hosts["a"].run(["ddprun", "--hosts", "a", PRINT, str(directory)])
    assert result.code == 0, str(result)
    assert places(directory) == [("a", "0")]


def test_no_secret_is_on_a_command_line(reachable, directory):
    marker = f"DDPRUN_TEST_MARKER={uuid.uuid4()}"
    process = start_waiting(reachable, directory, marker)
    words = set()
    for pid in reachable.processes_with(marker):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue
        words |= {entry.split(b"=", 1)[1] for entry in entries if entry.startswith(b"DDPRUN_FRONT_END_KEY=")}
    assert words, "no agent holds the key of its launch"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read()
        except OSError:
            continue
        assert not [word for word in words if word in line], line
    process.send_signal(signal.SIGTERM)
    process.wait()


def test_launcher_none_starts_nothing(hosts, directory):
    result = hosts["a"].run(["ddprun", "--hosts", "a,b", "--launcher", "none", PRINT, str(directory)])
    assert result.code == 2, str(result)
    assert "--hosts names 2 nodes, but ddprun was started on a alone" in result.stderr, str(result)


def test_dry_run(hosts):
    result = hosts["a"].run(["ddprun", "--hosts", "a,b", "--dry-run=json", "--no-python", "true"])
    assert result.code == 0, str(result)
    plan = json.loads(result.stdout)
    remote_launcher = plan["remote_launcher"]
    assert remote_launcher["hosts"] == ["a", "b"] and remote_launcher["name"]["value"] == "ssh"
    assert remote_launcher["commands"][1]["words"][0] == "ssh" and remote_launcher["commands"][1]["words"][-2] == "b", plan


def test_a_capture_plans_the_same_elsewhere(hosts, directory):
    path = f"{directory}/snapshot.json"
    hosts["a"].check(["ddprun", "--capture", path])
    arguments = ["--hosts", "a,b", "--dry-run=json", "--no-python", "true"]
    here = json.loads(hosts["a"].check(["ddprun", *arguments]))
    elsewhere = json.loads(hosts["c"].check(["ddprun", "--snapshot", path, *arguments]))
    assert here["remote_launcher"]["commands"] == elsewhere["remote_launcher"]["commands"]
    assert here["remote_launcher"]["commands"][1]["words"][0] == "ssh", here


def environment_of(hosts, directory, kind):
    """For --launcher mpiexec on a and b to be this kind of mpiexec."""
    program = shutil.which(kind)
    if program is None:
        pytest.skip(f"{kind} is not installed")
    (directory / "programs").mkdir()
    run_as(directory / "programs" / "mpiexec", program)
    (directory / "hosts").write_text("a slots=1\nb slots=1\n")
    return {"PATH": f"{directory}/programs:{hosts.environment['PATH']}",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_orte_default_hostfile": f"{directory}/hosts"}


@pytest.mark.parametrize("kind", ["mpiexec.hydra", "mpiexec.openmpi"])
def test_mpiexec(reachable, directory, kind):
    environment = environment_of(reachable, directory, kind) | {"OF_THE_SHELL": "x y"}
    result = reachable["a"].run(["ddprun", "--hosts", "a,b", "--launcher", "mpiexec", PRINT, str(directory)],
                                env=environment)
    assert result.code == 0, str(result)
    assert places(directory) == [("a", "0"), ("b", "1")], str(result)
    assert {worker["OF_THE_SHELL"] for worker in evidence.workers(directory)} == {"x y"}


@pytest.mark.parametrize(("kind", "words"), [
    ("mpiexec.hydra", "-genv OF_THE_WORDS 'x y'"), ("mpiexec.openmpi", "-x OF_THE_WORDS='x y'")])
def test_mpiexec_with_words_of_the_user_s(reachable, directory, kind, words):
    environment = environment_of(reachable, directory, kind)
    result = reachable["a"].run(["ddprun", "--hosts", "a,b", "--launcher", "mpiexec", "--launcher-args", words, PRINT,
                                 str(directory)], env=environment)
    assert result.code == 0, str(result)
    assert places(directory) == [("a", "0"), ("b", "1")], str(result)
    if kind == "mpiexec.hydra":  # under Open MPI the agents' environment is the front end's, whatever mpirun passes
        assert {worker["OF_THE_WORDS"] for worker in evidence.workers(directory)} == {"x y"}


def test_ssh_with_words_of_the_user_s(reachable, directory):
    result = reachable["a"].run(["ddprun", "--hosts", "a,b", "--launcher-args", f"-E '{directory}/of ssh' -o LogLevel=DEBUG",
                                 PRINT, str(directory)])
    assert result.code == 0, str(result)
    assert places(directory) == [("a", "0"), ("b", "1")], str(result)
    assert "Sending command" in (directory / "of ssh").read_text(), str(result)
    refused = reachable["a"].run(["ddprun", "--hosts", "a,b", "--launcher-args", "-o ControlPath=x", PRINT, str(directory)])
    assert refused.code == 2 and "ddprun sets controlpath of ssh itself" in refused.stderr, str(refused)


@pytest.fixture
def only_on_a(reachable, directory):
    """A folder that is empty on the other hosts."""
    folder = directory / "only_on_a"
    folder.mkdir()
    reachable["a"].check(["mount", "-t", "tmpfs", "tmpfs", str(folder)])
    yield folder
    reachable["a"].check(["umount", str(folder)])


def test_a_hostfile_and_a_site_file_of_one_host_serve_all(reachable, directory, only_on_a):
    site = json.dumps({"format": 1, "name": "mine", "environment": {"SITE_SAYS": "hello"}}, indent=1)
    for name, text in (("hosts", "a\nb\nc\n"), ("mine.json", site)):
        reachable["a"].check(["sh", "-c", 'printf "%s" "$1" > "$2"', "-", text, str(only_on_a / name)])
    result = reachable["a"].run(["ddprun", "--hostfile", str(only_on_a / "hosts"), "--site",
                                 str(only_on_a / "mine.json"), "--join-timeout", "60", PRINT, str(directory)])
    assert result.code == 0, str(result)
    assert places(directory) == [("a", "0"), ("b", "1"), ("c", "2")], str(result)
    assert {worker["SITE_SAYS"] for worker in evidence.workers(directory)} == {"hello"}
    assert not [name for name in evidence.workers(directory)[1] if name == "DDPRUN_SITE_FILE"]


@pytest.mark.parametrize("code", [0, 3])
def test_an_end_before_it_joined_is_a_failure_whatever_its_code(reachable, directory, code):
    binary = reachable["c"].check(["sh", "-c", 'readlink -f "$(command -v ddprun)"']).strip()
    instead = directory / "instead"
    instead.write_text(f"#!/bin/sh\nexit {code}\n")
    instead.chmod(0o755)
    reachable["c"].check(["mount", "--bind", str(instead), binary])
    try:
        result = reachable["a"].run(["ddprun", "--hosts", "a,b,c", PRINT, str(directory)], timeout=120)
    finally:
        reachable["c"].check(["umount", binary])
    assert result.code == (code or 125), str(result)
    assert f"ddprun did not start on c: ssh ended with {code}, and the other hosts wait for it" in result.stderr
    assert not evidence.workers(directory)


@pytest.mark.parametrize("kind", ["ssh", "mpiexec.hydra", "mpiexec.openmpi"])
def test_a_host_that_is_cut_off_ends_the_job(reachable, directory, kind):
    environment = environment_of(reachable, directory, kind) if kind != "ssh" else {}
    words = ["--launcher", "ssh" if kind == "ssh" else "mpiexec", "--no-python", "sh", "-c",
             f"touch {directory}/ready.$RANK; exec sleep 600"]
    process = reachable["a"].popen(["ddprun", "--hosts", "a,b", *words], env=environment)
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    reachable["b"].unplug()
    try:
        result = process.wait(90)  # 20 s until a silent host counts as lost, and 6 s for what waits for it
    finally:
        reachable["b"].plug_in_again()
    assert result.code == 125, str(result)
    assert "lost" in result.stderr and " b" in result.stderr, str(result)


def test_remote_launchers_that_end_under_their_agents_end_nothing(reachable, directory):
    worker = f"touch {directory}/ready.$RANK; until [ -e {directory}/go ]; do sleep 0.05; done; echo done $RANK"
    process = reachable["a"].popen(["ddprun", "--verbose", "--hosts", "b,c", "--no-python", "sh", "-c", worker])
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        children = file.read().split()
    launchers = [int(pid) for pid in children if program_of(pid) == "ssh"]
    assert len(launchers) == 2
    for launcher in launchers:
        os.kill(launcher, signal.SIGKILL)
    wait_until("they are gone", lambda: not any(os.path.exists(f"/proc/{launcher}") for launcher in launchers))
    (directory / "go").touch()
    result = process.wait()
    assert result.code == 0, str(result)


def program_of(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def test_a_host_that_loses_only_the_one_where_ddprun_was_typed_is_lost_alone(reachable, directory):
    worker = ("echo $RANK/$WORLD_SIZE on $(hostname) > new.$RANK; mv new.$RANK $TORCHELASTIC_RESTART_COUNT.$RANK;"
              "trap 'exit 0' TERM; until [ -e end ]; do sleep 0.05; done")
    running = reachable["a"].popen(["ddprun", "--hosts", "b,c,d", "--spares", "1", "--host-timeout", "7", "--no-python", "sh",
                                    "-c", f"cd {directory}; {worker}"])
    wait_until("two work", lambda: len(list(directory.glob("0.*"))) == 2)
    cut = ["blackhole", f"{reachable['a'].address}/32"]
    reachable["c"].check(["ip", "route", "add", *cut])
    try:
        wait_until("the spare works", lambda: len(list(directory.glob("1.*"))) == 2)
        (directory / "end").touch()
        result = running.wait()
    finally:
        reachable["c"].check(["ip", "route", "delete", *cut])
    assert result.code == 0, str(result)
    assert [(directory / f"1.{rank}").read_text() for rank in (0, 1)] == ["0/2 on b\n", "1/2 on d\n"], str(result)
