"""A small DistributedDataParallel training on the CPU: fits a line, prints the loss falling.

Nothing in it is about the launcher: it reads what every launcher sets (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
MASTER_PORT).
"""

import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.distributed.nn  # torch 2.13: if first imported later, it holds the process group for ever
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    target = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    for step in range(steps + 1):
        inputs = torch.randn(64, 4)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs @ target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step:3d}  loss {loss.item():.6f}", flush=True)

    show_world()
    del model  # it holds the process group too, and torch may abort at exit where that was not closed
    dist.destroy_process_group()


def show_world() -> None:
    """One line for each rank, in order, from rank 0."""
    place = (f"on {socket.gethostname()}, local rank {os.environ['LOCAL_RANK']}, "
             f"{torch.get_num_threads()} threads")
    letters = torch.tensor(list(place.encode()[:128].ljust(128)), dtype=torch.uint8)
    all_letters = [torch.empty_like(letters) for _ in range(dist.get_world_size())]
    dist.all_gather(all_letters, letters)
    if dist.get_rank() == 0:
        for rank, each in enumerate(all_letters):
            print(f"rank {rank} of {len(all_letters)} {bytes(each.tolist()).decode().strip()}", flush=True)


if __name__ == "__main__":
    main()
