"""Loaded by torch's import in the ranks of a ddprun job: shows from outside where a rank is. --no-inspect leaves it out.

torch calls start(), the entry point of group torch.backends. $DDPRUN_INSPECT is the beginning of these paths:
  .socket  torch's worker server, HTTP; POST /handler/ddprun is answered by ddprun_answer.py beside this file
  .ending  the same socket once the script is over: what needs the interpreter must not be asked any more
  .record  the last collective of a rank that an exception has ended
  .stacks  SIGRTMIN+3 appends the stacks of all threads, also where the interpreter is locked
  .crash   SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT append them, unless the script has faulthandler do that elsewhere
Nothing here raises: the script runs as it would without.
"""

import atexit
import ctypes
import faulthandler
import functools
import os
import signal
import sys
import threading


def start():
    prefix = os.environ.get("DDPRUN_INSPECT")
    # Of a rank the main process alone, which leads its process group: a data loader inherits the variable.
    if not prefix or os.getpid() != os.getpgrp():
        return
    try:
        if is_taken(prefix):
            return
    except OSError:
        return
    for begin in (start_stacks, start_crash, start_server, use_local_store):
        try:
            begin(prefix)
        except Exception:
            pass


def is_taken(prefix):
    """By a process that lives: one that called exec left a socket that nobody listens to."""
    path = prefix + ".socket"
    if not os.path.lexists(path):
        return os.path.lexists(prefix + ".ending")
    import socket

    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0.1)
        try:
            client.connect(path)
            return True
        except ConnectionRefusedError:
            os.unlink(path)
            return False


def start_stacks(prefix):
    number = signal.SIGRTMIN + 3
    # Neither caught nor ignored: what C code set, signal.getsignal() does not know.
    lines = read("/proc/self/status").splitlines()
    if any(int(line[7:], 16) >> (number - 1) & 1 for line in lines if line.startswith((b"SigCgt", b"SigIgn"))):
        return
    file = os.open(prefix + ".stacks", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)  # closed by exec
    faulthandler.register(number, file=file, all_threads=True, chain=False)


def start_crash(prefix):
    if not faulthandler.is_enabled():  # PYTHONFAULTHANDLER, -X faulthandler; who enables it later has its file
        faulthandler.enable(os.open(prefix + ".crash", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), all_threads=True)


def read(path):
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 1 << 16)
    finally:
        os.close(file)


def start_server(prefix):
    import torch._C._distributed_c10d as c10d

    if not hasattr(c10d, "_WorkerServer"):
        return
    library = ctypes.CDLL(os.path.join(os.path.dirname(sys.modules["torch"].__file__), "lib", "libc10.so"))
    level = ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    before = level.value
    # Its threads take none of the script's signals. As numbers: signal.valid_signals() takes 0.1 ms.
    faults = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
    numbers = [number for number in range(1, signal.SIGRTMAX + 1) if not 31 < number < signal.SIGRTMIN and number not in faults]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        level.value = max(before, 2)  # errors alone: it says on standard error that it listens
        keep(c10d._WorkerServer(prefix + ".socket"))
    finally:
        level.value = before
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    keep_fork_silent()
    sampling = threading.Lock()
    answer_requests(c10d, follow_end(prefix, sampling), sampling)


def keep_fork_silent():
    """Python 3.12 and later warn a script that forks beside other threads, and count the server's."""
    if sys.version_info >= (3, 12):
        import warnings

        warnings.filterwarnings("ignore", r"This process \(pid=\d+\) is multi-threaded, use of", DeprecationWarning)


def use_local_store(_prefix):
    """Stores at MASTER_ADDR and MASTER_PORT are reached through the relay of this host, if there is one that answers."""
    place = os.environ.get("DDPRUN_STORE", "").rpartition(":")
    if not place[0]:
        return
    import torch._C._distributed_c10d as c10d

    connect = c10d.TCPStore.__init__

    def start(self, host_name, port, world_size=None, is_master=False, *rest, **named):
        if not is_master and (str(host_name), str(port)) == (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")):
            if answers(place):
                host_name, port = place[0], int(place[2])
        connect(self, host_name, port, world_size, is_master, *rest, **named)

    functools.update_wrapper(start, connect)
    c10d.TCPStore.__init__ = start


def answers(place):
    import socket

    try:
        socket.create_connection((place[0], int(place[2])), 3).close()
        return True
    except OSError:
        return False


def keep(thing, times=1):
    """Beyond the interpreter's end, where the server would be waited for."""
    for _ in range(times):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def follow_end(prefix, sampling):
    ended, owner = [], os.getpid()

    def note_end():
        ended.append(True)
        if os.getpid() == owner:
            sampling.acquire(timeout=1)  # and keeps it: a profile would need the interpreter

    def close():
        try:
            if os.getpid() == owner:
                keep_last_collective(prefix)
                os.rename(prefix + ".socket", prefix + ".ending")
        except OSError:
            pass

    getattr(threading, "_register_atexit", atexit.register)(note_end)  # before it waits for threads
    atexit.register(close)
    return ended


def keep_last_collective(prefix):
    """Of a script that an exception has ended: the report names it, and nobody can be asked any more."""
    json, c10d = sys.modules.get("json"), sys.modules.get("torch._C._distributed_c10d")
    if getattr(sys, "last_value", None) is None or not json or not hasattr(c10d, "_dump_fr_trace_json"):
        return
    try:
        entries = json.loads(c10d._dump_fr_trace_json(True, False)).get("entries")
        if entries:
            newest = max(entries, key=lambda entry: entry["record_id"])
            with open(prefix + ".record", "w") as file:
                json.dump({"entries": [newest]}, file)
    except Exception:
        pass


def answer_requests(c10d, ended, sampling):
    if not hasattr(c10d, "_register_handler"):
        return
    text = read(os.path.join(os.path.dirname(__file__), "ddprun_answer.py"))
    names = {}

    def answer(request, response):
        if not names:
            exec(compile(text, "ddprun_answer.py", "exec"), names)
        names["answer"](request, response, ended, sampling)

    keep(answer, 64)  # the server's threads count references to it without the interpreter's lock
    c10d._register_handler("ddprun", answer)
