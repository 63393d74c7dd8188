"""Writes to facts.ATTEMPT.RANK what a script can see of its start, and fails: in the first attempt once it could be
started again by a standby interpreter."""

import builtins
import gc
import json
import locale
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings

import torch  # what is loaded is asked through it


def stream(each):
    return {name: repr(getattr(each, name)) for name in ("name", "mode", "encoding", "errors", "line_buffering", "write_through",
                                                         "newlines")} | {"terminal": each.isatty(), "number": each.fileno()}


def parents():
    frame, names = sys._getframe(), []
    while frame:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def facts():
    main = sys.modules["__main__"]
    return {
        "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "flags": str(sys.flags), "xoptions": sys._xoptions,
        "warnoptions": sys.warnoptions, "filters": [str(each) for each in warnings.filters], "file": main.__dict__.get("__file__"),
        "spec": main.__spec__ and [main.__spec__.name, main.__spec__.origin, main.__spec__.parent], "package": main.__package__, "loader": type(main.__loader__).__name__,
        "doc": main.__doc__, "same main": main.__dict__ is globals() or main.__name__, "builtins": builtins is sys.modules["builtins"],
        "folder": os.getcwd(), "executable": sys.executable, "prefix": sys.prefix, "meta_path": [str(type(each)) for each in sys.meta_path],
        "hooks": len(sys.path_hooks), "dont_write_bytecode": sys.dont_write_bytecode, "customised": "sitecustomize" in sys.modules,
        "users": "usercustomize" in sys.modules, "pid leads": (os.getpid() == os.getpgrp(), os.getpid() == os.getsid(0)),
        "cpus": sorted(os.sched_getaffinity(0)), "nice": os.nice(0), "policy": os.sched_getscheduler(0), "umask": os.umask(0o22),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
        "signals": {number: str(signal.getsignal(number)) for number in signal.valid_signals()}, "mask": len(signal.pthread_sigmask(0, [])),
        "stdin": stream(sys.stdin), "stdout": stream(sys.stdout), "stderr": stream(sys.stderr), "locale": locale.setlocale(locale.LC_ALL),
        "descriptors": [name for name in sorted(os.listdir("/proc/self/fd"), key=int) if int(name) < 3], "gc": [gc.isenabled(), gc.get_threshold()],
        "recursion": sys.getrecursionlimit(), "threads": [each.name for each in threading.enumerate()], "parents": parents(),
        "threads of torch": torch.get_num_threads(), "oom": open("/proc/self/oom_score_adj").read(), "command": open("/proc/self/cmdline").read(), "environment": dict(os.environ),
        "children's": subprocess.run(["env", "-0"], capture_output=True, text=True).stdout.split("\0"), "hook": sys.gettrace() is None,
        "loaded": sorted(sys.modules),
    }


def wait_for_standby():
    """Until each worker has a standby interpreter, with FEW some have, or, with NONE, has lost one."""
    wanted = {"ready", "none"} if os.environ.get("FEW") else {"ready"}
    seen = set()
    while True:
        told = subprocess.run([f"/proc/{os.getppid()}/exe", "--status=json", str(os.getppid())], capture_output=True, text=True).stdout
        workers = [worker for job in json.loads(told or "[]") for node in job["nodes"] for worker in node["workers"]]
        states = {worker.get("standby") for worker in workers}
        if states == wanted or (os.environ.get("NONE") and seen == {"importing"} and states == {"none"}):
            return
        seen |= states - {"none"}
        time.sleep(0.2)


def write_facts():
    attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
    with open(os.path.join(os.environ.get("FACTS", "."), f"facts.{attempt}.{rank}"), "w") as file:
        json.dump(facts(), file)
    if attempt == "0":
        wait_for_standby()


write_facts()
raise ValueError("as it should")
