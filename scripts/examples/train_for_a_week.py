"""A training of many jobs: it saves a checkpoint when it is warned of the end of its job, and the next one resumes from it.

Run it with `ddprun --signal-before-end USR1@300`. ddprun sends SIGUSR1 to the ranks alone, so that the processes that load
data live on while a checkpoint is saved.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # torch 2.13: if first imported later, it holds the process group for ever
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

warned = False


def note_warning(signum, frame) -> None:
    """As little as that: the handler may interrupt anything, the checkpoint is saved between two steps."""
    global warned
    warned = True


class Batches(Dataset):
    """Numbers that follow from step and rank: a resumed training sees the batches it would have seen."""

    def __init__(self, first: int, steps: int, rank: int, size: int) -> None:
        self.first, self.steps, self.rank, self.size = first, steps, rank, size

    def __len__(self) -> int:
        return self.steps - self.first

    def __getitem__(self, index: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed((self.first + index) * self.size + self.rank)
        return torch.randn(64, 4, generator=generator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="on a file system that all nodes see")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--code", type=int, default=0, help="the exit code of a job that is to be resumed")
    parser.add_argument("--pause", type=float, default=0, help="seconds that a step takes beside its computation")
    arguments = parser.parse_args()

    signal.signal(signal.SIGUSR1, note_warning)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    module = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    first = load(arguments.checkpoint, module, optimizer)
    model = DistributedDataParallel(module)
    if rank == 0:
        print(f"this job begins at step {first}", flush=True)

    target = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    step, stops = first, False
    loss = torch.zeros(())
    for inputs in DataLoader(Batches(first, arguments.steps, rank, size), batch_size=None, num_workers=1):
        loss = torch.nn.functional.mse_loss(model(inputs), inputs @ target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        time.sleep(arguments.pause)
        stops = any_is_warned()
        if stops:
            break
    if rank == 0:
        save(arguments.checkpoint, module, optimizer, step)
        print(f"this job ends at step {step}, loss {loss.item():.6f}{', to be resumed' if stops else ''}", flush=True)
    del model  # it holds the process group too, and torch may abort at exit where that was not closed
    dist.destroy_process_group()
    sys.exit(arguments.code if stops else 0)


def any_is_warned() -> bool:
    """The same answer on all ranks, so that they stop after the same step."""
    flag = torch.tensor(int(warned))
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag)


def load(path: Path, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The step to resume at; 0 without a checkpoint."""
    if not path.exists():
        return 0
    saved = torch.load(path, map_location="cpu")
    module.load_state_dict(saved["module"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]


def save(path: Path, module: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Whole or not at all: a worker may be killed in the middle of it."""
    part = path.with_suffix(".part")
    torch.save({"module": module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, part)
    part.replace(path)


if __name__ == "__main__":
    main()
