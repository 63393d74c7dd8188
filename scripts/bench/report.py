"""The text of the comparison: fixed-width tables, and one line for each aim."""

from collections.abc import Callable
from dataclasses import dataclass

from sections import Row, Table

OURS = "ddprun"
LABEL_WIDTH = 16
CELL_WIDTH = 15
RATIO_WIDTH = 8


def render_table(table: Table, names: list[str], missing: set[str]) -> str:
    """Medians, below each the least and the most; behind each competitor how many times ddprun's figure it is."""
    others = [name for name in names if name != OURS]

    def cell(row: Row, name: str) -> str:
        return ("missing" if name in missing else _number(row.median(name))).rjust(CELL_WIDTH)

    head = "".ljust(LABEL_WIDTH) + OURS.rjust(CELL_WIDTH)
    head += "".join(name.rjust(CELL_WIDTH) + "ratio".rjust(RATIO_WIDTH) for name in others)
    lines = [table.title, head]
    for row in table.rows:
        ours = row.median(OURS)
        figures = row.label.ljust(LABEL_WIDTH) + cell(row, OURS)
        ranges = "  min-max".ljust(LABEL_WIDTH) + _range(row.figures.get(OURS)).rjust(CELL_WIDTH)
        for name in others:
            figures += cell(row, name) + _ratio(row.median(name), ours).rjust(RATIO_WIDTH)
            ranges += _range(row.figures.get(name)).rjust(CELL_WIDTH) + " " * RATIO_WIDTH
        lines += [figures, ranges.rstrip()] if row.figures else [figures]
    lines += [f"  {note}" for note in table.notes]
    return "\n".join(lines)


@dataclass(frozen=True)
class Aim:
    text: str
    section: str
    judge: Callable[[Table], tuple[bool, str] | None]  # (met, the figures); None when a figure is missing


def _against(label: str, competitor: str, least_ratio: float) -> Callable[[Table], tuple[bool, str] | None]:
    def judge(table: Table) -> tuple[bool, str] | None:
        ours, theirs = table.median(label, OURS), table.median(label, competitor)
        if ours is None or theirs is None:
            return None
        return theirs >= least_ratio * ours, f"{_number(ours)} ms against {_number(theirs)} ms"
    return judge


def _below(label: str, limit: float, unit: str) -> Callable[[Table], tuple[bool, str] | None]:
    def judge(table: Table) -> tuple[bool, str] | None:
        ours = table.median(label, OURS)
        return None if ours is None else (ours < limit, f"{_number(ours)} {unit}")
    return judge


AIMS = [
    Aim("64 workers of `true` no slower than mpiexec.hydra", "start", _against("N = 64", "mpiexec.hydra", 1)),
    Aim("8 workers of `true` at least 50 times faster than torchrun", "start", _against("N = 8", "torchrun", 50)),
    Aim("launcher under 12 MiB resident, all its processes together", "memory", _below("peak, all", 12, "MiB")),
    Aim("fewer than 2 wake-ups a second while workers sleep", "idle", _below("wake-ups", 2, "a second")),
    Aim("restart within 20 ms on one host, last worker", "restart", _below("1 host, last", 20, "ms")),
    Aim("restart within 100 ms on four hosts, last worker", "restart", _below("4 hosts, last", 100, "ms")),
]


def render_aims(tables: dict[str, Table]) -> str:
    lines = ["Aims"]
    for aim in AIMS:
        verdict = aim.judge(tables[aim.section]) if aim.section in tables else None
        if verdict is None:
            lines.append(f"  not measured  {aim.text}")
        else:
            lines.append(f"  {'met' if verdict[0] else 'not met':<12}  {aim.text}: {verdict[1]}")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _range(values: list[float] | None) -> str:
    return f"{_number(min(values))}-{_number(max(values))}" if values else ""


def _ratio(theirs: float | None, ours: float | None) -> str:
    return "-" if theirs is None or not ours else f"x{_number(theirs / ours)}"
