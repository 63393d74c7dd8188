"""Workers that fail, and what their user reads."""

from __future__ import annotations

import re
import signal

import pytest

from support import evidence
from support.machine import python_program

SHELL = ("--no-python", "sh", "-c")


def report_of(result) -> str:
    """What ddprun itself says, without the moment of it."""
    return re.sub(r"pid \d+, ended [-\d]+ [:\d]+ UTC", "pid P, ended T", result.stderr)


def test_the_exit_code_and_the_last_lines_of_the_first_failure(machine):
    result = machine.run(*SHELL, "echo about to fail >&2; exit 3")
    assert result.code == 3, str(result)
    assert re.search(r"^ddprun: rank 0 on \S+ exited with code 3\n  sh, pid P, ended T\n  its last lines:\n"
                     r"  \| about to fail\n\Z", report_of(result), re.MULTILINE), str(result)


def test_a_signal_is_named_and_gives_128_and_its_number(machine):
    result = machine.run(*SHELL, "kill -SEGV $$")
    assert result.code == 128 + signal.SIGSEGV, str(result)
    assert "was killed by SIGSEGV" in result.stderr, str(result)


def test_a_recorded_error_is_shown_instead_of_the_last_lines(machine):
    script = 'echo noise >&2; printf \'{"message": {"message": "ValueError: no data"}}\' > $TORCHELASTIC_ERROR_FILE; exit 1'
    result = machine.run(*SHELL, script)
    assert result.code == 1, str(result)
    assert "  its error:\n  | ValueError: no data\n" in result.stderr, str(result)
    assert "its last lines" not in result.stderr, str(result)


def test_a_failure_that_restarts_do_not_cure_is_reported_once(machine, tmp_path):
    there = f"{tmp_path}/$TORCHELASTIC_RESTART_COUNT"  # rank 0 has spoken before rank 1 fails
    script = (f"echo $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; [ $RANK = 0 ] && touch {there}; "
              f"[ $RANK = 1 ] && while [ ! -e {there} ]; do sleep 0.01; done && exit 5; exec sleep 600")
    result = machine.run("--nproc-per-node", "2", "--max-restarts", "2", "--restart-policy", "always", *SHELL,
                         script)
    assert result.code == 5, str(result)
    assert [result.stdout.count(f"{attempt} of 2\n") for attempt in range(3)] == [2, 2, 2], str(result)
    assert len(re.findall("starting all workers again", result.stderr)) == 2, str(result)
    assert evidence.times_said(result.stderr, "restart 2 of 2\n") == 1, str(result)


def test_the_second_attempt_may_succeed(machine):
    result = machine.run("--nproc-per-node", "2", "--max-restarts", "1", *SHELL, "exit $((1 - TORCHELASTIC_RESTART_COUNT))")
    assert result.code == 0, str(result)


@pytest.mark.parametrize("restarts", ["0", "1"])
@pytest.mark.parametrize("name, code, why", [
    ("text", 126, "neither a program nor a script with a #! line (begin it with one, as in #!/bin/sh)"),
])
def test_a_program_that_cannot_run(machine, name, code, why, restarts):
    (machine.directory / name).write_text("just text\n")
    (machine.directory / name).chmod(0o755)
    result = machine.run("--max-restarts", restarts, "--nproc-per-node", "2", "--no-python", f"./{name}")
    assert result.code == code, str(result)
    assert f"cannot start ./{name} on " in result.stderr, str(result)
    assert evidence.times_said(result.stderr, why) == 1, str(result)  # another attempt would find the same


@pytest.mark.parametrize("text, mode, code, why, hint", [
    ("#!/no/such/interpreter\n", 0o755, 127, "/no/such/interpreter, which its first line names, does not exist",
     "correct the first line, or install that program on this host"),
    ("#!/bin/sh\r\ntrue\r\n", 0o755, 126, "its first line ends with a carriage return, as in files from Windows",
     "remove the carriage returns: sed -i 's/\\r$//' ./start"),
    ("#!/bin/sh -e\ntrue\n", 0o644, 126, "it is a script for /bin/sh and is not executable",
     "chmod +x ./start; --run-path runs it with python"),
])
def test_a_script_whose_first_line_or_permission_is_wrong(machine, text, mode, code, why, hint):
    (machine.directory / "start").write_text(text)
    (machine.directory / "start").chmod(mode)
    result = machine.run("--nproc-per-node", "2", "./start")
    assert result.code == code, str(result)
    assert re.sub(r" on \S+: ", " on HOST: ", result.stderr, count=1) == (
        f"ddprun: cannot start ./start on HOST: {why}\nhint: {hint}\n"), str(result)


def test_a_python_script_without_permission_and_a_shell_script_with_it_run(machine):
    (machine.directory / "train").write_text("#!/usr/bin/env python3\nprint('python')\n")
    (machine.directory / "start").write_text("#!/bin/sh\necho shell\n")
    (machine.directory / "start").chmod(0o755)
    assert machine.run("./train").stdout == "python\n"
    assert machine.run("./start").stdout == "shell\n"


