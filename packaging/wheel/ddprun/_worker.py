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
from typing import Any, BinaryIO, Callable, NoReturn


class PrivateFolder:
    """One of this user alone, opened once: who may rename it puts no other in its place, and no file of another user is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        self._refuse_foreign("", os.fstat(self._folder), 0o077)

    def _refuse_foreign(self, name: str, status: os.stat_result, others: int) -> None:
        why = (f"belongs to user {status.st_uid}, not to user {os.geteuid()}" if status.st_uid != os.geteuid() else
               f"can be changed by other users (mode {status.st_mode & 0o7777:04o})" if status.st_mode & others else "")
        if why:
            raise PermissionError(f"ddprun.launch: {self._path / name} {why}; its argument folder has to name one that only you can change")

    def open(self, name: str) -> BinaryIO:
        file = open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._folder), "rb")
        self._refuse_foreign(name, os.fstat(file.fileno()), 0o022)
        return file

    def write(self, name: str, data: bytes) -> None:
        new = f"{name}.{os.urandom(6).hex()}"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._folder), "wb") as file:
            file.write(data)
        os.rename(new, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    def names(self) -> list[str]:
        return os.listdir(self._folder)

    def close(self) -> None:
        os.close(self._folder)


def main(path: Path) -> None:
    rank = os.environ["RANK"]
    folder = open_folder(path)
    for stale in ("value", "exception"):  # of an attempt before
        folder.remove(f"{stale}.{rank}")
    try:
        with open_function(folder, path) as file:
            function, args, kwargs = load(file)
        value = call(function, args, kwargs)
        folder.write(f"value.{rank}", pickled_value(value, rank, function))
    except Exception as error:
        text = text_of(error)
        sys.stderr.write(text)
        write_error_file(error, text)
        with contextlib.suppress(Exception):  # one that cannot be pickled is its text only
            folder.write(f"exception.{rank}", dumps(error))
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


def open_folder(path: Path) -> PrivateFolder:
    try:
        return PrivateFolder(path)
    except FileNotFoundError:
        refuse_missing(path)
    except OSError as error:
        sys.exit(str(error))


def open_function(folder: PrivateFolder, path: Path) -> BinaryIO:
    try:
        return folder.open("function")
    except FileNotFoundError:
        refuse_missing(path)


def refuse_missing(path: Path) -> NoReturn:
    sys.exit(f"ddprun.launch: {path} is not on this host; its argument folder has to name one that all hosts share")


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
    try:
        return pickle.load(file)
    except AttributeError as error:
        if not header["main"]:
            raise
        raise AttributeError(f'{error}: a worker imports the script without what is below if __name__ == "__main__":; '
                             "define it above that line") from None


def dumps(value: Any) -> bytes:
    from ddprun import _pickling  # found by the path of the process that has called launch()
    return _pickling.dumps(value)


def pickled_value(value: Any, rank: str, function: Any) -> bytes:
    try:
        return dumps(value)
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"rank {rank}: what {name} returned cannot be pickled ({error})") from None


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
