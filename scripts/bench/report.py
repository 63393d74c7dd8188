"""The text of the comparison: fixed-width tables, and one line for each aim."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass

from launchers import Launcher
from sections import Row, Table

OURS = "ddprun"
LABEL_WIDTH = 16  # at least, as the next
CELL_WIDTH = 15
RATIO_WIDTH = 8


def header(launchers: list[Launcher]) -> str:
    """The machine, the launchers' versions, and what is not measured."""
    with open("/proc/meminfo", encoding="ascii") as file:
        gibibytes = int(file.readline().split()[1]) / 1024 / 1024
    lines = [f"{time.strftime('%Y-%m-%d %H:%M %Z')}, {len(os.sched_getaffinity(0))} cores, {gibibytes:.1f} GiB, "
             f"{platform.system()} {platform.release()} {platform.machine()}, "
             f"load {os.getloadavg()[0]:.1f} at the start"]
    lines.append(", ".join(f"{launcher.name} {launcher.version}" for launcher in launchers if not launcher.missing))
    lines += [f"{launcher.name} is not measured: {launcher.missing}" for launcher in launchers if launcher.missing]
    return "\n".join(lines)


def render_table(table: Table, names: list[str], missing: set[str]) -> str:
    """Medians, below each the least and the most; behind each competitor how many times ddprun's figure it is."""
    others = [name for name in names if name != OURS]
    label_width = max([LABEL_WIDTH, *(len(row.label) + 1 for row in table.rows)])
    cell_width = max([CELL_WIDTH, *(len(name) + 1 for name in names),
                      *(len(text) + 2 for row in table.rows for text in row.texts.values())])

    def cell(row: Row, name: str) -> str:
        text = "missing" if name in missing else row.texts.get(name) or number(row.median(name))
        return text.rjust(cell_width)

    head = "".ljust(label_width) + OURS.rjust(cell_width)
    head += "".join(name.rjust(cell_width) + "ratio".rjust(RATIO_WIDTH) for name in others)
    lines = [table.title, head]
    for row in table.rows:
        ours = row.median(OURS)
        figures = row.label.ljust(label_width) + cell(row, OURS)
        ranges = "  min-max".ljust(label_width) + _range(row.figures.get(OURS)).rjust(cell_width)
        for name in others:
            figures += cell(row, name) + _ratio(row.median(name), ours).rjust(RATIO_WIDTH)
            ranges += _range(row.figures.get(name)).rjust(cell_width) + " " * RATIO_WIDTH
        lines += [figures, ranges.rstrip()] if row.figures else [figures]
    lines += [f"  {note}" for note in table.notes]
    return "\n".join(lines)


@dataclass(frozen=True)
class Aim:
    text: str
    section: str
    judge: Callable[[Table], tuple[bool, str] | None]  # (met, the figures); None when a figure is missing


def against(label: str, competitor: str, least_ratio: float) -> Callable[[Table], tuple[bool, str] | None]:
    def judge(table: Table) -> tuple[bool, str] | None:
        ours, theirs = table.median(label, OURS), table.median(label, competitor)
        if ours is None or theirs is None:
            return None
        return theirs >= least_ratio * ours, f"{number(ours)} ms against {number(theirs)} ms"
    return judge


def below(label: str, limit: float, unit: str) -> Callable[[Table], tuple[bool, str] | None]:
    def judge(table: Table) -> tuple[bool, str] | None:
        ours = table.median(label, OURS)
        return None if ours is None else (ours < limit, f"{number(ours)} {unit}")
    return judge


AIMS = [
    Aim("64 workers of `true` no slower than mpiexec.hydra", "start", against("N = 64", "mpiexec.hydra", 1)),
    Aim("8 workers of `true` at least 50 times faster than torchrun", "start", against("N = 8", "torchrun", 50)),
    Aim("launcher under 12 MiB resident, all its processes together", "memory", below("peak, all", 12, "MiB")),
    Aim("fewer than 2 wake-ups a second while workers sleep", "idle", below("wake-ups", 2, "a second")),
    Aim("restart within 20 ms on one host, last worker", "restart", below("1 host, last", 20, "ms")),
    Aim("restart within 100 ms on four hosts, last worker", "restart", below("4 hosts, last", 100, "ms")),
]


def render_aims(aims: list[Aim], tables: dict[str, Table]) -> str:
    lines = ["Aims"]
    for aim in aims:
        verdict = aim.judge(tables[aim.section]) if aim.section in tables else None
        if verdict is None:
            lines.append(f"  not measured  {aim.text}")
        else:
            lines.append(f"  {'met' if verdict[0] else 'not met':<12}  {aim.text}: {verdict[1]}")
    return "\n".join(lines)


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _range(values: list[float] | None) -> str:
    return f"{number(min(values))}-{number(max(values))}" if values else ""


def _ratio(theirs: float | None, ours: float | None) -> str:
    return "-" if theirs is None or not ours else f"x{number(theirs / ours)}"
