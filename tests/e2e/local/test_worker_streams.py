"""What a worker reads and writes: shown when it is printed, in its order, and nothing of it lost."""

from __future__ import annotations

import json
import signal
import sys

from support.manual import as_text, start_all, wait_all
from support.machine import Machine, Screen, python_program

# Programs start python themselves here: ddprun cannot give it a -u.
WRAPPER = ("--no-python", "sh", "-c", 'exec "$@"', "sh", sys.executable, "-c")


def test_on_a_terminal_lines_of_several_pythons_come_when_they_are_printed(machine):
    program = "import os, time; print('step of', os.environ['RANK'])\nwhile not os.path.exists('seen'): time.sleep(0.05)"
    screen = Screen(machine, [machine.binary, "--nproc-per-node", "2", *WRAPPER, program])
    screen.wait_for("step of 0")
    screen.wait_for("step of 1")
    (machine.directory / "seen").touch()
    assert screen.wait() == 0, screen.text


def test_what_a_python_has_printed_before_it_is_killed_is_shown(machine):
    result = machine.run(*WRAPPER, "import os; print('printed'); os.kill(os.getpid(), 9)")
    assert result.code == 128 + signal.SIGKILL and result.stdout == "printed\n", str(result)


def test_a_user_who_wants_python_to_buffer_sets_the_variable_to_nothing(machine):
    program = "import os, sys; print(repr(os.environ['PYTHONUNBUFFERED']), sys.stdout.write_through)"
    assert machine.run(*WRAPPER, program).stdout == "'1' True\n"
    assert machine.run(*WRAPPER, program, env={"PYTHONUNBUFFERED": ""}).stdout == "'' False\n"


ALTERNATING = "import os\nfor n in range(2000):\n os.write(1, b'out %d\\n' % n); os.write(2, b'err %d\\n' % n)"


def misplaced(lines: list[str]) -> int:
    expected = [f"{stream} {number}" for number in range(2000) for stream in ("out", "err")]
    assert sorted(lines) == sorted(expected)
    return sum(line != wanted for line, wanted in zip(lines, expected))


def test_stdout_and_stderr_that_lead_to_one_file_keep_their_order(machine):
    for log in ("one file", "one pipe"):
        into = "> log 2>&1" if log == "one file" else "2>&1 | cat > log"
        machine.shell(f"$ddprun --no-python {sys.executable} -c \"$program\" {into}", env={"program": ALTERNATING})
        assert misplaced((machine.directory / "log").read_text().splitlines()) == 0, log


def test_every_worker_keeps_its_order_in_a_file_that_they_share(machine):
    program = ("import os\nrank = os.environb[b'RANK']\nfor n in range(500):\n"
               " os.write(1, rank + b':out %d\\n' % n); os.write(2, rank + b':err %d\\n' % n)")
    machine.shell(f"$ddprun --nproc-per-node 3 --no-python {sys.executable} -c \"$program\" > log 2>&1",
                  env={"program": program})
    lines = (machine.directory / "log").read_text().splitlines()
    for rank in range(3):
        own = [line for line in lines if line.startswith(f"{rank}:")]
        assert own == [f"{rank}:{stream} {number}" for number in range(500) for stream in ("out", "err")]


def test_stdout_and_stderr_that_lead_to_two_files_stay_apart(machine):
    result = machine.run(*python_program(ALTERNATING))
    assert result.stdout.splitlines() == [f"out {number}" for number in range(2000)]
    assert result.stderr.splitlines() == [f"err {number}" for number in range(2000)]


def test_the_report_shows_the_traceback_also_of_a_worker_whose_outputs_are_one(machine):
    frames = "\n".join(f"def f{n}(): f{n + 1}()" for n in range(6)) + "\ndef f6(): raise ValueError('the cause')\n"
    (machine.directory / "deep.py").write_text(frames + "for n in range(100): print('step', n)\nf0()\n")
    machine.shell("$ddprun deep.py > log 2>&1")
    [_, report] = (machine.directory / "log").read_text().split("  its last lines:\n")
    assert report.startswith("  | step "), report
    assert "  | Traceback (most recent call last):\n" in report, report
    assert report.endswith("  | ValueError: the cause\n"), report


def test_a_prompt_is_shown_when_it_is_written_also_into_tee(machine):
    program = "print('read', input('prompt> '))"
    (machine.directory / "ask.py").write_text(program)
    screen = Screen(machine, ["sh", "-c", f"{machine.binary} ask.py | tee log"])
    screen.wait_for("prompt> ")
    screen.type("hello\n")
    assert screen.wait() == 0
    assert "read hello" in screen.text
    assert "prompt> read hello\n" in (machine.directory / "log").read_text()


