"""launch(): a function in workers that ddprun starts."""

from __future__ import annotations

import ast
import contextlib
import os
import pickle
import sys
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence, TypeVar

from ddprun import _pickling
from ddprun._run import Failure, private_folder, run_in
from ddprun._worker import PrivateFolder

T = TypeVar("T")

importing_main = False  # in a worker while it imports the script that has called launch()


def launch(function: Callable[..., T], nproc: int | str | None = None, *args: Any,
           kwargs: Mapping[str, Any] | None = None, options: Sequence[str] = (), env: Mapping[str, str] | None = None,
           cwd: str | os.PathLike[str] | None = None, folder: str | os.PathLike[str] | None = None) -> list[T]:
    """Calls `function(*args, **kwargs)` in `nproc` new processes a host and returns what it returned, in the order of ranks.

    RANK, WORLD_SIZE, MASTER_ADDR and the others are in each one's environment. Without `nproc` there is one worker per
    visible GPU, else one. `options` are further options of ddprun; `env` is added to the environment. On several hosts
    `folder` has to be one that all of them share. The first failure is raised as Failure, from the exception that the
    function raised.
    """
    if importing_main:
        raise RuntimeError("ddprun.launch() is called while a worker imports this script: put the call below "
                           'if __name__ == "__main__":')
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        meant = function if isinstance(function, str) and function.isidentifier() else "function"
        raise TypeError(f"ddprun.launch() takes a function, not {function!r}: ddprun.launch({meant}, "
                        f"{'nproc' if nproc is None else nproc})")
    data = _payload(function, args, dict(kwargs or {}), name)
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])  # what a worker calls it
    with private_folder(folder) as private, contextlib.closing(PrivateFolder(private)) as files:
        files.write("function", data)
        workers = [] if nproc is None else ["--nproc-per-node", str(nproc)]
        arguments = [*workers, *options, str(Path(__file__).with_name("_worker.py")), str(private)]
        try:
            result = run_in(arguments, private, env={"PYTHON_EXEC": sys.executable, **(env or {})}, cwd=cwd)
        except Failure as failure:
            raise failure from _exception_of(files, failure.rank)
        return [_value_of(files, rank) for rank in range(_world_size(result.report, files))]


def _payload(function: Callable[..., T], args: Sequence[Any], kwargs: dict[str, Any], name: str) -> bytes:
    """What a worker needs first, so that it can import what the rest names; then the rest."""
    main = _main_of_workers()
    below = bool(main) and _is_below_main(function)
    try:
        call = _pickling.dumps((function, args, kwargs), main_is_importable=bool(main) and not below)
    except _pickling.CannotPickle as error:
        hint = ": install cloudpickle, or put it into a module" if error.without_cloudpickle else ""
        if below:
            raise TypeError(f'{name} is defined below if __name__ == "__main__":, which workers do not run: define it above that '
                            "line, or install cloudpickle") from None
        raise TypeError(f"{name} and its arguments cannot be sent to the workers ({error}){hint}") from None
    path = [os.path.abspath(entry) for entry in sys.path]
    return pickle.dumps({"path": path, "argv": sys.argv, "main": main if b"__main__" in call else {}}) + call


def _is_below_main(function: Any) -> bool:
    """Whether the script defines it in `if __name__ == "__main__":` only."""
    code, file = getattr(function, "__code__", None), getattr(sys.modules["__main__"], "__file__", None)
    if code is None or file is None or getattr(function, "__module__", None) != "__main__":
        return False
    try:
        body = ast.parse(Path(file).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(part, ast.If) and "'__name__'" in ast.dump(part.test)
               and part.lineno <= code.co_firstlineno <= (part.end_lineno or 0) for part in body)


def _main_of_workers() -> dict[str, str]:
    """How a worker imports this process' `__main__`, as multiprocessing does; empty where it has no file, as in a notebook."""
    main = sys.modules["__main__"]
    if hasattr(sys, "ps1") or hasattr(main, "get_ipython"):
        return {}
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    file = getattr(main, "__file__", None)
    return {} if file is None else {"init_main_from_path": os.path.abspath(file)}


def _world_size(report: dict[str, Any] | None, files: PrivateFolder) -> int:
    return int(report["world_size"]) if report else len([name for name in files.names() if name.startswith("value.")])


def _value_of(files: PrivateFolder, rank: int) -> Any:
    try:
        with files.open(f"value.{rank}") as file:
            return pickle.load(file)
    except FileNotFoundError:
        raise RuntimeError(f"rank {rank} returned no value: it ended with exit code 0 before the function returned, or "
                           "another ddprun.launch() has started it; on several hosts a single one starts all ranks") from None


def _exception_of(files: PrivateFolder, rank: int | None) -> BaseException | None:
    try:
        with files.open(f"exception.{rank}") as file:
            error = pickle.load(file)
    except Exception:  # there is none, or its class cannot be made from what it pickles
        return None
    return error if isinstance(error, BaseException) else None
