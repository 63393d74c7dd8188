"""One worker of scripts/bench/binding: copies memory, trains a small network, and rank 0 prints what it took.

Ranks come from torchrun's variables, else from Slurm's.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn  # torch 2.13: if first imported later, it holds the process group for ever
from torch.nn.parallel import DistributedDataParallel


def take_place() -> None:
    for name, slurm in (("RANK", "SLURM_PROCID"), ("LOCAL_RANK", "SLURM_LOCALID"), ("WORLD_SIZE", "SLURM_NTASKS")):
        os.environ.setdefault(name, os.environ.get(slurm, "0" if name != "WORLD_SIZE" else "1"))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29555")


def copy_memory(seconds: float) -> float:
    """GB/s read and written by this worker while all others do the same."""
    source = torch.ones(16 << 20)  # 64 MiB: larger than a core's share of the caches
    target = torch.empty_like(source)
    target.copy_(source)
    dist.barrier()
    begun, copies = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        target.copy_(source)
        copies += 1
    return copies * 2 * source.numel() * 4 / (time.perf_counter() - begun) / 1e9


def steps_a_second(step, seconds: float, device: torch.device) -> float:
    for _ in range(3):
        step()
    dist.barrier()
    begun, steps, over = time.perf_counter(), 0, torch.zeros(1, device=device)
    while over.item() == 0:
        for _ in range(5):
            step()
        steps += 5
        over.fill_(time.perf_counter() - begun > seconds)
        dist.broadcast(over, 0)  # all stop after the same step
    return steps / (time.perf_counter() - begun)


def train(seconds: float) -> float:
    """Steps a second of data-parallel training."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(2048, 512), torch.nn.ReLU(),
        torch.nn.Linear(512, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(16, 3, 48, 48), torch.randint(0, 10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return steps_a_second(step, seconds, torch.device("cpu"))


def main() -> None:
    seconds, result = float(sys.argv[1]), sys.argv[2]
    take_place()
    dist.init_process_group("gloo")
    copied = torch.tensor(copy_memory(seconds))
    dist.all_reduce(copied)
    steps = train(seconds)
    if dist.get_rank() == 0:
        with open(result, "w", encoding="utf-8") as file:
            json.dump({"GB/s": copied.item(), "steps/s": steps, "threads": torch.get_num_threads(),
                       "cpus": len(os.sched_getaffinity(0))}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
