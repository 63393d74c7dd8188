"""print_binding.py [fail]: one line about where this worker runs, in the words of --show-binding:
attempt 0 rank 0: CPUs 0-1, memory preferred on node 0; its launcher: CPUs 2-3
With `fail` it ends with an error in attempt 0."""

import os
import re
import sys
from pathlib import Path


def numbered(word: str, numbers: list[int]) -> str:
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
    return f"{word}{'' if len(numbers) == 1 else 's'} {text}"


def memory() -> str:
    """The policy of this process as the kernel tells it, nothing where it has none."""
    try:
        first = Path("/proc/self/numa_maps").read_text().split("\n", 1)[0]
    except OSError:
        return ""
    found = re.match(r"\w+ (prefer|prefer \(many\)|bind):([\d,-]+) ", first)
    if not found:
        return ""
    how = "bound to" if found[1] == "bind" else "preferred on"
    word = "node" if found[2].isdigit() else "nodes"
    return f", memory {how} {word} {found[2]}"


attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
line = f"attempt {attempt} rank {os.environ['RANK']}: {numbered('CPU', list(os.sched_getaffinity(0)))}{memory()}"
launcher = numbered("CPU", list(os.sched_getaffinity(os.getppid())))
sys.stdout.write(f"{line}; its launcher: {launcher}\n")
if sys.argv[1:] == ["fail"] and attempt == "0":
    sys.exit(7)
