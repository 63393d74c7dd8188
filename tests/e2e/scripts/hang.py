"""Trainings in which rank 1 hangs, each in its own way, or in which none does but all are silent for long: hang.py HOW."""

import atexit
import ctypes
import datetime
import os
import pdb
import signal
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

how = sys.argv[1]
if how == "init" and os.environ["RANK"] == "1":
    time.sleep(1000)
dist.init_process_group("gloo")
rank = dist.get_rank()
culprit = rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
tensor = torch.ones(1000)


def begin() -> None:
    """Tells scripts/bench/hang when."""
    if "HANG_BEGAN" in os.environ:
        with open(os.environ["HANG_BEGAN"], "w") as file:
            file.write(str(time.time()))


def train(steps: int) -> None:
    for _ in range(steps):
        dist.all_reduce(tensor)


def bad_branch() -> None:
    time.sleep(1000)


def silent_work(seconds: float) -> None:
    """Rank 1 works in a way that prints nothing, and the others wait for it."""
    if rank != 1:
        return
    end = time.monotonic() + seconds
    if how == "compile":  # a child that computes
        subprocess.run([sys.executable, "-S", "-c", f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"],
                       check=True)
    while time.monotonic() < end:
        if how == "checkpoint":
            with tempfile.TemporaryFile() as file:
                file.write(b"x" * (4 << 20))
            time.sleep(0.2)
        elif how == "preprocess":
            sum(range(100_000))
        elif how == "progress":
            with open(os.environ["DDPRUN_PROGRESS_FILE"], "w"):
                time.sleep(0.5)


def use_groups() -> None:
    """In another order on rank 1."""
    groups = [dist.new_group([0, 1], group_desc=name) for name in ("one", "two")]
    for group in reversed(groups) if culprit else groups:
        dist.all_reduce(tensor, group=group)


def wait_for_a_thread() -> None:
    thread = threading.Thread(target=bad_branch, name="loader", daemon=True)
    thread.start()
    thread.join()


def take_locks() -> None:
    """Each of two threads holds the lock that the other waits for."""
    locks, both = [threading.Lock(), threading.Lock()], threading.Barrier(2)

    def take(first: int) -> None:
        with locks[first]:
            both.wait()
            with locks[1 - first]:
                pass

    threading.Thread(target=take, args=(1,), name="other", daemon=True).start()
    take(0)


def others_wait() -> None:
    """In calls that torch's flight recorder does not show."""
    if how == "new group":
        dist.new_group([0, 1])
    elif how == "monitored barrier":
        dist.monitored_barrier(timeout=datetime.timedelta(hours=1))
    elif how == "store":
        store = dist.distributed_c10d._get_default_store()
        store.wait(["never"], datetime.timedelta(hours=1))


train(5)
if how in ("new group", "monitored barrier", "store"):
    bad_branch() if culprit else others_wait()
if how == "groups":
    use_groups()
if how in ("compile", "checkpoint", "preprocess", "progress"):
    silent_work(9)
if how in ("rhythm", "pause"):
    for _ in range(16):
        time.sleep(40)
        train(1)
if culprit and how != "finally":
    begin()
if how == "mismatch" and culprit:
    dist.broadcast(tensor, 0)
elif how in ("sleep", "rhythm") and culprit:
    bad_branch()
elif how == "pause" and culprit:
    time.sleep(350)
elif how == "thread" and culprit:
    wait_for_a_thread()
elif how == "locks" and culprit:
    take_locks()
elif how == "prompt" and culprit:
    pdb.Pdb(stdin=os.fdopen(os.pipe()[0]), stdout=sys.stdout).set_trace()
elif how == "stopped" and culprit:
    os.kill(os.getpid(), signal.SIGSTOP)
elif how == "interpreter held" and culprit:
    mutex = ctypes.create_string_buffer(64)
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)  # PyDLL does not release the interpreter's lock
elif how == "finally":
    try:
        train(1)
        if culprit:
            begin()
            raise ValueError("bad loss")
        train(1)
    finally:
        dist.barrier()
        dist.destroy_process_group()
elif how == "batch less" and culprit:
    os._exit(0)  # torch 2.13 may abort in sys.exit(), as a thread of gloo still holds the last tensor
elif how == "early" and culprit:
    if os.fork() == 0:  # what it leaves behind holds its connections open, as NCCL's stay silent
        bad_branch()
    os._exit(0)
elif how == "exit" and culprit:
    train(1)
    dist.destroy_process_group()
    atexit.register(threading.Event().wait)  # as a library's clean-up that never returns
    sys.exit(0)
train(1)
if rank == 0:
    print("trained", flush=True)
dist.destroy_process_group()  # torch 2.13 may abort at exit where that is left out
