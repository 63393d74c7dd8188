"""One system call fails at a time, as scripts/fault-sweep has it; CI tries some of them, chosen anew each time."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

SWEEP = str(Path(__file__).resolve().parents[3] / "scripts" / "fault-sweep")
SECONDS = 600


@pytest.fixture(scope="module", autouse=True)
def strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("faults need the program strace")
    if subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        pytest.skip("faults need ptrace, which is not allowed here")


def sweep(binary: Path, *arguments: str) -> None:
    done = subprocess.run([SWEEP, "--ddprun", str(binary), *arguments], capture_output=True, text=True, timeout=SECONDS)
    print(done.stdout, done.stderr)  # with the seed, and with the command that repeats each failure
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_refused_signal_mask_or_wait_makes_a_job_hang(binary):
    sweep(binary, "--only", "restart", "--call", "rt_sigprocmask", "--call", "waitid", "--most", "30")


def test_some_faults_chosen_at_random(binary):
    seed = os.environ.get("DDPRUN_TEST_SEED", str(random.randrange(1 << 30)))
    sweep(binary, "--sample", os.environ.get("DDPRUN_TEST_FAULTS", "60"), "--seed", seed)


def test_who_reads_only_the_first_line_of_the_sweep_gets_no_traceback(binary):
    line = f"exec {SWEEP} --ddprun {binary} --only alone --call epoll_create1 --sample 1 | true"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=SECONDS)
    assert done.stderr == "", done.stderr
