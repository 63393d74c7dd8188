"""What shows from outside where a worker is: it answers while it hangs, and its script runs as without."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.hosts import wait_until
from support.machine import Machine, Program

# Each script says by a file that it is there, and goes on when it finds another.
BEGIN = """import os, sys, threading, time
def reach(name):
    open(f"{name}.{os.environ['RANK']}", "w").write(str(os.getpid()))
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.02)
"""
DEBIANS_PYTHON = "/usr/bin/python3"


class Worker:
    """The worker of a rank that came to reach(name)."""

    def __init__(self, machine: Machine, name: str, rank: int = 0) -> None:
        file = machine.directory / f"{name}.{rank}"
        self.pid = int(wait_until(f"{file.name} is written", lambda: file.exists() and file.read_text(), 240))
        variables = Path(f"/proc/{self.pid}/environ").read_bytes().split(b"\0")
        self.prefix = next(os.fsdecode(each[15:]) for each in variables if each.startswith(b"DDPRUN_INSPECT="))

    def post(self, handler: str, socket_name: str = ".socket") -> bytes:
        connection = http.client.HTTPConnection("worker")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(30)
        connection.sock.connect(self.prefix + socket_name)
        connection.request("POST", f"/handler/{handler}")
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status == 200, body
        return body

    def describe(self, parameters: str = "") -> dict:
        return json.loads(self.post("ddprun" + parameters))

    def wait_for_stack(self, function: str) -> None:
        os.kill(self.pid, signal.SIGRTMIN + 3)
        wait_until(f"the stack of {function} is written",
                   lambda: f" in {function}\n" in Path(self.prefix + ".stacks").read_text())


@pytest.fixture
def start(machine, torch_python):
    started = []

    def start(script: str, *options: str) -> Program:
        (machine.directory / "train.py").write_text(BEGIN + script)
        started.append(machine.start(*options, "train.py", env={"PYTHON_EXEC": str(torch_python)}))
        return started[-1]

    yield start
    for program in started:
        program.popen.kill()  # after a test that failed


def let(machine: Machine, name: str) -> None:
    (machine.directory / name).touch()


def test_standard_error_is_the_same_with_and_without(machine, start):
    """At a script's end, and at sys.exit()."""
    script = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
print("here", file=sys.stderr)
print(os.path.exists(os.environ.get("DDPRUN_INSPECT", "") + ".socket"))
reach("OPTION")
dist.barrier()
rank = dist.get_rank()
dist.destroy_process_group()
if rank == 1:
    while ") Z" not in open(f"/proc/{open('OPTION.0').read()}/stat").read(): time.sleep(0.02)  # rank 0 has ended
    sys.exit(3)
"""
    with_it = start(script.replace("OPTION", "with"), "--nproc-per-node", "2", "--logs", "with", "--rdzv-id", "run")
    Worker(machine, "with", rank=1)  # the file of the script is read
    without = start(script.replace("OPTION", "without"), "--nproc-per-node", "2", "--logs", "without", "--rdzv-id", "run",
                    "--no-inspect")
    results = [program.wait(timeout=120) for program in (with_it, without)]
    assert [result.code for result in results] == [3, 3], str(results)
    for name, inspected in (("with", b"True\n"), ("without", b"False\n")):
        folder = machine.directory / name / "run" / "attempt-0"
        assert {path.read_bytes() for path in folder.glob("rank-*.err")} == {b"here\n"}, name
        said = [[line for line in path.read_bytes().splitlines(keepends=True) if not line.startswith(b"[Gloo] ")]
                for path in folder.glob("rank-*.out")]  # torch 2.8's gloo tells of its connections there
        assert said == [[inspected]] * 2, name


def test_a_rank_tells_its_stack_and_the_exception_on_its_way_through_finally(machine, start):
    program = start("""
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
def step():
    raise ValueError("loss is nan")
def train():
    try:
        step()
    finally:
        reach("finally")
        wait_for("end")
threading.Thread(target=wait_for, args=["end"], name="loader").start()
train()
""")
    worker = Worker(machine, "finally")
    assert len(os.fsencode(worker.prefix + ".socket")) <= 107
    assert stat.S_IMODE(os.stat(os.path.dirname(worker.prefix)).st_mode) == 0o700
    assert worker.post("ping") == b"pong"
    assert json.loads(worker.post("fr_trace_json"))["entries"][-1]["profiling_name"].startswith("gloo:")
    answer = worker.describe()
    assert (answer["main_thread"], answer["finalizing"], answer["script_ended"]) == (worker.pid, False, False)
    assert "loaded" not in answer and worker.describe("?modules=1")["loaded"] == []  # noted with --standby alone
    threads = {thread["name"]: thread for thread in answer["threads"]}
    assert sorted(threads) == ["MainThread", "loader"], answer
    main, loader = threads["MainThread"], threads["loader"]
    assert [frame["function"] for frame in main["stack"]] == ["wait_for", "train", "<module>"], answer
    assert (main["id"], loader["exception"]) == (worker.pid, None) and loader["id"] != worker.pid, answer
    line = (machine.directory / "train.py").read_text().splitlines().index('    raise ValueError("loss is nan")') + 1
    assert main["exception"].pop("file").endswith("train.py"), answer
    assert main["exception"] == {"type": "ValueError", "message": "loss is nan", "line": line}, answer
    let(machine, "end")
    result = program.wait()
    assert result.code == 1 and "ValueError: loss is nan" in result.stderr, str(result)
    assert not os.path.exists(os.path.dirname(worker.prefix))


def test_the_signal_writes_the_stack_of_a_rank_that_holds_python_s_lock(machine, start):
    program = start("""
