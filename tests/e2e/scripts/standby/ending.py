"""How the trainings here end: the first attempt fails once all workers have standby interpreters, the second prints."""

import json
import os
import subprocess
import sys
import time

import torch


def end(loss: float) -> None:
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0" or os.environ.get("UNDISTURBED"):
        if os.environ["RANK"] == "0":
            print(f"loss {loss!r}", flush=True)
        torch.distributed.barrier()
        os._exit(0)  # torch 2.13 may abort when Python exits while a thread of gloo holds tensors
    while True:
        told = subprocess.run([f"/proc/{os.getppid()}/exe", "--status=json", str(os.getppid())], capture_output=True, text=True).stdout
        workers = [worker for job in json.loads(told or "[]") for node in job["nodes"] for worker in node["workers"]]
        if workers and all(worker.get("standby") == "ready" for worker in workers):
            break
        time.sleep(0.3)
    if os.environ["RANK"] == "0":
        os._exit(3)
    time.sleep(600)


def train(model, optimizer, batches, backward=None) -> float:
    loss = None
    for batch in batches:
        loss = model(batch).pow(2).sum()
        backward(loss) if backward else loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


if __name__ == "__main__":
    sys.exit("this is no training")
