"""ddprun on a terminal: keys, job control, and a screen that stays readable."""

from __future__ import annotations

import sys

import pytest

from support.machine import Screen
from support.tmux import Tmux, needs_tmux

READER = "import os, sys; print('tty', *(os.isatty(n) for n in range(3))); print('read', input('prompt> '), os.environ['RANK'])"


def start(machine, *arguments: str) -> Screen:
    return Screen(machine, [machine.binary, *arguments])


def test_one_worker_has_the_terminal(machine):
    screen = start(machine, "--no-python", sys.executable, "-c", READER)
    screen.wait_for("prompt> ")
    assert "tty True True True" in screen.text
    screen.type("hello\n")
    assert screen.wait() == 0
    assert "read hello 0" in screen.text


def test_of_several_workers_the_first_reads(machine):
    script = f"[ $RANK = 0 ] || exec cat; exec {sys.executable} -c \"{READER}\""
    screen = start(machine, "--nproc-per-node", "2", "--no-python", "sh", "-c", script)
    screen.wait_for("prompt> ")
    screen.type("hello\n")
    assert screen.wait() == 0
    assert "read hello 0" in screen.text


def test_interrupting_one_worker(machine):
    screen = start(machine, "--no-python", "sh", "-c", "echo ready; exec sleep 600")
    screen.wait_for("ready")
    screen.type("\x03")
    assert screen.wait() == 130
    assert screen.text.count("ddprun: ") == 1 and "SIGINT" in screen.text, screen.text


def test_interrupting_several_workers(machine):
    screen = start(machine, "--nproc-per-node", "3", "--no-python", "sh", "-c", "echo ready; exec sleep 600")
    screen.wait_for("ready", times=3)
    screen.type("\x03")
    assert screen.wait() == 130
    assert screen.text.count("SIGINT") == 1 and "ddprun: stopped by SIGINT on " in screen.text, screen.text
    assert "ddprun: waiting up to 30 s for the workers to stop; ^C again kills them" in screen.text, screen.text
    assert "rank" not in screen.text, screen.text


def test_a_breakpoint_in_several_workers_has_a_hint(machine):
    (machine.directory / "debug.py").write_text("number = 41\nbreakpoint()\nprint('after', number)\n")
    screen = start(machine, "--nproc-per-node", "2", "debug.py")
    assert screen.wait() == 1
    assert "hint: of several workers only rank 0 reads what is typed, and breakpoint() ends in the others at once: " in screen.text, screen.text
    assert "torch.distributed.breakpoint()" in screen.text, screen.text


def test_suspending_and_continuing_under_a_shell(machine):
    for workers in ("1", "2"):
        screen = Screen(machine, ["bash", "--norc", "-i"])
        screen.type(f"PS1='nex''t> '; {machine.binary} --nproc-per-node {workers} --no-python "
                    "sh -c 'echo run''ning; read line; echo go''t $line'\n")
        screen.wait_for("running", times=int(workers))
        screen.type("\x1a")
        screen.wait_for("Stopped")
        screen.type("fg\n")
        screen.wait_for("--no-python", times=3)  # the shell repeats the command at the stop and at fg
        screen.type("more\n")
        screen.wait_for("got more")
        screen.wait_for("next> ", times=2)  # ddprun reads what is typed for as long as it runs
        screen.type("exit $?\n")
        assert screen.wait() == 0, screen.text


def test_progress_bars_stay_alive(machine):
    script = "printf 'step 1\\r'; while [ ! -e seen ]; do sleep 0.05; done; printf 'step 2\\r\\ndone\\n'"
    for workers in ("1", "2"):
        (machine.directory / "seen").unlink(missing_ok=True)
        screen = start(machine, "--nproc-per-node", workers, "--no-python", "sh", "-c", script)
        screen.wait_for("step 1\r")
        (machine.directory / "seen").touch()
        assert screen.wait() == 0
        assert screen.text.count("done") == int(workers)


