"""What a worker of launch() runs: _worker.py FOLDER."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import time
import traceback
from pathlib import Path
from typing import Any, BinaryIO, Callable


def main(folder: Path) -> None:
    rank = os.environ["RANK"]
    for stale in ("value", "exception"):  # of an attempt before
        with contextlib.suppress(FileNotFoundError):
            (folder / f"{stale}.{rank}").unlink()
    try:
        with open_function(folder) as file:
            function, args, kwargs = load(file)
        value = call(function, args, kwargs)
        write(folder / f"value.{rank}", pickled_value(value, rank, function))
    except Exception as error:
        text = text_of(error)
        sys.stderr.write(text)
        write_error_file(error, text)
        with contextlib.suppress(Exception):  # one that cannot be pickled is its text only
            write(folder / f"exception.{rank}", dumps(error))
        sys.exit(1)


def text_of(error: BaseException) -> str:
    """Its traceback without the calls of this file."""
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename == __file__:
        inner = inner.tb_next
    return "".join(traceback.format_exception(type(error), error, inner))


def call(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        return None


def open_function(folder: Path) -> BinaryIO:
    try:
        return open(folder / "function", "rb")
    except FileNotFoundError:
        sys.exit(f"ddprun.launch: {folder} is not on this host; its argument folder has to name one that all hosts share")


def load(file: BinaryIO) -> Any:
    header = pickle.load(file)
    sys.path[:] = header["path"]
    sys.argv[:] = header["argv"]
    if header["main"]:
        from multiprocessing import spawn

        from ddprun import _launch
        _launch.importing_main = True
        spawn.prepare(header["main"])
        _launch.importing_main = False
    return pickle.load(file)


def dumps(value: Any) -> bytes:
    from ddprun import _pickling  # found by the path of the process that has called launch()
    return _pickling.dumps(value)


def pickled_value(value: Any, rank: str, function: Any) -> bytes:
    try:
        return dumps(value)
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"rank {rank}: what {name} returned cannot be pickled ({error})") from None


def write(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    new.replace(path)


def write_error_file(error: BaseException, text: str) -> None:
    """As torch's @record does."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        message = {"message": f"{type(error).__name__}: {error}",
                   "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time()))}}
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps({"message": message}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
