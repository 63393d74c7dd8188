"""A worker that writes lines of every size, and what has to come of them.

Run as a program: random_writer.py SEED, with RANK in the environment. Imported: `pieces` tells what it writes and
`check` compares an output with it.
"""

from __future__ import annotations

import os
import random
import re
import time

LONG_LINE = 64 * 1024  # longer ones may be torn where their writer pauses
MOST = 4_000_000       # bytes a worker writes

Step = tuple[bytes, float]  # written with one call, then a pause in seconds


def letters(rank: int) -> bytes:
    """The characters of this rank, different from all others'."""
    return bytes(range(ord("A") + 8 * rank, ord("A") + 8 * rank + 8))


def line(random_: random.Random, rank: int) -> bytes:
    length = int(2 ** random_.uniform(0, 21)) if random_.random() < 0.1 else random_.randint(1, 200)
    pattern = bytes(random_.choices(letters(rank), k=min(length, 997)))
    return (pattern * (length // len(pattern) + 1))[:length]


def text(seed: int, rank: int) -> bytes:
    """Everything the rank writes."""
    random_ = random.Random(f"text {seed} {rank}")
    whole = bytearray()
    most = int(2 ** random_.uniform(4, 22))
    while len(whole) < most:
        whole += line(random_, rank) + random_.choices((b"\n", b"\r"), (9, 1))[0]
    if random_.random() < 0.3:
        whole += line(random_, rank)  # without an end
    return bytes(whole[:MOST])


def steps(seed: int, rank: int) -> list[Step]:
    """The same in calls of write with pauses between them."""
    random_ = random.Random(f"steps {seed} {rank}")
    whole = text(seed, rank)
    largest = random_.choice((100, 5_000, 100_000, 1_000_000))
    found: list[Step] = []
    at = 0
    while at < len(whole):
        length = random_.randint(1, largest) if len(found) < 2_000 else len(whole)
        pause = random_.choices((0, 0.001, 0.02, 1.2), (1000, 10, 5, 0.2))[0] if len(found) < 2_000 else 0
        found.append((whole[at:at + length], pause))
        at += length
    return found


def check(output: bytes, seed: int, ranks: int) -> None:
    """Every byte of every rank is there once and in order, and no line is torn that may not be."""
    owner = {letter: rank for rank in range(ranks) for letter in letters(rank)}
    expected = {rank: re.findall(rb"[^\r\n]+[\r\n]?", text(seed, rank)) for rank in range(ranks)}
    at = dict.fromkeys(range(ranks), 0)  # which line of each comes next
    done = dict.fromkeys(range(ranks), 0)  # how much of it came
    for found in re.finditer(rb"([^\r\n]+)([\r\n]?)", output):
        content, end = found.groups()
        rank = owner[content[0]]
        where = f"rank {rank}, line {at[rank]}, at byte {found.start()} of the output"
        assert at[rank] < len(expected[rank]), f"too much: {where}"
        wanted = expected[rank][at[rank]]
        rest = wanted[done[rank]:]
        assert rest.rstrip(b"\r\n").startswith(content), f"wrong text: {where}: {content[:50]!r}, not {rest[:50]!r}"
        if content == rest.rstrip(b"\r\n"):
            at[rank], done[rank] = at[rank] + 1, 0
            own_end = wanted[len(wanted.rstrip(b"\r\n")):]
            assert len(wanted) > LONG_LINE or own_end in (end, b""), f"wrong end: {where}"
        else:
            assert len(wanted) > LONG_LINE, f"torn: {where}: {content[:50]!r}"
            done[rank] += len(content)
    for rank in range(ranks):
        assert at[rank] == len(expected[rank]), f"rank {rank}: {at[rank]} of {len(expected[rank])} lines came"


def main(seed: int) -> None:
    for data, pause in steps(seed, int(os.environ["RANK"])):
        while data:
            data = data[os.write(1, data):]
        time.sleep(pause)


if __name__ == "__main__":
    import sys
    main(int(sys.argv[1]))
