"""What ddprun inherits from the shell that starts it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path


def test_what_a_script_started_before_exec_lives_on(binary, tmp_path):
    script = f"sleep 300 >/dev/null 2>&1 & echo $! > daemon; exec {binary} --no-python sh -c 'sleep 299 & echo $! > left'"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          timeout=60)
    daemon, left = (int((tmp_path / name).read_text()) for name in ("daemon", "left"))
    try:
        assert done.returncode == 0, done.stderr
        assert Path(f"/proc/{daemon}").exists() and not Path(f"/proc/{left}").exists()
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_a_dry_run_to_a_closed_standard_output_is_an_error(binary, tmp_path):
    done = subprocess.run(["sh", "-c", f"exec {binary} --dry-run --no-python true >&-"], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 125
    assert done.stderr == "ddprun: cannot write to standard output: it is closed\n"


def test_store_on_worker_s_port_is_spoken_of_once(binary, tmp_path):
    done = subprocess.run([binary, "--store", "worker", "--nproc-per-node", "2", "--no-python", "true"], cwd=tmp_path,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0
    assert done.stderr.count("another user of its host can take the port kept for --store worker") == 1, done.stderr
