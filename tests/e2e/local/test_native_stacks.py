"""Where ranks are that show no Python stack from inside, as eu-stack or py-spy see it, and what is kept of it beside the log files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.hosts import wait_until
from support.machine import Machine, Program

WAITS = r"""
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) void wait_for_others(void) { while (access("end", F_OK) != 0) usleep(20000); }
int main(void) { fclose(fopen("ready", "w")); wait_for_others(); puts("ended"); return 0; }
"""
# A tool that is killed while it holds the process, which would stop then.
HOLDS = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char** words) {
  int process = atoi(words[count - 1]);
  if (ptrace(PTRACE_ATTACH, process, 0, 0) == 0 && waitpid(process, 0, 0) == process && kill(process, SIGSTOP) == 0)
    fclose(fopen("bin/held", "w"));
  for (;;) pause();
}
"""
PYTHON_WAITS = """
import os, time
def bad_branch():
    while not os.path.exists("end"): time.sleep(0.2)
open("ready", "w").close()
bad_branch()
print("ended")
"""
IN_C = r"is (running )?in \w+, called by (\w+, )*wait_for_others, main \(no Python stack: not inspected\)"


@pytest.fixture
def tools(machine) -> Path:
    """All that the jobs of a test find in PATH."""
    (machine.directory / "bin").mkdir()
    machine.environment["PATH"] = str(machine.directory / "bin")
    return machine.directory / "bin"


def add_tool(tools: Path, name: str, text: str | None = None) -> None:
    if text is not None:
        (tools / name).write_text("#!/bin/sh\n" + text)
        (tools / name).chmod(0o755)
        return
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not in PATH")
    (tools / name).symlink_to(found)


def compile_program(folder: Path, name: str, text: str) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / f"{name}.c").write_text(text)
    subprocess.run([compiler, "-O1", "-o", name, f"{name}.c"], cwd=folder, check=True)


@pytest.fixture
def c_worker(machine) -> list[str]:
    compile_program(machine.directory, "waits", WAITS)
    return ["--no-python", str(machine.directory / "waits")]


def start(machine: Machine, *arguments: str) -> Program:
    program = machine.start(*arguments)
    machine.wait_for_files("ready")
    return program


def stacks(machine: Machine, program: Program) -> str:
    result = machine.run("--stacks", str(program.pid))
    assert result.code == 0, str(result)
    return result.stdout


def let_end(machine: Machine, program: Program):
    (machine.directory / "end").touch()
    result = program.wait()
    assert (result.code, result.stdout) == (0, "ended\n"), str(result)
    return result


def test_the_function_of_a_c_program_is_named_and_it_goes_on(machine, tools, c_worker):
    add_tool(tools, "eu-stack")
    program = start(machine, *c_worker)
    shown = stacks(machine, program)
    assert re.search(r"rank 0 on \S+ " + IN_C, shown), shown
    assert re.search(r"\n  thread \d+ \(main\), native calls:\n(    .*\n)*    wait_for_others \(waits\)\n", shown), shown
    assert let_end(machine, program).stderr == ""


@pytest.mark.parametrize("tool, said", [
    ("eu-stack", r"is in \w+, called by .* \(no Python stack: not inspected\)"),
    ("py-spy", r"is at hold.py:4 in bad_branch\n  thread \w+ \(main\):\n"),
])
def test_a_python_that_is_not_inspected_shows_where_it_is_and_goes_on(machine, tools, tool, said):
    add_tool(tools, tool)
    (machine.directory / "hold.py").write_text(PYTHON_WAITS)
    program = start(machine, "--no-python", sys.executable, "-I", "hold.py")
    shown = stacks(machine, program)
    assert re.search(r"rank 0 on \S+ " + said, shown), shown
    assert let_end(machine, program).stderr == ""


@pytest.mark.parametrize("tool", [
    "exit 1",                                         # is refused
    "echo; echo 'TID 1:'; exec /bin/sleep 100",       # is too slow
    None,                                             # and would leave the worker stopped
])
def test_a_tool_that_shows_nothing_costs_nothing(machine, tools, c_worker, tool):
    """Here eu-stack, whose last argument is the process."""
    if tool is None:
        compile_program(tools, "eu-stack", HOLDS)
    else:
        add_tool(tools, "eu-stack", tool)
    program = start(machine, *c_worker)
    began = time.monotonic()
    shown = stacks(machine, program)
    assert time.monotonic() - began < 30
    assert re.search(r"rank 0 on \S+ is (running|sleeping( in \w+)?) \(no Python stack: not inspected\)\n", shown), shown  # it looks each 20 ms
    if tool is None:
        assert (tools / "held").exists()
    wait_until("the tool is gone", lambda: not any("sleep 100" in each or "eu-stack" in each for each in machine.processes()))
    assert let_end(machine, program).stderr == ""


def test_a_worker_that_is_stopped_meanwhile_stays_so(machine, tools, c_worker):
    add_tool(tools, "eu-stack", 'echo > bin/begun; exec /bin/sleep 100')
    program = start(machine, *c_worker)
    [worker] = wait_until("the worker runs", lambda: subprocess.run(["pgrep", "-P", str(program.pid), "-x", "waits"],
                                                                    capture_output=True, text=True).stdout.split())
    looking = machine.start("--stacks", str(program.pid))
    machine.wait_for_files("bin/begun")
    os.kill(int(worker), signal.SIGSTOP)
    assert looking.wait().code == 0
    assert "\nState:\tT (stopped)\n" in Path(f"/proc/{worker}/status").read_text()
    os.kill(int(worker), signal.SIGCONT)
    let_end(machine, program)


