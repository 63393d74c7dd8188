"""A training that survives a failed worker: it saves a checkpoint and resumes from it after a restart.

Run it with `ddprun --max-restarts 3`. To see a restart, --fail-at 12 makes the last rank fail once at that step; with
`ddprun --spares 1` --lose-at 12 makes its node be lost, as far as ddprun can see.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # torch 2.13: if first imported later, it holds the process group for ever
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="on a file system that all nodes see")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--fail-at", type=int, default=-1, help="the step at which the first attempt fails")
    parser.add_argument("--lose-at", type=int, default=-1, help="the step at which its ddprun is killed")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    module = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    first = load(arguments.checkpoint, module, optimizer)
    model = DistributedDataParallel(module)
    if rank == 0:
        print(f"attempt {attempt} begins at step {first}", flush=True)

    target = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    loss = torch.zeros(())
    for step in range(first, arguments.steps):
        if (attempt, rank, step) == (0, size - 1, arguments.fail_at):
            print("this rank fails, as asked", file=sys.stderr, flush=True)
            os._exit(1)  # as a crash does, without torch's own leaving
        if (attempt, rank, step) == (0, size - 1, arguments.lose_at):
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()  # until this process is killed too
        # Numbers that follow from step and rank: a resumed training sees the batches it would have seen.
        generator = torch.Generator().manual_seed(step * size + rank)
        inputs = torch.randn(64, 4, generator=generator)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs @ target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % arguments.every == 0:
            save(arguments.checkpoint, module, optimizer, step + 1)
    if rank == 0:
        print(f"attempt {attempt} ends at step {arguments.steps}, loss {loss.item():.6f}", flush=True)
    del model  # it holds the process group too, and torch may abort at exit where that was not closed
    dist.destroy_process_group()


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
