"""The workers of the output benchmarks: what each writes, and whether that is what came out."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

BLOCK = 650  # lines that a worker writes at a time

WORKER = """
import os, sys
name, lines = next(os.environ[n] for n in ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "N") if n in os.environ), int(sys.argv[1])
name = "%02d" % int(name)
block = 650
out = b"".join(b"%s:%08d:" % (name.encode(), i) + b"x" * 87 + b"\\n" for i in range(block))
for i in range(lines // block):
    view = memoryview(out)
    while view: view = view[os.write(1, view):]
"""


def check(written: Iterator[tuple[int, bytes]], workers: int, lines: int) -> None:
    """`written`: rank and bytes of each line, in each rank's order."""
    found = {rank: hashlib.sha256() for rank in range(workers)}
    for rank, text in written:
        found[rank].update(text)
    for rank in range(workers):
        block = b"".join(b"%02d:%08d:" % (rank, i) + b"x" * 87 + b"\n" for i in range(BLOCK))
        wanted = hashlib.sha256()
        for _ in range(lines // BLOCK):
            wanted.update(block)
        if found[rank].digest() != wanted.digest():
            sys.exit(f"the bytes of rank {rank} are not those that it wrote")


def by_label(console: Path) -> Iterator[tuple[int, bytes]]:
    """Lines after "[5] " or "[5 n2] "."""
    with open(console, "rb") as file:
        for line in file:
            label, text = line.split(b"] ", 1)
            yield int(label[1:].split()[0]), text


def by_name(console: Path) -> Iterator[tuple[int, bytes]]:
    with open(console, "rb") as file:
        for line in file:
            yield int(line[:2]), line
