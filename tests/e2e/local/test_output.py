"""What workers write comes out: all of it, in order, in whole lines, and nothing waits for ever."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Callable

import pytest

from support import manual, programs, random_writer
from support.hosts import is_full, wait_until
from support.machine import Machine, python_program

# Of the random test in all; DDPRUN_TEST_SEED repeats one run of each sink.
SECONDS = float(os.environ.get("DDPRUN_TEST_OUTPUT_SECONDS", "60"))

FLOOD = "import os, signal, sys\n" \
        "def stop(*_):\n open('stopped', 'w'); os._exit(0)\n" \
        "signal.signal(signal.SIGTERM, stop)\n" \
        "open('flooding', 'w')\n" \
        "while True: os.write(1, b'x' * 1000 + b'\\n')\n"


def read_all(descriptor: int, portion: int, pause: float) -> bytes:
    found = bytearray()
    while True:
        try:
            data = os.read(descriptor, portion)
        except OSError:  # a terminal whose last writer has closed it
            data = b""
        if not data:
            os.close(descriptor)
            return bytes(found)
        found += data
        time.sleep(pause)


class Sink:
    """Standard output of a run, and what came through it."""

    def __init__(self, machine: Machine, kind: str) -> None:
        self.path = machine.directory / "output"
        self._read: Callable[[], bytes] = self.path.read_bytes
        if kind == "file":
            self.writer = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            return
        if kind == "terminal":
            reader, self.writer = os.openpty()
            tty.setraw(self.writer)
        else:
            reader, self.writer = os.pipe()
        portion, pause = (5000, 0.001) if kind == "slow pipe" else (65536, 0)
        found: list[bytes] = []
        thread = threading.Thread(target=lambda: found.append(read_all(reader, portion, pause)), daemon=True)
        thread.start()

        def join() -> bytes:
            thread.join(30)
            return found[0]
        self._read = join

    def read(self) -> bytes:
        """To its end; the writer of this process is closed."""
        return self._read()


def write_randomly(machine: Machine, kind: str, seed: int) -> None:
    ranks = random.Random(seed).randint(1, 4)
    sink = Sink(machine, kind)
    program = subprocess.Popen(
        [machine.binary, "--nproc-per-node", str(ranks), "--no-python", sys.executable, "-S", random_writer.__file__,
         str(seed)], stdin=subprocess.DEVNULL, stdout=sink.writer, stderr=subprocess.PIPE, cwd=machine.directory,
        env=machine.environment | {"TERM": "dumb"})  # to others it also says what erases and cuts a progress bar
    os.close(sink.writer)
    try:
        _, error = program.communicate(timeout=120)
    finally:
        program.kill()
    assert program.returncode == 0, error.decode()
    random_writer.check(sink.read(), seed, ranks)


@pytest.mark.parametrize("kind", ["file", "pipe", "slow pipe", "terminal"])
def test_whatever_is_written_comes_out_whole(machine, kind):
    fixed = os.environ.get("DDPRUN_TEST_SEED")
    until = time.monotonic() + SECONDS / 4
    while True:
        seed = int(fixed or random.getrandbits(32))
        print(f"DDPRUN_TEST_SEED={seed}")  # shown when it fails
        write_randomly(machine, kind, seed)
        if fixed or time.monotonic() > until:
            return


def test_a_long_line_in_two_parts_does_not_stop_the_other_worker(machine):
    script = ("import os, time\n"
              "if os.environ['RANK'] == '0':\n"
              " print('a' * 100000, end='', flush=True); time.sleep(0.3); print()\n"
              "else:\n"
              " for i in range(60000): print('line', i)\n")
    with open(machine.directory / "output", "wb") as output:
        result = machine.run("--nproc-per-node", "2", *python_program(script), stdout=output)
    assert result.code == 0, str(result)
    lines = (machine.directory / "output").read_text().split("\n")
    assert "a" * 100000 in lines
    assert [line for line in lines if line.startswith("line")] == [f"line {i}" for i in range(60000)]


def test_lines_of_a_megabyte_of_two_workers(machine):
    for _ in range(10):
        result = machine.run("--nproc-per-node", "2", *python_program(
            "import os; print('ab'[int(os.environ['RANK'])] * 1000000)"))
        pieces = [(line[:1], len(line)) for line in result.stdout.split("\n")]
        assert result.code == 0 and [result.stdout.count(letter) for letter in "ab"] == [1000000, 1000000], (pieces, result.stderr)


def test_what_a_worker_leaves_in_a_large_pipe_comes(machine):
    script = ("import fcntl, os, time\n"
              "if os.environ['RANK'] == '0':\n"
              " while not os.path.exists('ready'): time.sleep(0.02)\n"  # an incomplete line waits for a second only
              " print('a' * 100000, end='', flush=True)\n"
              " while not os.path.exists('written'): time.sleep(0.02)\n"
              " print()\n"
              "else:\n"
              " fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\n"
              " text = ''.join(f'{i}\\n' for i in range(110000)).encode()\n"
              " open('ready', 'w')\n"
              " while text: text = text[os.write(1, text):]\n"
              " open('written', 'w')\n")
    with open(machine.directory / "output", "wb") as output:
        result = machine.run("--nproc-per-node", "2", *python_program(script), stdout=output)
    assert result.code == 0, str(result)
    lines = (machine.directory / "output").read_text().split("\n")
    assert "a" * 100000 in lines
    assert [line for line in lines if line.isdecimal()] == [str(i) for i in range(110000)]


def test_a_failure_is_reported_and_the_others_stop_although_nobody_reads(machine):
    script = ("import os, sys, time\n"
              f"if os.environ['RANK'] == '0': exec({FLOOD!r})\n"
              "while not os.path.exists('fail'): time.sleep(0.02)\n"
              "print('last words', flush=True)\n"
              "sys.exit('boom')\n")
    program = machine.start("--nproc-per-node", "2", *python_program(script))
    machine.wait_for_files("flooding")
    wait_until("the flooding worker has to wait for us", lambda: is_full(program))
    (machine.directory / "fail").touch()
    machine.wait_for_files("stopped")
    result = program.wait()
    assert result.code == 1, result.stderr
    assert re.search(r"^ddprun: rank 1 on \S+ exited with code 1\n(.*\n)*  \| boom$", result.stderr, re.MULTILINE), result.stderr
    assert set(result.stdout.splitlines()) == {"x" * 1000, "last words"}


def test_nobody_reads_on_one_of_two_hosts_and_the_restart_comes_all_the_same(hosts, directory):
    script = (f"import os, sys, time; os.chdir({str(directory)!r})\n"
              "rank, attempt = os.environ['RANK'], os.environ['TORCHELASTIC_RESTART_COUNT']\n"
              "if attempt == '1': open(f'again.{rank}', 'w'); sys.exit()\n"
              f"if rank == '2': exec({FLOOD!r})\n"
              "while not os.path.exists('fail'): time.sleep(0.02)\n"
              "if rank == '3': print('last words', flush=True); sys.exit('boom')\n"
              "time.sleep(600)\n")
    python = str(programs.python_directory() / "python3")
    processes = manual.start_all(hosts, "--nproc-per-node", "2", "--max-restarts", "1", "--no-python", python, "-c",
                                  script)
    wait_until("rank 2 floods", (directory / "flooding").exists)
    wait_until("rank 2 has to wait for us", lambda: is_full(processes[1]))
    (directory / "fail").touch()
    manual.wait_for_files(directory, "again.*", 4)
    results = manual.wait_all(processes)
    assert manual.codes(results) == [0, 0], manual.as_text(results)[:10000]
    assert "rank 3 on b exited with code 1; starting all workers again (restart 1 of 1)" in results[0].stderr
    assert "did not stop" not in results[0].stderr, results[0].stderr


@pytest.fixture
def two_after_a_failure(hosts, directory, key):
    """The coordinator, whose output nobody reads, and another ddprun, which does not end before it."""
    line = (f"cd {directory}; if [ $RANK = 0 ]; then seq 60000; touch written; exec sleep 600; fi;"
            "until [ -e written ]; do sleep 0.1; done; exit 7")  # more than a pipe holds
    first, second = manual.start_all(hosts, "--key-file", key, "--no-python", "sh", "-c", line)
    with pytest.raises(subprocess.TimeoutExpired):
        second.popen.wait(1)
    return first, second


# PRRTE, Open MPI and srun -K end all when one fails: the coordinator too, before its report is out.
def test_after_a_failure_the_others_end_behind_the_coordinator(two_after_a_failure):
    first, second = two_after_a_failure
    result = first.wait()
    assert result.stdout == "".join(f"{number}\n" for number in range(1, 60001)), str(result)
    assert "rank 1 on b exited with code 7" in result.stderr, str(result)
    assert [result.code, second.wait().code] == [7, 7]


def test_who_asks_for_the_end_does_not_wait_for_the_coordinator(two_after_a_failure):
    first, second = two_after_a_failure
    second.send_signal(signal.SIGINT)
    assert second.wait(20).code == 7  # else it would wait for longer
    assert first.wait().code == 7


def test_what_a_failed_worker_left_behind_is_heard_until_the_attempt_ends(machine):
    left = "trap 'echo late words; exit' TERM; touch left; while :; do sleep 0.1; done"
    script = (f'if [ $RANK = 1 ]; then setsid sh -c "{left}" & while [ ! -e left ]; do sleep 0.02; done; exit 5; fi\n'
              "trap 'sleep 0.7; exit' TERM; while :; do sleep 0.1; done")
    result = machine.run("--nproc-per-node", "2", "--no-python", "sh", "-c", script)
    assert result.code == 5, str(result)
    assert result.stdout == "late words\n", str(result)


def test_output_that_is_given_up_is_told_and_is_no_success(machine):
    script = "import os; os.write(1, b'x' * 300000); open('written', 'w')"
    program = machine.start("--events", "events", *python_program(script))
    machine.wait_for_files("written")
    events = machine.directory / "events"
    wait_until("the job is over but for its output", lambda: '"event":"end"' in events.read_text())
    program.send_signal(signal.SIGTERM)
    program.send_signal(signal.SIGTERM)
    code = program.popen.wait(timeout=60)
    result = program.wait()
    assert code == 125, str(result)
    lost = re.search(r"^ddprun: standard output on \S+ is incomplete: its last (\d+) bytes were not read$", result.stderr,
                     re.MULTILINE)
    assert lost and len(result.stdout) + int(lost[1]) == 300000, result.stderr


def test_the_failure_of_a_worker_counts_more_than_output_that_is_lost(machine):
    result = machine.shell("$ddprun --no-python sh -c 'echo lost; exit 3' > /dev/full")
    assert result.code == 3, str(result)
    assert "standard output on " in result.stderr and " is incomplete: no space left on device\n" in result.stderr


def test_what_the_ddprun_that_starts_the_others_cannot_write_is_told(reachable):
    result = reachable["a"].run(["sh", "-c", "ddprun --hosts a,b --no-python echo lost > /dev/full"])
    assert result.code == 125, str(result)
    assert "ddprun: standard output on a is incomplete: no space left on device\n" in result.stderr, str(result)
