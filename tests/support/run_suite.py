#!/usr/bin/env python3
"""Runs a suite of tests, and shows what it is doing before it kills it because it takes too long.

    run_suite.py SECONDS COMMAND...

Each pytest below it tells the test that it runs and where it stands (tests/e2e/conftest.py), a program of Catch2 its
test case, and all processes are listed. ctest's own limit would end the suite without a word.

Where $DDPRUN_TEST_SECOND_TRY is set, as for `scripts/test --all`, and one or two tests of a pytest have failed, they run
once more, one at a time. Those that pass then are named at the end of everything (scripts/list-skipped): a test that
needs a second try on a busy machine has to be mended, but does not make all others run again.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

TELLING = 10  # seconds for an answer
LONGEST_LINE = 200
MOST_TRIED_AGAIN = 2  # more failures of one suite have a reason in common
LATE = -1000  # no exit code
REPORT = "--junit-xml="
OF_PYTEST = re.compile(r'/(dist|site)-packages/|<frozen|"<string>"')


def processes_below(pid: int) -> list[tuple[int, int, str]]:
    """The process and its descendants, parents first: ID, depth and a line that describes it."""
    table = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,stat=,etimes=,time=,args="], capture_output=True, text=True, check=True)
    children: dict[int, list[int]] = {}
    lines: dict[int, str] = {}
    for line in table.stdout.splitlines():
        number, parent, rest = line.split(maxsplit=2)
        children.setdefault(int(parent), []).append(int(number))
        lines[int(number)] = rest
    found: list[tuple[int, int, str]] = []

    def add(number: int, depth: int) -> None:
        if number in lines:
            found.append((number, depth, lines[number]))
        for child in children.get(number, []):
            add(child, depth + 1)

    add(pid, 0)
    return found


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def ask(child: subprocess.Popen, folder: Path) -> None:
    """Prints what the tests themselves say."""
    files = sorted(folder.iterdir())
    for file in files:
        send(int(file.name), signal.SIGUSR1)
    if not files:
        send(child.pid, signal.SIGTERM)  # Catch2 names its test case
    deadline = time.monotonic() + TELLING
    while time.monotonic() < deadline and (child.poll() is None if not files else
                                           any("runs: " not in file.read_text() for file in files)):
        time.sleep(0.1)
    for file in files:
        lines = [line for line in file.read_text().splitlines() if not OF_PYTEST.search(line)]
        print("\n".join([f"--- process {file.name}", *lines]), flush=True)


def stop(child: subprocess.Popen, folder: Path, seconds: float) -> None:
    running = processes_below(child.pid)
    print(f"\nrun_suite.py: still running after {seconds:g} s: {' '.join(map(str, child.args))}\nwhat it was doing:", flush=True)
    ask(child, folder)
    print("--- state, seconds, CPU time and command line of its processes")
    for pid, depth, line in running:
        print(f"{pid:8} {'  ' * depth}{line[:LONGEST_LINE]}", flush=True)
    for pid, _, _ in [*running, *processes_below(child.pid)]:
        send(pid, signal.SIGKILL)
    child.wait()


def failed_tests(report: Path) -> list[str]:
    """As pytest names them; nothing where it has not come to its end, or could not import a file."""
    if not report.exists():
        return []
    cases = [case for case in ElementTree.parse(report).iter("testcase") if case.find("failure") is not None or case.find("error") is not None]
    if not all(case.get("classname") for case in cases):
        return []
    return [f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}" for case in cases]


def try_again(command: list[str], seconds: float) -> int:
    """Returns the exit code of the failed tests alone; that of a failure where there is nothing to try."""
    report = next((Path(word.removeprefix(REPORT)) for word in command if word.startswith(REPORT)), None)
    if report is None or "pytest" not in command or not os.environ.get("DDPRUN_TEST_SECOND_TRY"):
        return 1
    failed = failed_tests(report)
    if not 0 < len(failed) <= MOST_TRIED_AGAIN:
        return 1
    print(f"\nrun_suite.py: a second try of {' and '.join(failed)}", flush=True)
    words = [*command[:command.index("pytest") + 1], "-q", "-ra", "-p", "no:cacheprovider", *failed]
    code = run(words, seconds)
    if code == 0:
        report.with_suffix(".second-try").write_text("".join(f"{test}\n" for test in failed))
    return code


def run(command: list[str], seconds: float) -> int:
    with tempfile.TemporaryDirectory(prefix="ddprun-suite-") as folder:
        os.chmod(folder, 0o1777)  # also for tests that another user runs
        child = subprocess.Popen(command, env=os.environ | {"DDPRUN_TEST_DOING": folder})
        try:
            return child.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            stop(child, Path(folder), seconds)
            return LATE


def main() -> int:
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    begun = time.monotonic()
    code = run(command, seconds)
    if code == 1:
        code = try_again(command, seconds - (time.monotonic() - begun))
    if code == LATE:
        return 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\nrun_suite.py: {time.monotonic() - begun:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU time", flush=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
