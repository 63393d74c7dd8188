"""A worker of scripts/bench/checkpoint: checkpoint_worker.py WAY MIB SAVES RESULT FOLDER.

Trains with DDP, gloo and AdamW and saves after each step, fails after the last, and in the next attempt loads. Rank 0 notes the times in ms
in RESULT.saves and RESULT.loads. WAY is module (ddprun.checkpoint), torch.save (by rank 0, as is usual) or dcp (torch.distributed.checkpoint).
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

from ddprun import checkpoint

WAY, MEBIBYTES, SAVES, RESULT, FOLDER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5])


class Training:
    def __init__(self):
        side = int((MEBIBYTES / 3 * (1 << 18)) ** 0.5)  # AdamW has twice the size of the model
        self.model = DistributedDataParallel(torch.nn.Linear(side, side, bias=False))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.samples = torch.randn(8, side)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.samples).square().mean().backward()
        self.optimizer.step()

    def save(self, step: int) -> None:
        if WAY == "module":
            if not checkpoint.save(step, {"model": self.model, "optimizer": self.optimizer}):
                sys.exit("the checkpoint does not fit")
        elif WAY == "dcp":
            model, optimizer = get_state_dict(self.model, self.optimizer)
            dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=FOLDER / f"step-{step}")
        elif dist.get_rank() == 0:
            with open(FOLDER / "new", "wb") as file:
                torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
                file.flush()
                os.fsync(file.fileno())
            (FOLDER / "new").rename(FOLDER / "last.pt")

    def load(self) -> None:
        if WAY == "module":
            if checkpoint.load({"model": self.model, "optimizer": self.optimizer}) != SAVES:
                sys.exit("the last checkpoint is not there")
        elif WAY == "dcp":
            model, optimizer = get_state_dict(self.model, self.optimizer)
            dcp.load({"model": model, "optimizer": optimizer}, checkpoint_id=FOLDER / f"step-{SAVES}")
            set_state_dict(self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer)
        else:
            saved = torch.load(FOLDER / "last.pt", map_location="cpu")
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])


def milliseconds(call, *arguments) -> float:
    dist.barrier()
    begun = time.perf_counter()
    call(*arguments)
    return (time.perf_counter() - begun) * 1000


def copy_memory(data: torch.Tensor, name: str) -> None:
    """The fastest way into /dev/shm: write() is faster than copying into a mapped new file."""
    left = memoryview((ctypes.c_char * data.nbytes).from_address(data.data_ptr()))
    with open(name, "wb", buffering=0) as file:
        while left:
            left = left[file.write(left):]


def main() -> None:
    dist.init_process_group("gloo")
    training = Training()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        loads = [milliseconds(training.load)]
        dist.barrier()
        if dist.get_rank() == 0:
            Path(f"{RESULT}.loads").write_text(json.dumps({"load": loads}))
        return
    data, name = torch.ones(MEBIBYTES << 18), f"/dev/shm/bench-{os.getpid()}"
    saves, copies = [], []
    for step in range(1, SAVES + 1):
        training.step()
        saves.append(milliseconds(training.save, step))
        copies.append(milliseconds(copy_memory, data, name))
        os.unlink(name)
    dist.barrier()
    if dist.get_rank() == 0:
        Path(f"{RESULT}.saves").write_text(json.dumps({"save": saves[1:], "memcpy": copies[1:]}))  # the first warms up
    dist.barrier()
    time.sleep(1)  # what is saved is also noticed
    os._exit(1)


main()
