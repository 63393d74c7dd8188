"""What is measured, one function a section; each returns a Table. All times are monotonic and of this machine."""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hosts import Hosts, why_impossible
from launchers import PER_HOST, Launcher, Place
from processes import Failed, Running, name_of, peak_kib, proportional_kib, switches

HERE = Path(__file__).resolve().parent
HOST_COUNT = 4
SLOW_SECONDS = 0.5  # a launcher that takes longer for one run takes part in every SLOW_STRIDE-th round only
SLOW_STRIDE = 6
FAILURES_BORNE = 3  # a launcher that fails as often, or in its first run, is left out of the row


@dataclass
class Bench:
    launchers: list[Launcher]  # those that are there
    environment: dict[str, str]
    folder: Path
    quick: bool

    def run(self, launcher: Launcher, command: list[str]) -> Running:
        return Running(command, launcher.environment(self.environment), self.folder)

    def rounds(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass
class Row:
    label: str
    figures: dict[str, list[float]] = field(default_factory=dict)  # launcher -> one figure a run
    texts: dict[str, str] = field(default_factory=dict)  # launcher -> what is shown instead of its figures

    def median(self, launcher: str) -> float | None:
        values = self.figures.get(launcher)
        return statistics.median(values) if values else None


@dataclass
class Table:
    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def median(self, label: str, launcher: str) -> float | None:
        return next((row.median(launcher) for row in self.rows if row.label == label), None)


Measure = Callable[[Launcher], dict[str, float]]  # row label -> figure


def compare(table: Table, labels: list[str], launchers: list[Launcher], rounds: int, measure: Measure) -> None:
    """Adds one row a label. The launchers take turns, and a round starts with another one each time, so that what
    else happens on the machine falls on all alike. A first run of each warms the caches and is not counted."""
    rows = {label: Row(label) for label in labels}
    strides = {}
    failures: dict[str, list[str]] = {launcher.name: [] for launcher in launchers}
    for number in range(-1, rounds):
        first = number % len(launchers) if launchers else 0
        for launcher in launchers[first:] + launchers[:first]:
            left_out = len(failures[launcher.name]) >= FAILURES_BORNE or (number >= 0 and launcher.name not in strides)
            if left_out or number % strides.get(launcher.name, 1) != 0:
                continue
            begun = time.monotonic()
            try:
                figures = measure(launcher)
            except Failed as why:
                failures[launcher.name].append(str(why))
                continue
            if number < 0:
                strides[launcher.name] = SLOW_STRIDE if time.monotonic() - begun > SLOW_SECONDS else 1
                continue
            for label, figure in figures.items():
                rows[label].figures.setdefault(launcher.name, []).append(figure)
    table.rows += rows.values()
    table.notes += [f"{name}: {len(reasons)} failed runs at {labels[0]}, the last: {reasons[-1]}"
                    for name, reasons in failures.items() if reasons]


def start(bench: Bench) -> Table:
    """From the command to its end, with workers that do nothing."""
    table = Table("Start and end N workers of `true`, in ms")
    for workers in (1, 2, 8, 64):
        label = f"N = {workers}"

        def measure(launcher: Launcher) -> dict[str, float]:
            with bench.run(launcher, [*launcher.start(workers), "/bin/true"]) as run:
                return {label: run.wait() / 1e6}

        compare(table, [label], bench.launchers, bench.rounds(30, 2), measure)
    return table


def first_line(bench: Bench) -> Table:
    """From the command to the first line of the first and of the last of its Python workers."""
    table = Table("From the command to the first line of a Python worker, in ms")
    folder = bench.folder / "lines"
    folder.mkdir()
    for workers in (1, 2, 8):
        labels = [f"N = {workers}"] if workers == 1 else [f"N = {workers}, first", f"N = {workers}, last"]

        def measure(launcher: Launcher) -> dict[str, float]:
            program = [sys.executable, "-S", str(HERE / "first_line.py"), str(folder)]
            with bench.run(launcher, [*launcher.start(workers), *program]) as run:
                run.wait()
                files = list(folder.glob(f"{run.mark}.*"))
                times = sorted((int(file.read_text()) - run.started) / 1e6 for file in files)
            if len(times) != workers:
                raise Failed(f"{len(times)} of {workers} workers left a record")
            return dict(zip(labels, (times[0], times[-1])))

        compare(table, labels, bench.launchers, bench.rounds(30, 2), measure)
    return table


def _sleepers(seconds: float) -> list[str]:
    return ["/bin/sleep", str(seconds)]


def memory(bench: Bench) -> Table:
    """What the launcher's own processes take while 8 workers sleep."""
    table = Table("Memory of the launcher with 8 workers, in MiB (workers not counted)")
    program = _sleepers(120.5)
    made_of = {}

    def measure(launcher: Launcher) -> dict[str, float]:
        with bench.run(launcher, [*launcher.start(8), *program]) as run:
            run.wait_until(lambda: len(run.workers(program)) == 8, "8 workers ran")
            time.sleep(0.2)  # what follows the start counts too
            pids = run.launcher_processes(program)
            peaks = {pid: peak_kib(pid) / 1024 for pid in pids}
            made_of[launcher.name] = " + ".join(f"{name_of(pid)} {peak:.1f}" for pid, peak in peaks.items())
            shared = sum(proportional_kib(pid) for pid in pids) / 1024
            return {"peak, all": sum(peaks.values()), "peak, largest": max(peaks.values()), "now, Pss": shared}

    compare(table, ["peak, all", "peak, largest", "now, Pss"], bench.launchers, bench.rounds(3, 1), measure)
    table.notes += [f"{launcher.name}: {made_of[launcher.name]}" for launcher in bench.launchers
                    if launcher.name in made_of]
    table.notes.append("peak: VmHWM, where a page that two processes share counts twice; Pss counts it once")
    return table


def idle(bench: Bench) -> Table:
    """How often the launcher's threads run while 8 workers sleep. All launchers are watched over the same windows."""
    table = Table("The launcher while 8 workers sleep, a second")
    wakeups, all_switches = Row("wake-ups"), Row("switches")
    table.rows = [wakeups, all_switches]
    table.notes.append("a wake-up is a voluntary context switch: a thread that ran and went back to sleep; "
                       "switches count involuntary ones too")
    settle, window, windows = (1.0, 1.0, 2) if bench.quick else (3.0, 10.0, 3)
    program = _sleepers(240.5)
    with contextlib.ExitStack() as stack:
        runs = {}
        for launcher in bench.launchers:
            try:
                run = stack.enter_context(bench.run(launcher, [*launcher.start(8), *program]))
                run.wait_until(lambda: len(run.workers(program)) == 8, "8 workers ran")
                runs[launcher.name] = run
            except Failed as why:
                table.notes.append(f"{launcher.name}: {why}")
        if not runs:
            return table
        time.sleep(settle)
        for _ in range(windows):
            begun = time.monotonic()
            before = {name: switches(run.launcher_processes(program)) for name, run in runs.items()}
            time.sleep(window)
            after = {name: switches(run.launcher_processes(program)) for name, run in runs.items()}
            seconds = time.monotonic() - begun
            for name in runs:
                voluntary, involuntary = _increase(before[name], after[name])
                wakeups.figures.setdefault(name, []).append(voluntary / seconds)
                all_switches.figures.setdefault(name, []).append((voluntary + involuntary) / seconds)
    return table


def _increase(before: dict, after: dict) -> tuple[int, int]:
    increases = [(now[0] - before.get(thread, (0, 0))[0], now[1] - before.get(thread, (0, 0))[1])
                 for thread, now in after.items()]
    return sum(voluntary for voluntary, _ in increases), sum(involuntary for _, involuntary in increases)


def restart(bench: Bench) -> Table:
    """From a worker's death to the first instruction of the next attempt's first and last worker."""
    table = Table("From a worker's death to the next attempt's first instruction, in ms")
    able = [launcher for launcher in bench.launchers if launcher.restarting(1)]
    table.notes += [f"{launcher.name} does not restart" for launcher in bench.launchers if launcher not in able]
    try:
        worker = _build_restart_worker(bench.folder)
    except Failed as why:
        table.notes.append(f"not measured: {why}")
        return table
    _restart_on_one_host(bench, table, able, worker)
    try:
        _restart_on_hosts(bench, table, able, worker)
    except Failed as why:
        table.notes.append(f"{HOST_COUNT} hosts: not measured: {why}")
    return table


def _restart_on_one_host(bench: Bench, table: Table, launchers: list[Launcher], worker: Path) -> None:
    def measure(launcher: Launcher) -> dict[str, float]:
        with _records(bench.folder) as folder:
            with bench.run(launcher, [*launcher.restarting(8), str(worker), str(folder)]) as run:
                run.wait_until(lambda: len(_times(folder, "again")) == 8, "all workers of the next attempt ran")
            return dict(zip(["1 host, first", "1 host, last"], _restart_times(folder)))

    compare(table, ["1 host, first", "1 host, last"], launchers, bench.rounds(24, 2), measure)


def _restart_on_hosts(bench: Bench, table: Table, launchers: list[Launcher], worker: Path) -> None:
    if reason := why_impossible():
        raise Failed(reason)
    labels = [f"{HOST_COUNT} hosts, first", f"{HOST_COUNT} hosts, last"]
    world = HOST_COUNT * PER_HOST
    ports = iter(range(21000, 25000))  # a new one each run: the last one's connections may linger

    def measure(launcher: Launcher) -> dict[str, float]:
        port = next(ports)
        with _records(bench.folder) as folder, contextlib.ExitStack() as stack:
            runs = []
            for node in range(HOST_COUNT):
                place = Place(node, HOST_COUNT, hosts.address(0), port)
                command = [*hosts.enter(node), *launcher.on_host(place), str(worker), str(folder)]
                runs.append(stack.enter_context(bench.run(launcher, command)))
            runs[0].wait_until(lambda: len(_times(folder, "again")) == world, "all workers of the next attempt ran")
            return dict(zip(labels, _restart_times(folder)))

    with Hosts(HOST_COUNT, bench.folder) as hosts:
        compare(table, labels, launchers, bench.rounds(18, 1), measure)


def _build_restart_worker(folder: Path) -> Path:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if not compiler:
        raise Failed("no C++ compiler for the worker")
    built = subprocess.run([compiler, "-std=c++17", "-O2", "-static", "-o", folder / "restart_worker",
                            HERE / "restart_worker.cpp"], capture_output=True, text=True, timeout=120)
    if built.returncode != 0:
        raise Failed(f"the worker does not compile: {(built.stderr.splitlines() or [''])[0]}")
    return folder / "restart_worker"


@contextlib.contextmanager
def _records(parent: Path):
    folder = parent / "restart"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _times(folder: Path, what: str) -> list[int]:
    file = folder / ("died" if what == "died" else "records")
    lines = file.read_text().splitlines() if file.exists() else []
    return sorted(int(line.split()[1]) for line in lines if line.startswith(f"{what} "))


def _restart_times(folder: Path) -> tuple[float, float]:
    died = _times(folder, "died")[0]
    again = _times(folder, "again")
    return (again[0] - died) / 1e6, (again[-1] - died) / 1e6


SECTIONS = {"start": start, "first-line": first_line, "memory": memory, "idle": idle, "restart": restart}
