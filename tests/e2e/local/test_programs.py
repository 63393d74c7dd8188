"""Several programs in one job, on one machine and on two that were started by hand."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from support import several
from support.hosts import wait_until
from support.manual import as_text, codes, start, wait_all
from support.ports import free_port
from support.programs import REPOSITORY

FORMATS = (REPOSITORY / "man" / "ddprun-formats.5").read_text()
STEP = {"STEP_TIME": "0.1", "OMP_NUM_THREADS": "1"}
TWO = ("--nproc-per-node", "2")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def env(torch_python, directory) -> dict[str, str]:
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(directory / "inductor")}  # which torch makes in TMPDIR otherwise
    return {"PYTHON_EXEC": str(torch_python), **STEP, **cache}


@pytest.fixture
def by_shell(machine, tmp_path, torch_python, env, port) -> dict[int, str]:
    """The losses of the three scripts, started by a shell one beside the other."""
    (tmp_path / "programs").write_text(json.dumps([{"name": "server", "ready": ["127.0.0.1"]}]))
    result = machine.shell(
        f"export LOCAL_RANK=0 DDPRUN_READY_FILE={tmp_path}/ready; cd {several.SCRIPTS};"
        f"{torch_python} serve.py {port} & server=$!; {torch_python} load.py {tmp_path}/batches 20 &"
        f"DDPRUN_PROGRAMS_FILE={tmp_path}/programs PYTHON_EXEC={torch_python} $ddprun --nproc-per-node 2 train.py {tmp_path} 20 {port};"
        "code=$?; kill $server; wait; exit $code", env={**env, "STEP_TIME": "0"})
    assert result.code == 0, str(result)
    return several.losses(result.stdout)


@pytest.fixture
def job(directory, port):
    """The words of the job of three programs."""
    return lambda *options: several.words(directory, train=(*TWO, *options), port=port)


def test_three_programs_reach_the_loss_of_three_scripts(machine, directory, job, port, env, by_shell):
    result = machine.run(*job(), env=env)
    assert result.code == 0, str(result)
    assert several.losses(result.stdout) == by_shell, str(result)
    assert "ddprun: train ended with code 0; stopping server" in result.stderr, str(result)
    assert re.search(r"^\[train 0 \S+\] step 0 loss", result.stdout, re.M), str(result)
    assert "stopped by" not in result.stderr, str(result)


def test_a_server_that_is_killed_comes_back_alone(machine, directory, job, port, env, by_shell):
    running = machine.start(*job(), env=env)
    several.wait_for_steps(directory, 5)
    trainers, server = several.workers("train.py", directory), several.one(lambda: several.workers("serve.py", port))
    os.kill(server, signal.SIGKILL)
    wait_until("it is back", lambda: several.workers("serve.py", port) not in ([], [server]))
    assert several.workers("train.py", directory) == trainers
    result = running.wait()
    assert result.code == 0 and several.losses(result.stdout) == by_shell, str(result)
    assert "ddprun: server ended with code 137; it starts again (number 1)" in result.stderr, str(result)
    assert re.search(r"rank 0 on \S+ was killed by SIGKILL", result.stderr), str(result)


def test_a_trainer_that_starts_again_leaves_its_server_alone(machine, directory, job, port, env, by_shell):
    running = machine.start(*job("--max-restarts", "1"), env=env)
    several.wait_for_steps(directory, 5)
    trainers, server = several.workers("train.py", directory), several.one(lambda: several.workers("serve.py", port))
    os.kill(trainers[1], signal.SIGKILL)
    result = running.wait()
    assert result.code == 0 and several.losses(result.stdout) == by_shell, str(result)
    assert "starting all workers again (restart 1 of 1)" in result.stderr, str(result)
    assert "server ended" not in result.stderr, str(result)
    assert not Path(f"/proc/{server}").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_trainer_and_then_its_server(machine, env, number):
    report = machine.directory / "report.json"
    running = machine.start("--report", str(report), *several.waiting(machine.directory), env=env)
    machine.wait_for_files("up.train", "up.server")
    running.send_signal(number)
    result = running.wait()
    assert result.code == 128 + number, str(result)
    assert (machine.directory / "order").read_text() == "train.0 server.0 ", str(result)
    assert len(re.findall("stopped by SIG", result.stderr)) == 1, str(result)
    story = json.loads(report.read_text())
    assert (story["result"], story["signal"], story["exit_code"]) == ("stopped_by_signal", number, 128 + number), story
    assert [each["program"] for each in story["ends"]] == ["train", "server"], story
    assert story["programs"][0]["report"]["result"] == "stopped_by_signal", story


def test_the_failure_of_a_program_ends_the_job_with_its_code(machine):
    report = machine.directory / "report.json"
    result = machine.run("--report", str(report), "--no-python", "sleep", "600", ":", "--name", "server", "--no-python", "sh", "-c", "exit 7")
    assert result.code == 7, str(result)
    assert "ddprun: server: rank 0 on" in result.stderr and "ddprun: server ended with code 7; stopping sleep" in result.stderr, str(result)
    story = json.loads(report.read_text())
    assert (story["result"], story["exit_code"], story["first_failure"]["program"]) == ("program_failed", 7, "server"), story
    assert story["programs"][1]["report"]["failure"]["exit_code"] == 7, story
    assert [(each["program"], each["stopped"]) for each in story["ends"]] == [("server", False), ("sleep", True)], story
    section = FORMATS.split(".SH THE REPORT OF SEVERAL PROGRAMS")[1].split("\n.SH ")[0]
    titles = {key for tags in re.findall(r"^\.TP\n\.B (.*)$", section, re.MULTILINE) for key in re.sub(r"\\f[BR]", "", tags).split(", ")}
    assert titles | {"version", "exit_code", "began", "ended"} == set(story), titles
    assert all(f"\\fB{key}\\fR" in section for key in [*story["ends"][0], *story["programs"][0]]), section


def test_a_server_that_waits_does_not_hang_where_its_trainer_does(machine, env):
    hangs = "import time; print('up', flush=True); time.sleep(600)"
    result = machine.run("--hang-timeout", "3s", "--on-hang", "stop", "--name", "train", "--nproc-per-node", "1", "--no-python", "python3", "-c", hangs, ":",
                         "--name", "server", "--no-python", "sleep", "600", env=env)
    assert result.code == 124 and "ddprun: train: rank 0 on " in result.stderr and " hangs: " in result.stderr, str(result)
    assert "ddprun: server: " not in result.stderr and "train ended with code 124; stopping server" in result.stderr, str(result)


def test_a_program_that_is_never_ready_is_named(machine):
    result = machine.run("--no-python", "--name", "train", "--after", "server", "--ready-timeout", "1s", "true", ":", "--name",
                         "server", "--ready", "18097", "--no-python", "sleep", "600")
    assert result.code == 124, str(result)
    assert "train was not started: server was not ready within 1 s: its port 18097 does not answer" in result.stderr, str(result)


@pytest.mark.parametrize(("line", "said"), [
    (["--nodes", "2", "train.py"], "--nodes is about several programs, and this job has one\nhint: --nnodes sets"),
    (["train.py", ":"], "there is no program on one side of a ':'"),
    (["train.py", ":", "--naem", "x", "serve.py"], "program 2: unknown option --naem\nhint: did you mean --name?"),
    (["train.py", ":", "--name", "x"], "program 2: there is no script to run"),
    (["train.py", ":", "--with", "trian", "serve.py"], "program serve: --with names no program of this job: 'trian'\nhint: did you mean train?"),
    (["train.py", ":", "--on-exit", "again", "serve.py"], "program 2: --on-exit is not one of job, fail, restart, ignore: 'again'"),
    (["train.py", ":", "--ready", "web", "serve.py"], "program 2: --ready is neither a port nor an absolute path"),
    (["train.py", ":", "--signal-before-end", "USR1@9", "serve.py"],
     "program 2: --signal-before-end is not that of the first program\nhint: give the first program the same"),
    (["train.py", ":", "--env", "A", "serve.py"], "program 2: --env is not a variable with its value: 'A'"),
])
def test_mistakes_name_the_program(machine, line, said):
    result = machine.run(*line)
    assert result.code == 2 and said in result.stderr, str(result)


LISTENS = """import os, pathlib, socket, time
door = socket.socket()
door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
door.bind(("", int(os.environ["DDPRUN_READY_PORT"])))
door.listen()
print("replica", *(os.environ.get(each) for each in ("DDPRUN_REPLICA", "DDPRUN_REPLICAS", "RANK", "WORLD_SIZE", "LOCAL_RANK")), flush=True)
while not pathlib.Path("close").exists():
    time.sleep(0.05)
