"""scripts/bench/launch and others themselves: what they print and what they leave behind. Never how fast anything is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import hosts

LAUNCH = Path(__file__).resolve().parents[3] / "scripts" / "bench" / "launch"

# Starts workers as ddprun would be asked to, and restarts them once where --max-restarts is given.
STAND_IN = """#!/bin/sh
[ "$1" = --version ] && echo 'ddprun 1.2.3' && exit
while [ $# -gt 0 ]; do
  case $1 in
    --nproc-per-node) workers=$2; shift 2 ;;
    --max-restarts) restarts=$2; shift 2 ;;
    --no-python) shift; break ;;
    *) echo "no such option: $1" >&2; exit 64 ;;
  esac
done
for attempt in $(seq 0 "${restarts:-0}"); do
  children=
  for rank in $(seq 0 $((workers - 1))); do
    RANK=$rank WORLD_SIZE=$workers "$@" &
    children="$children $!"
  done
  wait $!
  [ "$attempt" = "${restarts:-0}" ] || kill $children 2> /dev/null
  wait
done
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    path = tmp_path / "ddprun"
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return path


def environment(tmp_path: Path, **changes: str) -> dict[str, str]:
    folder = tmp_path / "tmp"
    folder.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    return {**kept, "TMPDIR": str(folder), **changes}


def launch(tmp_path: Path, *arguments: str | Path, **changes: str) -> str:
    done = subprocess.run([LAUNCH, "--quick", "--without", "torchrun", *arguments], capture_output=True, text=True,
                          timeout=120, env=environment(tmp_path, **changes))
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    return done.stdout


def row(output: str, label: str) -> list[str]:
    line = next(line for line in output.splitlines() if line.startswith(label + " "))
    return line.removeprefix(label).split()


def test_prints_machine_tables_ratios_and_aims(tmp_path: Path, stand_in: Path) -> None:
    output = launch(tmp_path, "--ddprun", stand_in, "--only", "memory", "--only", "idle", "--without", "srun",
                    "--without", "mpirun.openmpi")
    assert re.match(r"\d{4}-\d\d-\d\d .* cores, .* GiB, Linux .*, load ", output)
    assert re.search(r"^ddprun 1\.2\.3\b", output, re.MULTILINE)
    assert float(row(output, "peak, all")[0]) > 0
    assert float(row(output, "wake-ups")[0]) >= 0
    assert "ddprun: ddprun " in output  # which processes were counted
    for aim in ("64 workers", "8 workers", "launcher under 12 MiB", "fewer than 2 wake-ups", "restart within 20 ms",
                "restart within 100 ms"):
        assert re.search(rf"^  (met|not met|not measured) +{aim}", output, re.MULTILINE)
    assert re.search(r"^  (met|not met) +launcher under 12 MiB .*: [\d.]+ MiB$", output, re.MULTILINE)
    assert re.search(r"^  not measured +restart within 20 ms", output, re.MULTILINE)