@pytest.mark.parametrize("arguments, hint", [
    (["status"], "did you mean ddprun --status?"),
    (["train.py --steps 1"], "in quotes it is one word, the name of a file; without them: ddprun train.py --steps 1"),
    (["--hang-timeout", "5", "min", "train.py"], "write the time as one word: --hang-timeout 5m"),
])
def test_a_script_that_is_not_there_and_something_else_was_meant(machine, arguments, hint):
    result = machine.run(*arguments)
    assert result.code == 127, str(result)
    assert result.stderr.endswith(f": no such file\nhint: {hint}\n"), str(result)


def test_options_behind_the_script_are_noticed_once_for_all_workers(machine):
    (machine.directory / "train.py").write_text("import sys; print(sys.argv[1:])")
    result = machine.run("--nproc-per-node", "2", "train.py", "--max-restarts", "2")
    assert result.code == 0 and result.stdout.count("['--max-restarts', '2']\n") == 2, str(result)
    assert result.stderr.startswith(
        "ddprun: --max-restarts after train.py is an argument of the script and has no effect on ddprun\n"
        "hint: write it before the script: ddprun --nproc-per-node 2 --max-restarts 2 train.py; if it is for the script, "
        "-- before train.py silences this notice\n"), str(result)
    quiet = machine.run("--nproc-per-node", "2", "--", "train.py", "--max-restarts", "2")
    assert quiet.code == 0 and "after train.py" not in quiet.stderr, str(quiet)
    assert evidence.times_said(result.stderr, "--max-restarts after train.py") == 1, str(result)


@pytest.mark.parametrize("option, hint", [
    ("--local_rank", "write '--local_rank=${local_rank}' behind the script"),
    ("--data", "write options of ddprun before the script"),
])
def test_a_script_that_refuses_its_arguments_gets_a_hint(machine, option, hint):
    (machine.directory / "train.py").write_text(
        f"import argparse; p = argparse.ArgumentParser(); p.add_argument({option!r}, required={option == '--local_rank'}); "
        "print(p.parse_args())")
    arguments = [] if option == "--local_rank" else ["--nnodes", "1"]
    result = machine.run("train.py", *arguments)
    assert result.code == 2 and hint in result.stderr, str(result)
    result = machine.run("train.py", f"{option}=${{local_rank}}")
    assert result.code == 0 and "='0'" in result.stdout, str(result)


@pytest.mark.parametrize("arguments, code, what, hint", [
    (["--no-python", "nosuch"], 127, "cannot start nosuch on HOST: no such file", "it is neither in DIRECTORY nor on PATH"),
    (["--no-python", "./nosuch"], 127, "cannot start ./nosuch on HOST: no such file", "the working directory is DIRECTORY"),
    (["nosuch.py"], 127, "cannot start nosuch.py on HOST: no such file", "it is neither in DIRECTORY nor on PATH"),
    (["--no-python", "folder/"], 126, "cannot start folder/ on HOST: it is a directory", ""),
    (["--no-python", "./plain"], 126, "cannot start ./plain on HOST: it is not executable", "chmod +x ./plain"),
    (["--no-python", "here"], 127, "cannot start here on HOST: no such file",
     "it is in DIRECTORY, but not on PATH: write ./here"),
])
def test_a_program_that_is_not_there(machine, arguments, code, what, hint):
    (machine.directory / "folder").mkdir()
    (machine.directory / "plain").touch()
    (machine.directory / "here").touch()
    (machine.directory / "here").chmod(0o755)
    result = machine.run(*arguments)
    assert result.code == code, str(result)
    spoken = re.sub(r" on \S+: ", " on HOST: ", result.stderr, count=1).replace(str(machine.directory), "DIRECTORY")
    assert spoken == f"ddprun: {what}\n" + (f"hint: {hint}\n" if hint else ""), str(result)


def test_one_that_fails_at_once_stops_those_that_start_after_it(machine):
    result = machine.run("--nproc-per-node", "8", *SHELL, "[ $RANK = 0 ] && exit 9; exec sleep 600")
    assert result.code == 9, str(result)
    assert evidence.times_said(result.stderr, "rank ") == 1, str(result)


def test_who_ignores_the_request_to_stop_is_killed_and_is_not_the_cause(machine):
    script = "trap '' TERM; touch ready.$RANK; if [ $RANK = 1 ]; then while [ ! -e ready.0 ]; do sleep 0.05; done; exit 5; fi; while :; do sleep 0.1; done"
    result = machine.run("--nproc-per-node", "2", "--shutdown-timeout", "1", *SHELL, script)
    assert result.code == 5, str(result)
    assert "rank 1 on" in result.stderr and "SIGKILL" not in result.stderr, str(result)


@pytest.mark.parametrize("code", [0, 4])
def test_a_grandchild_that_keeps_the_pipes_open_holds_nothing_up(machine, code):
    script = f"setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & echo last words; exit {code}"
    result = machine.run("--nproc-per-node", "2", *SHELL, script)
    assert result.code == code, str(result)
    assert result.stdout == "last words\n" * 2, str(result)