door.close()
time.sleep(600)
"""


def table(machine, name: str) -> dict:
    """What a program of the job has found in $DDPRUN_PROGRAMS_FILE last."""
    try:
        return next(each for each in json.loads((machine.directory / "table").read_text()) if each["name"] == name)
    except (OSError, ValueError):
        return {"ready": [], "replicas": []}


# A trainer that copies the table of programs until it is told to end.
FOLLOWS = "until [ -e done ]; do cp $DDPRUN_PROGRAMS_FILE table.new && mv table.new table; sleep 0.05; done"


def test_a_replica_that_ends_is_started_again_alone(machine, port):
    (machine.directory / "listen.py").write_text(LISTENS)
    script = f"{machine.directory}/listen.py"
    running = machine.start("--after", "server", "--name", "train", "--no-python", "sh", "-c", FOLLOWS, ":", "--name", "server", "--independent",
                            "--on-exit", "restart", "--nproc-per-node", "3", "--ready", str(port), script, "--port", str(port))

    def replicas() -> list[int]:
        return several.processes(script, port)

    wait_until("the trainer has a table", lambda: [each["state"] for each in table(machine, "server")["replicas"]] == ["ready"] * 3)
    before = replicas()
    assert len(before) == 3, before
    os.kill(before[1], signal.SIGKILL)
    wait_until("it is back", lambda: len(replicas()) == 3 and replicas() != before)
    number = wait_until("the table says so", lambda: [each["number"] for each in table(machine, "server")["replicas"] if each["attempt"] == 1])
    wait_until("it is ready again", lambda: [each["state"] for each in table(machine, "server")["replicas"]] == ["ready"] * 3)
    assert len(set(before) & set(replicas())) == 2
    assert [each["port"] for each in table(machine, "server")["replicas"]] == [port, port + 1, port + 2]
    (machine.directory / "done").touch()
    result = running.wait()
    assert result.code == 0 and f"ddprun: server {number[0]} ended with code 137; it starts again (number 1)" in result.stderr, str(result)
    assert "ddprun: train ended with code 0; stopping server\n" in result.stderr, str(result)
    lines = {line for line in result.stdout.splitlines() if "replica" in line}
    assert lines == {f"[server {each} {os.uname().nodename.split('.')[0]}] replica {each} 3 {each} 3 0" for each in range(3)}, str(result)


def test_the_replicas_of_a_job_of_one_program_end_with_the_worst_of_them(machine):
    result = machine.run("--independent", "--nproc-per-node", "3", "--no-python", "sh", "-c", "[ $RANK != 1 ] || exit 5; exec sleep 600")
    assert result.code == 5 and "ddprun: sh 1 ended with code 5; stopping sh\n" in result.stderr, str(result)
    result = machine.run("--independent", "--nproc-per-node", "3", "--no-python", "sh", "-c", "sleep 0.$RANK; echo $RANK of $WORLD_SIZE")
    assert result.code == 0 and sorted(line.split("] ")[1] for line in result.stdout.splitlines()) == ["0 of 3", "1 of 3", "2 of 3"], str(result)


def test_a_server_that_closes_its_port_is_ready_no_more_and_nothing_is_stopped(machine, port):
    (machine.directory / "listen.py").write_text(LISTENS)
    running = machine.start("--after", "server", "--name", "train", "--no-python", "sh", "-c", FOLLOWS, ":", "--name", "server", "--ready", str(port),
                            "--nproc-per-node", "1", f"{machine.directory}/listen.py", "--port", str(port))
    wait_until("it is ready", lambda: table(machine, "server")["ready"] == ["127.0.0.1"])
    (machine.directory / "close").touch()
    wait_until("it is not", lambda: table(machine, "server")["ready"] == [] and several.processes("listen.py", port))
    (machine.directory / "done").touch()
    result = running.wait()
    assert result.code == 0 and "ddprun: train ended with code 0; stopping server" in result.stderr, str(result)


def test_programs_share_a_machine_and_know_each_other(machine):
    show = "echo $DDPRUN_PROGRAM $RANK $WORLD_SIZE $A $(taskset -cp $$ | sed 's/.*: //') $DDPRUN_HOSTS_SECOND $DDPRUN_ADDR_FIRST"
    result = machine.run("--on-exit", "fail", "--no-python", "--name", "first", "--env", "A=1", "sh", "-c", show, ":", "--name", "second", "--env", "A=2",
                         "--env", "B=3", "--nproc-per-node", "2", "sh", "-c", show + "; sleep 1")
    assert result.code == 0, str(result)
    lines = sorted(re.sub(r"^\[.*?\] ", "", line) for line in result.stdout.splitlines())
    assert [line.split()[:4] for line in lines] == [["first", "0", "1", "1"], ["second", "0", "2", "2"], ["second", "1", "2", "2"]], lines
    assert all(line.split()[5:] == [os.uname().nodename.split(".")[0], "127.0.0.1"] for line in lines), lines
    if len(os.sched_getaffinity(0)) > 1:
        assert lines[0].split()[4] != lines[1].split()[4], lines


def test_the_plan_shows_every_program(machine):
    for script in ("train.py", "serve.py"):
        (machine.directory / script).touch()
    line = ["--nproc-per-node", "2", "train.py", ":", "--name", "server", "--nproc-per-node", "1", "serve.py"]
    shown = machine.run("--dry-run", *line)
    assert shown.code == 0 and "program train on " in shown.stdout and "program server on " in shown.stdout, str(shown)
    plans = json.loads(machine.run("--dry-run=json", *line).stdout)["programs"]
    assert list(plans) == ["train", "server"], plans


def test_a_file_is_the_same_as_a_line(machine, directory):
    job = {"max-restarts": 1, "programs": [
        {"name": "first", "no-python": True, "env": ["A=1", "B=2"], "command": ["sh", "-c", "echo $A$B $TORCHELASTIC_MAX_RESTARTS"]},
        {"name": "second", "no-python": True, "on-exit": "ignore", "command": ["sh", "-c", "exit 3"]}]}
    (directory / "job.json").write_text(json.dumps(job))
    result = machine.run("--job", str(directory / "job.json"))
    assert result.code == 0 and "12 1" in result.stdout, str(result)
    (directory / "job.json").write_text('{"programs": [\n{"nam": "x", "command": ["a"]}]}')
    result = machine.run("--job", str(directory / "job.json"))
    assert result.code == 2 and "job.json, line 2" in result.stderr and "did you mean name?" in result.stderr, str(result)


def test_hosts_that_were_started_by_hand(hosts, directory, key, env):
    line = several.words(directory, train=("--nnodes", "1", "--nproc-per-node", "2"), server=("--nnodes", "1"))
    both = [start(hosts, node, "--key-file", key, *line, env=env) for node in range(2)]
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
    assert len(several.losses(results[0].stdout)) == 20, as_text(results)


def test_a_stop_at_the_terminal_stops_the_workers_of_all_programs(machine):
    """What ddprun tells its worker on this node at ^Z, and at `fg`."""
    running = machine.start("--no-python", "sleep", "600", ":", "--no-python", "sleep", "601")
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")

    def find(*words: str) -> list[int]:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if machine.marker.encode() in read(pid, "environ") and read(pid, "cmdline").startswith(b"\0".join(map(str.encode, words)))]

    def read(pid: int, name: str) -> bytes:
        try:
            return Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            return b""

    def states() -> set[str]:
        return {read(pid, "stat").decode().rpartition(")")[2].split()[0] for pid in workers}

    workers = wait_until("both run", lambda: len(found := find("sleep", "60")) == 2 and found)
    shown = machine.run("--status").stdout
    assert shown.count("1 worker on 1 node: sleep 60") == 2 and "--program-node" not in shown, shown
    node = next(pid for pid in map(int, children.read_text().split()) if b"--program-node" in read(pid, "cmdline"))
    os.kill(node, signal.SIGTSTP)
    wait_until("they are stopped", lambda: states() == {"T"})
    os.kill(node, signal.SIGCONT)
    wait_until("they run again", lambda: states() == {"S"})
    running.send_signal(signal.SIGTERM)
    assert running.wait().code == 143