def test_spawn_prints_times_ratios_and_aims(tmp_path: Path, stand_in: Path) -> None:
    done = subprocess.run([LAUNCH.with_name("spawn"), "--quick", "--workers", "1", "--ddprun", stand_in], capture_output=True,
                          text=True, timeout=120, env=environment(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = {line.split()[1]: line.split()[2:] for line in done.stdout.splitlines() if line.startswith("      1 ")}
    wall, cpu = rows["ddprun"]
    assert float(wall) > 0 and float(cpu) > 0
    # A shell that starts a program does more than a loop that does.
    assert len(rows["posix_spawn"]) == 4 and float(rows["posix_spawn"][3]) > 1
    assert re.search(r"^  (met|not met|not measured) +1 x true, CPU: .*", done.stdout, re.MULTILINE)
    assert re.search(r"^  not measured +256 x true, wall: at most 1.6 of posix_spawn$", done.stdout, re.MULTILINE)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_restart_is_measured_from_the_death_to_the_next_attempt(tmp_path: Path, stand_in: Path) -> None:
    output = launch(tmp_path, "--ddprun", stand_in, "--only", "restart", "--without", "srun")
    first, last = float(row(output, "1 host, first")[0]), float(row(output, "1 host, last")[0])
    assert 0 < first <= last
    assert re.search(r"^  (met|not met) +restart within 20 ms on one host, last worker: ", output, re.MULTILINE)


def test_launchers_that_are_not_there_are_said_to_be_missing(tmp_path: Path) -> None:
    output = launch(tmp_path, "--ddprun", tmp_path / "nothing", "--only", "idle", PATH=f"{bare_path(tmp_path)}")
    assert "nothing is not there; build it with: cmake --preset release" in output
    assert "mpiexec.hydra is not measured: not installed (Debian: mpich)" in output
    assert "srun is not measured: no Slurm cluster at hand" in output
    assert set(row(output, "wake-ups")) == {"missing", "-"}
    assert output.count("  not measured  ") == 6


def bare_path(tmp_path: Path) -> Path:
    """A PATH with nothing but what the tool itself needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to("/usr/bin/python3")
    (folder / "env").symlink_to("/usr/bin/env")
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path, stand_in: Path, number: int) -> None:
    tool = subprocess.Popen([LAUNCH, "--ddprun", stand_in, "--only", "idle", "--without", "torchrun"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path))
    wait_until(lambda: processes_under(tmp_path, tool.pid))
    tool.send_signal(number)
    _, said = tool.communicate(timeout=60)
    assert tool.returncode == 130
    assert said.endswith("bench: interrupted\n")
    wait_until(lambda: not processes_under(tmp_path, tool.pid))  # killed ones take a moment to be gone
    wait_until(lambda: not list((tmp_path / "tmp").iterdir()))


def test_an_interrupt_while_a_command_is_being_started_leaves_nothing_behind(
        tmp_path: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAUNCH.parent))
    tool = load("launch")
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)

    def start_and_interrupt(*arguments, **keywords) -> None:
        subprocess.Popen(*arguments, **keywords)
        wait_until(lambda: processes_under(tmp_path, os.getpid()))  # a process that calls exec shows no environment
        raise KeyboardInterrupt

    monkeypatch.setattr("processes.subprocess", SimpleNamespace(Popen=start_and_interrupt, DEVNULL=subprocess.DEVNULL))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", [str(LAUNCH), "--ddprun", str(stand_in), "--only", "idle", "--without", "torchrun"])
    assert tool.main() == 130
    wait_until(lambda: not processes_under(tmp_path, os.getpid()))


# An interrupt of Popen.poll where it has taken its lock and has not yet entered the block that gives it back.
INTERRUPTED_POLL = """
import os, pathlib, subprocess, sys, types
import processes

class Interrupted(subprocess.Popen):
    def _internal_poll(self, *_, **__):
        self._waitpid_lock.acquire(False)
        raise KeyboardInterrupt

def interrupt():
    raise KeyboardInterrupt

processes.subprocess = types.SimpleNamespace(Popen=Interrupted, DEVNULL=subprocess.DEVNULL)
try:
    with processes.Running(["sleep", "600"], dict(os.environ), pathlib.Path(sys.argv[1])) as run:
        run.wait_until(interrupt, "the interrupt")
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_an_interrupt_while_the_end_of_a_command_is_looked_for_does_not_hang(tmp_path: Path) -> None:
    done = subprocess.run(["python3", "-c", INTERRUPTED_POLL, tmp_path], timeout=60, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(LAUNCH.parent)})
    assert done.returncode == 130, done.stderr
    assert list(tmp_path.iterdir()) == []


def load(name: str):
    """A tool of scripts/bench as a module."""
    loader = SourceFileLoader(name, str(LAUNCH.with_name(name)))
    tool = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(tool)
    return tool


def test_a_killed_run_is_cleaned_up_by_the_next(tmp_path: Path, stand_in: Path) -> None:
    tool = subprocess.Popen([LAUNCH, "--ddprun", stand_in, "--only", "idle", "--without", "torchrun"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(tmp_path))
    wait_until(lambda: processes_under(tmp_path, tool.pid))
    tool.kill()
    tool.wait(timeout=60)
    assert processes_under(tmp_path, tool.pid)
    launch(tmp_path, "--ddprun", tmp_path / "nothing", "--only", "idle", PATH=f"{bare_path(tmp_path)}")
    wait_until(lambda: not processes_under(tmp_path, tool.pid))


def processes_under(tmp_path: Path, tool: int) -> list[int]:
    """Living processes that the tool started: their temporary files go to a folder under `tmp_path`."""
    marker = f"\0TMPDIR={tmp_path}/tmp/".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = b"\0" + Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if marker in environ and int(name) != tool:
            found.append(int(name))
    return found


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.02)


def test_what_training_prints_of_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAUNCH.parent))
    tool = load("training")
    lines = {"torchrun": (4.0, 10.0), "torchrun, OMP_NUM_THREADS=4": (4.0, 15.0), "ddprun --bind none": (1.0, 16.0),
             "ddprun": (1.0, 20.0)}
    figures = {workers: {name: [{"startup": startup, "first step": 2.0, "steps/s": steps / int(workers), "threads": 4,
                                 "cpus": 8}] for name, (startup, steps) in lines.items()} for workers in ("1", "2")}
    tool.show(figures, SimpleNamespace(device="cpu", rounds=1, seconds=5))
    output = capsys.readouterr().out
    assert re.search(r"^      2  ddprun +4 +8 +1\.00 +2\.00 +10\.0 +\(10\.0 - 10\.0\) +2\.00 +1\.00$", output, re.MULTILINE)
    assert output.endswith("2 workers: steps/s by threads (torchrun -> torchrun, OMP_NUM_THREADS=4) 1.50; binding "
                           "(ddprun --bind none -> ddprun) 1.25; start-up: ddprun is 3.00 s earlier than torchrun\n")


