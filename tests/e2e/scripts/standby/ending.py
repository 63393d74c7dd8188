"""How the trainings here end: each attempt but the last fails in a step that is drawn at random, with STANDBY once all workers
have standby interpreters; the last one, that of number RESTARTS, prints its loss."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import torch

ATTEMPT, RESTARTS = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RESTARTS"])
steps = 0


def note_step() -> None:
    """One of the ranks does not return from one of the first 8."""
    global steps
    steps += 1
    drawn = random.Random(f"{os.environ['SEED']} {ATTEMPT}")  # Python's own random numbers are the training's
    step, rank, killed = drawn.randint(1, 8), drawn.randrange(int(os.environ["WORLD_SIZE"])), drawn.random() < 0.5
    if ATTEMPT == RESTARTS or steps != step or int(os.environ["RANK"]) != rank:
        return
    while os.environ.get("STANDBY") and not all_stand_by():
        time.sleep(0.3)
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


def all_stand_by() -> bool:
    told = subprocess.run([f"/proc/{os.getppid()}/exe", "--status=json", str(os.getppid())], capture_output=True, text=True).stdout
    workers = [worker for job in json.loads(told or "[]") for node in job["nodes"] for worker in node["workers"]]
    return bool(workers) and all(worker.get("standby") == "ready" for worker in workers)


def end(loss: float) -> None:
    if os.environ["RANK"] == "0":
        print(f"loss {loss!r}", flush=True)
    torch.distributed.barrier()
    os._exit(0)  # torch 2.13 may abort when Python exits while a thread of gloo holds tensors


def train(model, optimizer, batches, backward=None) -> float:
    loss = None
    for batch in batches:
        note_step()
        loss = model(batch).pow(2).sum()
        backward(loss) if backward else loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


if __name__ == "__main__":
    sys.exit("this is no training")