import ctypes, torch
def hold():
    reach("hold")
    ctypes.PyDLL(None).pause()  # until a signal has come
hold()
wait_for("end")
""")
    worker = Worker(machine, "hold")
    assert worker.post("ping") == b"pong"
    worker.wait_for_stack("hold")
    let(machine, "end")
    assert program.wait().code == 0


def test_a_rank_says_that_its_script_is_over(machine, start):
    program = start("""
import atexit
atexit.register(wait_for, "end")
atexit.register(reach, "ending")
import torch
threading.Thread(target=wait_for, args=["joined"]).start()
reach("running")
""")
    worker = Worker(machine, "running")
    wait_until("the script has ended", lambda: worker.describe()["script_ended"])
    assert worker.describe()["finalizing"] is False
    let(machine, "joined")
    Worker(machine, "ending")
    # What needs the interpreter must not be asked any more.
    assert not os.path.exists(worker.prefix + ".socket") and worker.post("ping", ".ending") == b"pong"
    let(machine, "end")
    assert program.wait().code == 0


def test_children_of_a_rank_run_as_before_and_take_nothing_over(machine, start):
    program = start("""
import subprocess, torch
from torch.utils.data import DataLoader
LOOK = "import os, torch; print(os.getpid() == os.getpgrp(), end='')"
if __name__ == "__main__":
    if len(sys.argv) == 1:
        for context in "fork", "spawn":
            loader = DataLoader(list(range(8)), batch_size=4, num_workers=1, multiprocessing_context=context)
            print([batch.tolist() for batch in loader])
        print(subprocess.check_output([sys.executable, "-c", LOOK], start_new_session=True, text=True))
        child = os.fork()
        if child == 0: sys.exit(4)  # runs what atexit has
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        reach("first")
        wait_for("again")
        os.execv(sys.executable, [sys.executable, __file__, "again"])
    reach("second")
    wait_for("end")
""")
    worker = Worker(machine, "first")
    assert worker.describe()["main_thread"] == worker.pid
    let(machine, "again")
    again = Worker(machine, "second")
    assert again.pid == worker.pid and again.describe()["main_thread"] == again.pid
    let(machine, "end")
    result = program.wait()
    batches = "[[0, 1, 2, 3], [4, 5, 6, 7]]\n"
    assert (result.code, result.stdout, result.stderr) == (0, 2 * batches + "True\n4\n", ""), str(result)


def test_a_script_keeps_its_own_handler_of_the_signal(machine, start):
    program = start("""
import faulthandler, signal
rank, number = int(os.environ["RANK"]), signal.SIGRTMIN + 3
said = []
if rank == 0: faulthandler.register(number, file=open("own", "w"))
if rank == 1: signal.signal(number, lambda *_: said.append("python's"))
if rank == 2: signal.signal(number, signal.SIG_IGN)
import torch
if rank == 3: signal.signal(number, lambda *_: said.append("python's"))
os.kill(os.getpid(), number)
print(rank, said or os.path.getsize("own") > 0 if rank != 2 else "ignored", os.path.exists(os.environ["DDPRUN_INSPECT"] + ".socket"))
""", "--nproc-per-node", "4")
    result = program.wait(timeout=120)
    assert sorted(result.stdout.splitlines()) == [
        "0 True True", "1 [\"python's\"] True", "2 ignored True", "3 [\"python's\"] True"], str(result)


def test_a_worker_that_python_or_the_user_keeps_it_from_has_no_trace_of_it(machine):
    show = "import os; print(os.environ.get('DDPRUN_INSPECT'), os.environ.get('PYTHONPATH'))"
    python = ["--no-python", sys.executable, "-c", show]
    for options, environment in (
            (["--no-inspect", *python], {}), ([*python[:2], "-I", *python[2:]], {}), ([*python[:2], "-uE", *python[2:]], {}),
            (python, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}), (["--no-python", "env", *python[1:]], {})):
        result = machine.run(*options, env=environment)
        assert (result.code, result.stdout) == (0, "None None\n"), str(result)
    result = machine.run(*python, env={"PYTHONPATH": "/some/where"})
    assert result.stdout.endswith("/inspection:/some/where\n") and not result.stdout.startswith("None"), str(result)


def test_a_rank_runs_where_its_folder_is_gone(machine, start):
    result = start("""
import shutil
shutil.rmtree(os.path.dirname(os.environ["DDPRUN_INSPECT"]))
import torch
print(torch.ones(2).sum().item(), os.path.exists(os.environ["DDPRUN_INSPECT"] + ".socket"))
""").wait()
    assert (result.code, result.stdout, result.stderr) == (0, "2.0 False\n", ""), str(result)


def test_an_older_torch_runs_as_before(machine):
    found = subprocess.run([DEBIANS_PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    if found.returncode != 0 or not found.stdout.startswith("1."):
        pytest.skip("Debian's python3-torch is not installed")
    result = machine.run("--no-python", DEBIANS_PYTHON, "-c", "import torch; print(torch.ones(2).sum().item())")
    assert (result.code, result.stdout, result.stderr) == (0, "2.0\n", ""), str(result)