ONLY_DDPRUN = ["--without", "ddprun --standby", "--without", "torchrun", "--without", "torchrun own store"]


@pytest.mark.skipif(hosts.why_impossible() is not None, reason=str(hosts.why_impossible()))
def test_recovery_measures_a_loss_and_the_training_ends_as_without_one(tmp_path: Path, binary: Path,
                                                                       torch_python: Path) -> None:
    done = subprocess.run([LAUNCH.with_name("recovery"), "--ddprun", binary, "--python", torch_python, "--turns", "1",
                           "--losses", "agent", *ONLY_DDPRUN], capture_output=True, text=True, timeout=400,
                          env=environment(tmp_path))
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    times, step, same = [row(table, "agent killed") for table in done.stdout.split("\n\n")[1:4]]
    assert 0 < float(times[0]) < float(step[0]), done.stdout
    assert same[:6] == ["1", "of", "1"] * 2, done.stdout  # without and with --check=auto
    assert re.search(r"^  (met|not met) +agent killed: first line within ", done.stdout, re.MULTILINE), done.stdout


def test_recovery_says_what_a_job_does_that_does_not_train_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAUNCH.parent))
    tool = load("recovery")
    ends, hangs = "job ends after {:.1f} s", "still hanging after {:.0f} s"
    good = tool.Outcome(tool.Recovery(120.0, 3000.0), 0.5)
    turns = {"ddprun": [good, good, tool.Outcome(tool.NoRecovery(hangs, 60), None)],
             "torchrun": [tool.Outcome(tool.NoRecovery(ends, seconds, "why"), loss) for seconds, loss in ((1, None), (3, 0.75))]}
    tables = tool.make_tables({"agent": turns}, 0.5)
    shown = {key: tool.render_table(table, list(turns), set()).splitlines() for key, table in tables.items()}
    assert shown["first line"][2].split() == ["agent", "killed", "120.0", "job", "ends", "after", "2.0", "s", "-"]
    assert [line.strip() for line in shown["first step"][4:]] == [
        "ddprun, agent killed: one of 3 turns: still hanging after 60 s", "torchrun, agent killed: why"]
    assert shown["same"][2].split() == ["agent", "killed", "2", "of", "3", "0", "of", "2", "-"]
    assert shown["same"][3:] == ["  torchrun, agent killed: a loss of 0.75, not 0.5"]


def test_recovery_says_that_there_is_no_ddprun_or_no_right_to_make_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(LAUNCH.parent))
    tool = load("recovery")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["recovery", "--ddprun", str(tmp_path / "nothing"), "--python", "python3", *ONLY_DDPRUN])
    monkeypatch.setattr(tool, "why_impossible", lambda: None)
    assert tool.main() == 1
    said = capsys.readouterr()
    assert "nothing is not there; build it with: cmake --preset release" in said.out
    assert said.err == "bench: there is no launcher to measure\n"
    monkeypatch.setattr(tool, "why_impossible", lambda: "only root may make network namespaces")
    assert tool.main() == 77
    assert capsys.readouterr().err == "bench: only root may make network namespaces\n"
