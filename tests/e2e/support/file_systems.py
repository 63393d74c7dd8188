"""Small file systems for a test: one that is full or read-only, and one that answers nothing, as NFS does whose server is gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

FUSE_INIT_ANSWER = struct.pack("IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 9, 4096, 1, 0, 0, 0)
MNT_DETACH = 2


def why_impossible() -> str | None:
    if os.geteuid() != 0:
        return "only root can mount"
    return None if os.path.exists("/dev/fuse") else "there is no /dev/fuse"


@contextlib.contextmanager
def hanging(folder: Path) -> Iterator[Path]:
    """A file system in which every call waits until the test ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    folder.mkdir()
    try:
        settings = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"hanging", os.fsencode(folder), b"fuse", 0, settings) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        begin = os.read(device, 1 << 20)
        unique = struct.unpack_from("IIQ", begin)[2]
        os.write(device, struct.pack("IiQ", 16 + len(FUSE_INIT_ANSWER), 0, unique) + FUSE_INIT_ANSWER)
        yield folder
    finally:
        libc.umount2(os.fsencode(folder), MNT_DETACH)
        os.close(device)  # what waits gets an error


@contextlib.contextmanager
def small(folder: Path, *, full: bool = False, read_only: bool = False) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", folder], check=True)
    try:
        if full:
            with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(bytes(4096))
        if read_only:
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