def test_the_output_of_many_workers_arrives_whole_through_a_slow_reader(machine):
    flood = "import os\nfor i in range(4000): print(os.environ['RANK'], i, 'x' * (i * 7 % 150))"
    program = machine.start("--nproc-per-node", "8", *python_program(flood))
    result = program.wait()
    assert result.code == 0, str(result)
    seen = {str(rank): 0 for rank in range(8)}
    for line in result.stdout.splitlines():
        rank, number, *rest = line.split()
        assert int(number) == seen[rank] and len("".join(rest)) == int(number) * 7 % 150, line
        seen[rank] += 1
    assert set(seen.values()) == {4000}


def test_output_that_is_read_late_is_not_lost(machine):
    script = '$ddprun --no-python sh -c "seq 200000; touch written" | { while [ ! -e began ]; do sleep 0.1; done; cat; } | tail -1'
    program = machine.start_program(["sh", "-c", script], env={"ddprun": machine.binary})
    # Longer than a job that was told to stop waits for its reader.
    machine.start_program(["sh", "-c", "sleep 4; touch began"]).wait()
    assert program.wait().stdout == "200000\n"


def test_output_that_nobody_reads_costs_the_output_and_not_the_job(machine):
    result = machine.shell('{ $ddprun --no-python sh -c "seq 100000; touch done"; echo "code $?" >&2; } | head -1')
    assert result.stdout == "1\n" and "code 0\n" in result.stderr, str(result)
    assert re.search("cannot write to standard output on .*: broken pipe; the workers continue without it", result.stderr)
    assert (machine.directory / "done").exists()


def test_a_full_disk_is_told(machine):
    result = machine.shell('$ddprun --no-python sh -c "echo lost; echo heard >&2" > /dev/full')
    assert result.code == 125 and "heard\n" in result.stderr, str(result)
    assert "no space left on device; the workers continue without it" in result.stderr, str(result)
    assert re.search(r"^ddprun: standard output on \S+ is incomplete: no space left on device$", result.stderr, re.MULTILINE)
    result = machine.shell("$ddprun --help > /dev/full")
    assert result.code == 125, str(result)
    assert result.stderr == "ddprun: cannot write to standard output: no space left on device\n"


CRASH = """import ctypes, os, sys
import torch
def step():
    os.abort() if "abort" in sys.argv else ctypes.string_at(0)
print("before", file=sys.stderr)
{enable}
step()
"""


@pytest.mark.parametrize(("argument", "signal_name", "meaning"), [("", "SIGSEGV", "Segmentation fault"), ("abort", "SIGABRT", "Aborted")])
def test_the_report_of_a_crash_shows_where_python_was(machine, torch_python, argument, signal_name, meaning):
    script = machine.directory / "train.py"
    script.write_text(CRASH.format(enable=""))
    result = machine.run(str(script), argument, env={"PYTHON_EXEC": str(torch_python)})
    assert f"was killed by {signal_name}" in result.stderr, str(result)
    assert f"  | before\n  | Fatal Python error: {meaning}\n  | most recent call first:\n  |   File \"" in result.stderr, str(result)
    assert f'  |   File "{script}", line 4 in step\n  |   File "{script}", line 7 in <module>\n' in result.stderr, str(result)


def test_a_script_that_enables_faulthandler_itself_has_it_where_it_wants(machine, torch_python):
    script = machine.directory / "train.py"
    script.write_text(CRASH.format(enable="import faulthandler; faulthandler.enable(open('dump', 'w'))"))
    result = machine.run(str(script), env={"PYTHON_EXEC": str(torch_python)}, cwd=machine.directory)
    assert "Fatal Python error" not in result.stderr, str(result)
    assert "line 4 in step" in (machine.directory / "dump").read_text()


def test_a_full_disk_under_the_log_files_is_named_where_the_error_is_lost(machine, small_disk):
    (machine.directory / "small").mkdir()
    script = ("mount -t tmpfs -o size=256k none small && $ddprun -r 3 --log-dir small --no-python sh -c "
              "'yes 0123456789 | head -c 1000000; echo the error >&2; exit 1'")
    result = machine.start_program(["unshare", "-m", "sh", "-c", script], env={"ddprun": machine.binary}).wait()
    assert result.code == 1 and re.search(
        r"  hint: the file system of its log file on \S+ is full, so that what it wrote last, such as its error, is lost: free space there, "
        r"or give another folder with --log-dir\n", result.stderr), str(result)


def test_a_path_without_python_is_named(machine):
    (machine.directory / "train.py").touch()
    result = machine.run("train.py", env={"PATH": ""}, cwd=machine.directory)
    assert result.code == 127 and re.fullmatch(
        r"ddprun: cannot start Python on \S+: neither python3 nor python is on PATH, which is empty\n"
        r"hint: activate the environment that has Python before ddprun, or set PYTHON_EXEC to its path\n", result.stderr), str(result)
