"""run(): the program as a child process, its signals, its output and its report."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import IO, Any, Dict, Iterator, Mapping, Sequence, cast

from ddprun._program import program

Report = Dict[str, Any]

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TAIL = 20  # lines


@dataclasses.dataclass(frozen=True)
class Result:
    """How a job ended. `report` is what `--report` writes; `stdout` and `stderr` are set with `capture=True`."""

    code: int
    report: Report | None = None
    stdout: str | None = None
    stderr: str | None = None


class Failure(Exception):
    """A job that failed; the message says which rank on which host, and why.

    `code` is ddprun's exit code and `report` what `--report` writes. `rank` and `host` are those of the first failure,
    `output` its last lines, `traceback` what the worker's exception left; None where there is none.
    """

    def __init__(self, message: str, result: Result, output: str = "") -> None:
        super().__init__(message)
        failure = _failure_of(result.report)
        self.code = result.code
        self.report = result.report
        self.result = result
        self.rank: int | None = failure.get("rank")
        self.host: str | None = failure.get("host")
        self.output = output
        self.traceback: str | None = failure.get("error")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.result, self.output)


def run(arguments: Sequence[str | os.PathLike[str]], *, env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None, check: bool = True, capture: bool = False) -> Result:
    """Runs ddprun with these arguments and waits for it.

    `env` is added to the environment. With `check`, a job that fails raises Failure; with `capture`, its output is not
    shown and comes with the result.
    """
    if isinstance(arguments, (str, bytes, os.PathLike)):
        raise TypeError(f"ddprun.run() takes a list of arguments: ddprun.run({shlex.split(os.fsdecode(arguments))!r})")
    with private_folder() as folder:
        return run_in([os.fspath(argument) for argument in arguments], folder, env=env, cwd=cwd, check=check, capture=capture)


@contextlib.contextmanager
def private_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """One that this user alone can enter; removed at the end, also before a stop signal ends this process.

    In a parent that another user can change he could put his own folder in its place.
    """
    if parent is None:
        parent = next(filter(_is_safe, [tempfile.gettempdir(), f"/run/user/{os.geteuid()}", "/tmp", "/var/tmp"]), None)
    elif os.path.isdir(parent) and (mode := os.stat(parent).st_mode) & 0o1002 == 0o0002:
        raise PermissionError(f"ddprun.launch: {os.fspath(parent)} can be changed by all users (mode {mode & 0o7777:04o} without the "
                              f"sticky bit); chmod +t {os.fspath(parent)}, or name another folder")
    try:
        with tempfile.TemporaryDirectory(prefix="ddprun-", dir=parent) as made:
            yield Path(made).resolve()
    except _Stopped as stopped:
        os.kill(os.getpid(), stopped.signal)


def _is_safe(parent: str) -> bool:
    try:
        status = os.stat(parent)
    except OSError:
        return False
    return os.access(parent, os.W_OK) and status.st_uid in (0, os.geteuid()) and (
        not status.st_mode & 0o022 or bool(status.st_mode & 0o1000))


def run_in(arguments: list[str], folder: Path, *, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None,
           check: bool = True, capture: bool = False) -> Result:
    """run() with a folder for the report."""
    report = folder / "report.json"
    began = time.time()
    variables = {**os.environ, **(env or {})}
    # Where ddprun cannot even begin it writes no report, and says why as to a launcher around it.
    error_file = variables.get("TORCHELASTIC_ERROR_FILE") or str(folder / "error.json")
    variables["TORCHELASTIC_ERROR_FILE"] = error_file
    # The user's own --report is the one that is written: the last one on a line counts.
    named = [variables["DDPRUN_REPORT"]] if variables.get("DDPRUN_REPORT") else [str(report)]
    command = [program(), "--report", *named, *arguments]
    shown = _Shown(sys.stdout, 1, capture), _Shown(sys.stderr, 2, capture)
    code = _run_child(command, shown, variables, cwd)
    result = Result(code, _read_report([Path(cwd or ".", name) for name in (*named, *_reports_named(arguments))], began),
                    shown[0].text() if capture else None, shown[1].text() if capture else None)
    if check and code != 0:
        raise _failure(result, shown[1].tail(), _read_error(Path(cwd or ".", error_file), began))
    return result


class _Shown:
    """One of the program's output streams: that of this process where nothing has replaced it, else a pipe that is copied."""

    def __init__(self, stream: IO[str] | None, descriptor: int, capture: bool) -> None:
        self._stream = stream
        self._kept: list[str] = []
        self._capture = capture
        self.piped = capture or not _is_descriptor(stream, descriptor)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, data: bytes) -> None:
        text = self._decoder.decode(data, final=not data)
        self._kept.append(text)
        if self._capture or self._stream is None:
            return
        if len(self._kept) > 2 * TAIL:
            self._kept = [self.tail()]
        self._stream.write(text)
        self._stream.flush()

    def text(self) -> str:
        return "".join(self._kept)

    def tail(self) -> str:
        return "".join(self.text().splitlines(keepends=True)[-TAIL:])[-TAIL * 1000:]