def test_the_debugger_can_be_used_into_tee(machine):
    (machine.directory / "debug.py").write_text("number = 41\nbreakpoint()\nprint('after', number)\n")
    screen = Screen(machine, ["sh", "-c", f"{machine.binary} debug.py | tee log"])
    screen.wait_for("(Pdb) ")
    screen.type("number += 1\n")
    screen.wait_for("(Pdb) ", times=2)
    screen.type("continue\n")
    assert screen.wait() == 0
    assert "after 42" in screen.text


PAGER = """
import os, sys, termios, time, tty
keys = os.open("/dev/tty", os.O_RDWR)
before = termios.tcgetattr(keys)
tty.setcbreak(keys)  # as less does
os.write(keys, b"pager ready")
while not os.path.exists("typed"): time.sleep(0.05)
os.write(keys, b"pager got " + os.read(keys, 3))
termios.tcsetattr(keys, termios.TCSADRAIN, before)
sys.stdout.write(sys.stdin.read())
"""


def test_keys_are_for_a_pager_behind_the_pipe(machine):
    (machine.directory / "pager.py").write_text(PAGER)
    for workers in ("1", "2"):
        (machine.directory / "typed").unlink(missing_ok=True)
        screen = Screen(machine, ["sh", "-c", f"{machine.binary} --nproc-per-node {workers} --no-python sh -c "
                                  "'while [ ! -e typed ]; do sleep 0.05; done; echo line of $RANK' | "
                                  f"{sys.executable} pager.py"])
        screen.wait_for("pager ready")
        screen.type("abc")
        (machine.directory / "typed").touch()
        screen.wait_for("pager got abc")
        assert screen.wait() == 0, screen.text
        assert "line of 0" in screen.text


# A worker of the first attempt reads nothing; the next one says what it got.
UNREAD = """
import fcntl, os, sys, termios, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    print("waiting", flush=True)
    while not os.path.exists("typed"): time.sleep(0.05)
    sys.exit(1)
if os.environ["RANK"] == "0":
    print("first", input())
    lines = [sys.stdin.readline() for n in range(67)]
    print("in order", [int(line.split()[0]) for line in lines] == list(range(1, 68)), flush=True)
    print("and then", input())
"""


def test_what_was_typed_and_not_read_goes_to_the_next_attempt(machine):
    screen = Screen(machine, [machine.binary, "--nproc-per-node", "2", "--max-restarts", "1",
                              *python_program(UNREAD)])
    screen.wait_for("waiting", times=2)
    for number in range(68):  # more than the worker's pipe takes: the rest waits in ddprun and in the terminal
        screen.type(f"{number} {'x' * 990} {number}.\n")
        screen.wait_for(f" {number}.")  # its echo
    (machine.directory / "typed").touch()
    screen.wait_for("first 0 xxx")
    screen.wait_for("in order True")
    screen.type("live\n")
    screen.wait_for("and then live")
    assert screen.wait() == 0, screen.text[-2000:]


LONG_TRACEBACK = [f'  File "model.py", line {number}, in forward' for number in range(8000)]


def leave_error_file(machine_directory) -> str:
    """A worker whose rank 1 leaves what torch's @record writes (error_handler.py), and fails."""
    error = {"message": {"message": "ValueError: the cause", "extraInfo": {
        "py_callstack": "\n".join(["Traceback (most recent call last):", *LONG_TRACEBACK, "ValueError: the cause"]),
        "timestamp": "0"}}}
    path = machine_directory / "error.json"
    path.write_text(json.dumps(error))
    return f"[ $RANK = 1 ] || exec sleep 600; cp {path} $TORCHELASTIC_ERROR_FILE; exit 3"


def check_error(output: str) -> None:
    block = output.split("  its error:\n")[1].splitlines()
    shown = [line for line in block if line.startswith("  | ")]
    assert shown[-1] == "  | ValueError: the cause", output
    cut = len("Traceback (most recent call last):\n") + sum(len(line) + 1 for line in LONG_TRACEBACK[:-29])
    assert shown[0] == f"  | [... {cut} bytes cut]" and len(shown) == 31, output


def test_the_end_of_a_long_traceback_arrives_from_another_host(hosts, directory, key):
    results = wait_all(start_all(hosts, "--key-file", key, "--no-python", "sh", "-c", leave_error_file(directory)))
    assert [result.code for result in results] == [3, 3], as_text(results)
    [told] = [result.stderr for result in results if "its error:" in result.stderr]
    check_error(told)


def test_the_end_of_a_long_traceback_is_shown_on_its_own_host(machine: Machine):
    result = machine.run("--nproc-per-node", "2", "--no-python", "sh", "-c", leave_error_file(machine.directory))
    assert result.code == 3, str(result)
    check_error(result.stderr)
