"""A worker that writes numbered lines of one length, and what came of them.

Run as a program: written_lines.py LENGTH BYTES, with RANK in the environment. Imported: `look_at` counts what is missing or
torn in an output that several ranks wrote.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys


def line(rank: int, number: int, length: int) -> bytes:
    """With its line end it has `length` bytes."""
    head = b"<%d %d " % (rank, number)
    return head + bytes([ord("a") + rank % 26]) * (length - len(head) - 2) + b">\n"


def count(length: int, size: int) -> int:
    return size // length


@dataclasses.dataclass
class Found:
    lost_bytes: int
    torn_lines: int
    out_of_order: int

    @property
    def is_whole(self) -> bool:
        return (self.lost_bytes, self.torn_lines, self.out_of_order) == (0, 0, 0)


def look_at(output: bytes, ranks: int, length: int, size: int) -> Found:
    """Other lines in it are nobody's."""
    whole = re.compile(rb"<(\d+) (\d+) [a-z]+>")
    lines = count(length, size)
    last = [-1] * ranks
    good = torn = disordered = 0
    for found in output.split(b"\n"):
        match = whole.fullmatch(found)
        if match and int(match[1]) < ranks and found + b"\n" == line(int(match[1]), int(match[2]), length):
            rank, number = int(match[1]), int(match[2])
            disordered += number <= last[rank]
            last[rank] = number
            good += 1
        elif b"<" in found or b">" in found or re.fullmatch(rb"([a-z])\1+", found):
            torn += 1
    written = ranks * lines * length
    return Found(max(0, written - len(output)), torn + max(0, ranks * lines - good - torn), disordered)


def main() -> None:
    rank, length, size = int(os.environ["RANK"]), int(sys.argv[1]), int(sys.argv[2])
    for number in range(count(length, size)):
        rest = line(rank, number, length)
        while rest:
            rest = rest[os.write(1, rest):]


if __name__ == "__main__":
    main()
