"""train_held.py FOLDER: trains with DDP from the latest checkpoint on, and is held until FOLDER/go is there.

Attempt N is held before step 3 * (N + 1): each worker leaves FOLDER/held.N.RANK with its host and the step at which the
attempt began. All samples of a step are divided among the workers, so that the number of these changes the loss by
rounding only. Rank 0 leaves FOLDER/loss at the end. The folder is one for all hosts.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # torch 2.13: if first imported later, it holds the process group for ever

FOLDER = Path(sys.argv[1])
STEPS = 12
BATCH = 12


def leave(name: str, record: object) -> None:
    """Others see the whole of it or nothing."""
    new = FOLDER / f"new.{os.uname().nodename}.{os.getpid()}"
    new.write_text(json.dumps(record))
    new.rename(FOLDER / name)


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    samples = torch.randn(BATCH, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    return samples, samples.sum(1, keepdim=True).sin()


def main() -> None:
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if (FOLDER / "checkpoint").exists():
        saved = torch.load(FOLDER / "checkpoint")
        layers.load_state_dict(saved["layers"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    model = torch.nn.parallel.DistributedDataParallel(layers)
    for step in range(first, STEPS):
        if step == 3 * (attempt + 1):
            dist.barrier()
            leave(f"held.{attempt}.{rank}", {"host": os.uname().nodename, "first": first})
            while not (FOLDER / "go").exists():
                time.sleep(0.05)
        samples, targets = batch(step)
        mine = slice(rank, BATCH, dist.get_world_size())
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(samples[mine]), targets[mine]).backward()
        optimizer.step()
        if rank == 0:
            torch.save({"layers": layers.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1},
                       FOLDER / "checkpoint.new")
            (FOLDER / "checkpoint.new").rename(FOLDER / "checkpoint")
    if rank == 0:
        samples, targets = batch(STEPS)
        leave("loss", torch.nn.functional.mse_loss(layers(samples), targets).item())
    del model  # it holds the process group too
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
