"""The cores of this machine, and what workers and ddprun say about those they run on."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
from collections.abc import Callable
from pathlib import Path

# System calls that tests forbid, by their number on each machine.
FORBIDDABLE = {"sched_setaffinity": {"x86_64": 203, "aarch64": 122}, "set_mempolicy": {"x86_64": 238, "aarch64": 237}}


def parse_list(text: str) -> set[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def own_cores() -> list[set[int]]:
    """The cores this process may use, each with its SMT siblings."""
    allowed = os.sched_getaffinity(0)
    cores = {frozenset(_siblings(cpu) & allowed) for cpu in allowed}
    return [set(core) for core in sorted(cores, key=min)]


def _siblings(cpu: int) -> set[int]:
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return parse_list(path.read_text().strip()) if path.exists() else {cpu}


def printed(text: str, attempt: int = 0) -> dict[int, set[int]]:
    """The CPUs that the workers of print_binding.py saw, by rank."""
    found = re.findall(rf"^attempt {attempt} rank (\d+): CPUs? ([\d,-]+)", text, re.MULTILINE)
    return {int(rank): parse_list(cpus) for rank, cpus in found}


def printed_bindings(text: str, attempt: int = 0) -> dict[int, str]:
    """CPUs and memory policy in their words, by rank."""
    found = re.findall(rf"^attempt {attempt} rank (\d+): (.*); its launcher", text, re.MULTILINE)
    return {int(rank): binding for rank, binding in found}


def launchers(text: str) -> dict[int, set[int]]:
    """The CPUs of the process that started each worker."""
    found = re.findall(r"^attempt \d+ rank (\d+): .*; its launcher: CPUs? ([\d,-]+)$", text, re.MULTILINE)
    return {int(rank): parse_list(cpus) for rank, cpus in found}


def shown(text: str) -> list[tuple[int, str]]:
    """Rank and binding of the lines of --show-binding, in their order."""
    found = re.findall(r"^ddprun: rank (\d+) \(local rank \d+\) on \S+: (.*)$", text, re.MULTILINE)
    return [(int(rank), binding) for rank, binding in found]


def forbid(call: str) -> Callable[[], None] | None:
    """For preexec_fn: the call then fails with EPERM, as in containers. Nothing on a machine it is not known for."""
    number = FORBIDDABLE[call].get(platform.machine())
    if number is None:
        return None
    eperm = 1
    instructions = b"".join(struct.pack("HBBI", *each) for each in (
        (0x20, 0, 0, 0),                   # load the call's number
        (0x15, 0, 1, number),              # is it this one?
        (0x06, 0, 0, 0x00050000 | eperm),  # SECCOMP_RET_ERRNO
        (0x06, 0, 0, 0x7FFF0000)))         # SECCOMP_RET_ALLOW
    set_no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    library = ctypes.CDLL(None, use_errno=True)

    def install() -> None:
        code = ctypes.create_string_buffer(instructions, len(instructions))
        program = ctypes.create_string_buffer(struct.pack("HP", len(instructions) // 8, ctypes.addressof(code)))
        library.prctl(set_no_new_privileges, 1, 0, 0, 0)
        if library.prctl(set_seccomp, filter_mode, program, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")

    return install
