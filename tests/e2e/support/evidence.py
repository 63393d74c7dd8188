"""Reads what the scripts of tests/e2e/scripts leave behind, and what ddprun says."""

from __future__ import annotations

import json
import re
from pathlib import Path


def workers(directory: Path) -> list[dict]:
    """The environments that print_env.py left, ordered by RANK."""
    records = [json.loads(path.read_text()) for path in directory.glob("worker.*")]
    return sorted(records, key=lambda record: int(record["RANK"]))


def steps(directory: Path) -> list[dict]:
    """What record_step.sh noted, ordered by SLURM_PROCID."""
    records = [json.loads(path.read_text()) for path in directory.glob("step.*")]
    return sorted(records, key=lambda record: record["procid"])


def numbers(record: dict, *names: str) -> tuple[int, ...]:
    return tuple(int(record[name]) for name in names)


def spoken(text: str) -> list[str]:
    """ddprun's own lines among everything else."""
    return [line for line in text.splitlines() if re.search(r"\b(ddprun|hint): ", line)]


def without_waiting(text: str) -> str:
    """Without the lines that tell for whom ddprun waits, which a slow machine has."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("ddprun: waiting for "))


def events(path: Path, kind: str) -> list[dict]:
    """Of an --events file, as far as it is written."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [event for event in (json.loads(line) for line in lines if line.endswith("\n")) if event["event"] == kind]


def times_said(text: str, phrase: str) -> int:
    return text.count(phrase)


def srun_hint(text: str) -> str:
    """The srun line of a hint, as a person would copy it."""
    found = re.search(r"^hint: .*?\b(srun .*?)[`'\"]?$", text, re.MULTILINE)
    assert found, f"no hint with an srun line in:\n{text}"
    return found.group(1)