def test_what_is_waited_for_is_one_line_that_goes_away(machine):
    # both ignore ^C; rank 1 writes once more while the line is there
    script = ("trap '' INT TERM; echo ready; [ $RANK = 0 ] || { until [ -e seen ]; do sleep 0.05; done; echo later; };"
              "until [ -e end ]; do sleep 0.05; done")
    screen = start(machine, "--nproc-per-node", "2", "--shutdown-timeout", "60s", "--no-python", "sh", "-c", script)
    screen.wait_for("ready", times=2)
    screen.type("\x03")
    line = "ddprun: waiting for the workers to stop, for "
    screen.wait_for(line)
    (machine.directory / "seen").touch()
    screen.wait_for("later")
    before = screen.text.split("later")[0]
    assert before.endswith("\r\x1b[K"), repr(screen.text)
    screen.wait_for(line, times=screen.text.count(line) + 1)
    (machine.directory / "end").touch()
    assert screen.wait() == 130
    assert screen.text.endswith("\r\x1b[Kddprun: stopped by SIGINT on " + screen.text.rsplit(" on ", 1)[1]), repr(screen.text)


def test_the_restart_message_stands_on_a_line_of_its_own(machine):
    script = "printf half; exit $((1 - TORCHELASTIC_RESTART_COUNT))"
    screen = start(machine, "--nproc-per-node", "2", "--max-restarts", "1", "--no-python", "sh", "-c", script)
    assert screen.wait() == 0
    assert "\nddprun: rank " in screen.text, screen.text


def test_input_from_a_pipe_goes_to_the_first_worker(machine):
    result = machine.shell("echo line | $ddprun --nproc-per-node 2 --no-python sh -c 'echo $RANK: $(cat)'")
    assert sorted(result.stdout.splitlines()) == ["0: line", "1:"], str(result)


@needs_tmux
def test_workers_draw_for_the_width_of_the_terminal(machine):
    look = "import os, shutil; print('drawn for', shutil.get_terminal_size().columns)"
    line = f'{machine.binary} -q --nproc-per-node 2 --no-python {sys.executable} -c "{look}"'
    with Tmux(machine, line, 150) as terminal:
        machine.wait_for_files("ended")
        assert terminal.screen().count("drawn for 150") == 2, terminal.screen()
    piped = machine.run("-q", "--nproc-per-node", "2", "--no-python", sys.executable, "-c", look)
    assert piped.stdout == "drawn for 80\n" * 2, str(piped)


# As tqdm writes: a frame has its '\r' before it, is as long as the one before, and the last one ends with a line end.
BAR = """
import os, sys, time
rank, wide = int(os.environ["RANK"]), int(sys.argv[1])
def show(text, end=""):
    sys.stderr.write("\\r" + text.ljust(60 + 5 * wide) + end)
    sys.stderr.flush()
for step in range(1, 9):
    show(f"rank {rank}{' and more' * rank}: {step * 12}%|{'#' * step}|" + "wide " * wide)
    if step == 4:
        show("")
        show(f"note of {rank}", "\\n")  # tqdm.write()
    time.sleep(0.15 + rank * 0.02)
show(f"rank {rank}: 100%|########|", "\\n")
"""


@needs_tmux
@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("wide", [0, 20], ids=["narrow", "wider-than-80"])
def test_no_frame_of_a_progress_bar_stays_on_the_screen(machine, columns, wide):
    (machine.directory / "bar.py").write_text(BAR)
    line = f"{machine.binary} -q --nproc-per-node 4 --no-python {sys.executable} bar.py {wide}"
    with Tmux(machine, line, columns) as terminal:
        machine.wait_for_files("ended")
        rows = [row.rstrip() for row in terminal.screen().splitlines() if row.strip()]
    assert sorted(rows) == sorted([*(f"note of {rank}" for rank in range(4)),
                                   *(f"rank {rank}: 100%|########|" for rank in range(4))]), "\n".join(rows)