def _is_descriptor(stream: IO[str] | None, descriptor: int) -> bool:
    """Whether the stream is this process' own. In a notebook and in a test that captures output it is another."""
    if stream is None:
        return True
    try:
        if stream.fileno() != descriptor:
            return False
        stream.flush()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def _has_own_input() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.fileno() == 0
    except (AttributeError, OSError, ValueError):
        return False


def _run_child(command: list[str], shown: tuple[_Shown, _Shown], env: dict[str, str],
               cwd: str | os.PathLike[str] | None) -> int:
    """The exit code as a shell tells it."""
    out, err = (subprocess.PIPE if stream.piped else None for stream in shown)
    stdin = None if _has_own_input() else subprocess.DEVNULL
    with _forwarded_signals() as signals:
        process = subprocess.Popen(command, stdin=stdin, stdout=out, stderr=err, env=env, cwd=cwd)
        try:
            signals.pass_to(process)
            with _ended_with_this_process(process):
                _copy_output(process, shown)
                code = process.wait()
        finally:
            _end(process)
    return 128 - code if code < 0 else code


# Reads a line that is written when the job has ended; the end of the file comes where this process is killed.
_WATCH = 'read -r line; [ "$line" ] || [ "$(cat "/proc/$1/comm")" != ddprun ] || kill -TERM "$1"'


@contextlib.contextmanager
def _ended_with_this_process(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGTERM for ddprun where this process alone is killed (SIGKILL, os._exit)."""
    watch = subprocess.Popen(["/bin/sh", "-c", _WATCH, "sh", str(process.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        _end(process)
        with contextlib.suppress(BrokenPipeError):
            watch.communicate(b"ended\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what still runs because of an exception, such as one of a signal handler of the user's."""
    if process.poll() is None:
        process.terminate()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()


def _copy_output(process: subprocess.Popen[bytes], shown: tuple[_Shown, _Shown]) -> None:
    """Until the program has closed its pipes, or has ended where a process that outlives it holds them."""
    with selectors.DefaultSelector() as selector:
        for pipe, stream in zip((process.stdout, process.stderr), shown):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, stream)
        while selector.get_map():
            ended = process.poll() is not None
            ready = selector.select(0 if ended else 0.5)
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                cast(_Shown, key.data).take(data)
                if not data:
                    selector.unregister(key.fileobj)
            if ended and not ready:
                return


class _Stopped(BaseException):
    """A stop signal that ends this process once all is removed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class _Signals:
    """Stop signals that arrive while the program runs: passed on at once, and raised when it has ended.

    A terminal or a scheduler may have sent the program the same signal; it takes a second one within 100 ms as the first.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        if self._process is not None:
            self._process.send_signal(number)

    def pass_to(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if self.received is not None:  # while the process was started
            process.send_signal(self.received)


@contextlib.contextmanager
def _forwarded_signals() -> Iterator[_Signals]:
    """Handlers of the user's stay; Python sets handlers in the main thread only."""
    signals = _Signals()
    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in FORWARDED:
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    before[number] = signal.signal(number, signals)
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signals.received == signal.SIGINT:
        raise KeyboardInterrupt
    if signals.received is not None:
        raise _Stopped(signals.received)


def _reports_named(arguments: list[str]) -> list[str]:
    """The file of a --report among the arguments."""
    named = [following for argument, following in zip(arguments, arguments[1:]) if argument == "--report"]
    return named + [argument[len("--report="):] for argument in arguments if argument.startswith("--report=")]


def _read_report(paths: list[Path], began: float) -> Report | None:
    for path in paths:
        try:
            if path.stat().st_mtime > began - 2:
                report = json.loads(path.read_text(encoding="utf-8"))
                return report if isinstance(report, dict) else None
        except (OSError, ValueError):
            continue
    return None


def _read_error(path: Path, began: float) -> str:
    """Why ddprun could not begin; empty where it has not said so."""
    content = _read_report([path], began) or {}
    message = content.get("message")
    return str(message.get("message") or "") if isinstance(message, dict) else ""


def _failure_of(report: Report | None) -> Report:
    return (report or {}).get("failure") or {}


def _failure(result: Result, messages: str, error: str) -> Failure:
    """The report's sentence. Where nothing was started and so nothing was reported, and where an agent was only stopped, ddprun's
    `error`, or what it has printed."""
    failure = _failure_of(result.report)
    output = "\n".join(failure.get("last_lines") or []) or messages
    stopped = (result.report or {}).get("result") == "stopped_by_signal"
    if result.report is None or (stopped and error):
        printed = [line[len("ddprun: "):] if line.startswith("ddprun: ") else line for line in messages.splitlines()]
        unseen = f"ddprun exited with code {result.code}; its message is on standard error"
        return Failure(error or "\n".join(printed) or unseen, result, output)
    sentences = [str(result.report.get("what"))]
    lines = [line for line in str(failure.get("error") or "").splitlines() if line.strip()]
    if lines:
        sentences[0] += f": {lines[-1].strip()}"
    hints = [hint for hint in (failure.get("hint"), result.report.get("hint")) if hint]
    sentences += [f"hint: {hint}" for hint in dict.fromkeys(hints)]
    return Failure("\n".join(sentences), result, output)