def record_of(machine: Machine, pattern: str) -> Path:
    return next(iter(machine.directory.glob(pattern)), machine.directory / "none")


@pytest.mark.parametrize("options, pattern", [
    (["--log-dir", "logs"], "logs/run_*/attempt_0/0/stacks.txt"), (["--logs", "logs", "--ranks", "0"], "logs/run/attempt-0/rank-00000.stacks")])
def test_what_was_collected_is_added_to_a_file_beside_the_log_files(machine, tools, c_worker, options, pattern):
    add_tool(tools, "eu-stack")
    program = start(machine, "--rdzv-id", "run", *options, *c_worker)
    for times in (1, 2):
        def is_added():
            """Asks again: on a busy machine the tool may take longer than it is waited for, and nothing is written."""
            stacks(machine, program)
            with contextlib.suppress(TimeoutError):
                return wait_until("the stacks are written", lambda: record_of(machine, pattern).exists() and
                                  record_of(machine, pattern).read_text().count("\n\n") >= times, seconds=10)
        wait_until("stacks are collected", is_added)
    text = record_of(machine, pattern).read_text()
    heading = r"== \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, attempt 0, rank 0 on \S+, pid \d+ ==\n"
    assert len(re.findall(heading + "rank 0 " + IN_C + r"\n-- eu-stack --\nPID \d+ - process\nTID \d+:\n#0 ", text)) >= 2, text
    let_end(machine, program)


def test_only_the_job_that_is_named_is_looked_at(machine, tools, c_worker):
    other = start(machine, "--rdzv-id", "other", "--log-dir", "logs", *c_worker)
    (machine.directory / "ready").unlink()
    program = start(machine, "--rdzv-id", "run", "--log-dir", "logs", *c_worker)
    assert "rank 0 on" in stacks(machine, program)
    wait_until("the stacks are written", lambda: record_of(machine, "logs/run_*/attempt_0/0/stacks.txt").exists())
    assert not record_of(machine, "logs/other_*/attempt_0/0/stacks.txt").exists()
    let_end(machine, program)
    assert other.wait().code == 0


def test_without_a_log_folder_nothing_is_written(machine, tools, c_worker):
    add_tool(tools, "eu-stack")
    program = start(machine, "--redirects", "2", *c_worker)
    stacks(machine, program)
    (machine.directory / "end").touch()
    assert program.wait().code == 0
    assert not list(machine.directory.rglob("*stacks*"))
    [folder] = machine.temporary.iterdir()
    shutil.rmtree(folder)


def test_a_folder_that_is_gone_is_told_once_and_the_job_goes_on(machine, tools, c_worker):
    program = start(machine, "--log-dir", "logs", *c_worker)
    shutil.rmtree(machine.directory / "logs")
    for _ in range(2):
        assert "rank 0 on" in stacks(machine, program)
    said = let_end(machine, program).stderr
    assert re.fullmatch(r"ddprun: cannot write all stacks of the ranks on \S+: \S+/attempt_0/0/stacks.txt: no such file or directory; "
                        r"the job continues\n", said), said


def test_a_full_disk_is_told_once_and_the_job_goes_on(machine, tools, c_worker, small_disk):
    (machine.directory / "small").mkdir()
    unshare, shell, mount = (shutil.which(name, path=os.environ["PATH"]) for name in ("unshare", "sh", "mount"))
    script = (f"{mount} -t tmpfs -o size=64k none small; $ddprun --log-dir small {' '.join(c_worker)} & "
              "while [ ! -e ready ]; do /bin/sleep 0.05; done; /bin/dd if=/dev/zero of=small/full 2> /dev/null; "
              "$ddprun --stacks $! && $ddprun --stacks $!; /bin/touch end; wait $!")
    result = machine.start_program([unshare, "-m", shell, "-c", script], env={"ddprun": machine.binary}).wait()
    assert result.code == 0 and result.stdout.count("rank 0 on") == 2 and result.stdout.endswith("ended\n"), str(result)
    said = [line for line in result.stderr.splitlines() if line.startswith("ddprun: ")]
    assert len(said) == 1 and re.match(r"ddprun: cannot write all stacks of the ranks on \S+: \S+/stacks.txt: no space left on device; "
                                       r"the job continues", said[0]), result.stderr


def test_a_hang_is_reported_with_the_native_stack_and_it_is_kept(machine, tools, c_worker):
    add_tool(tools, "eu-stack")
    result = machine.run("--hang-timeout", "2", "--log-dir", "logs", "--rdzv-id", "run", *c_worker)
    assert result.code == 124, str(result)
    assert re.search(r"rank 0 on \S+ hangs: it " + IN_C + "; no rank has shown a sign of life", result.stderr), str(result)
    assert re.search(r"native stack of rank 0, innermost call first:\n(  \|   .*\n)*  \|   wait_for_others \(waits\)\n", result.stderr), str(result)
    assert "-- eu-stack --" in record_of(machine, "logs/run_*/attempt_0/0/stacks.txt").read_text()


def test_a_file_that_takes_nothing_is_told_at_the_end(machine, tools, c_worker):
    program = start(machine, "--log-dir", "logs", *c_worker)
    os.mkfifo(next(machine.directory.glob("logs/*/attempt_0/0")) / "stacks.txt")
    assert "rank 0 on" in stacks(machine, program)
    assert re.fullmatch(r"ddprun: cannot write all stacks of the ranks on \S+: \S+/0/stacks.txt: no process has this named pipe open to "
                        r"read; the job continues\n",
                        let_end(machine, program).stderr)
