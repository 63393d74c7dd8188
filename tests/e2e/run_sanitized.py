"""Runs a command of end-to-end tests with a ddprun that is built with sanitizers, and fails where these have found anything.

    run_sanitized.py FOLDER COMMAND...   FOLDER is for what the sanitizers report

A finding ends a process with exit code 99, which no test expects; but a process whose exit code is not looked at, or
that was about to be killed, may have one as well. So each is written to FOLDER, and one file there is a failure.

Leaks are looked for where that works. The check is made by a process that traces the one that is ending: not in one
that is traced already (strace, a debugger), nor where tracing is forbidden, as in some containers. A process that a
signal kills is not looked at either way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOUND = 99


def options(folder: Path, leaks: bool) -> dict[str, str]:
    common = f"log_path={folder}/report:exitcode={FOUND}"
    return {"ASAN_OPTIONS": f"{common}:detect_leaks={int(leaks)}:detect_stack_use_after_return=1",
            "UBSAN_OPTIONS": f"{common}:print_stacktrace=1",
            "LSAN_OPTIONS": f"{common}:print_suppressions=0"}


def empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o1777)  # also for ddprun as another user


def why_no_leak_check(binary: str, folder: Path) -> str:
    """Nothing where it works."""
    empty(folder)
    done = subprocess.run([binary, "--version"], env=os.environ | options(folder, leaks=True), capture_output=True, text=True)
    said = done.stderr + "".join(path.read_text(errors="replace") for path in folder.iterdir())
    empty(folder)
    return "" if done.returncode == 0 and not said else said.strip() or f"exit code {done.returncode}"


def main() -> int:
    folder = Path(sys.argv[1])
    problem = why_no_leak_check(os.environ["DDPRUN_TEST_BINARY"], folder)
    if problem:
        print(f"without the check for leaks, which does not work here: {problem}", flush=True)
    code = subprocess.run(sys.argv[2:], env=os.environ | options(folder, leaks=not problem)).returncode
    reports = sorted(folder.iterdir())
    for report in reports:
        print(f"\n{report}:\n{report.read_text(errors='replace')}")
    if reports:
        print(f"the sanitizers have found something in {len(reports)} processes (above)")
    return 1 if reports else code


if __name__ == "__main__":
    sys.exit(main())
