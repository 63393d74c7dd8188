"""One worker of scripts/bench/training: a small CNN on synthetic images. Rank 0 leaves the times of the slowest worker.

training_worker.py SECONDS RESULT DEVICE; BENCH_BEGUN is when the launcher was started. Ranks come from torchrun's
variables, else from Slurm's.
"""

import time

FIRST_LINE = time.time()

import json  # noqa: E402: what comes after the script's first line is part of what is timed
import os  # noqa: E402
import sys  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.nn  # noqa: E402  torch 2.13: if first imported later, it holds the process group for ever
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from binding_worker import steps_a_second, take_place  # noqa: E402

BATCH = 16


def make_step(device: torch.device):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(2048, 512), torch.nn.ReLU(),
        torch.nn.Linear(512, 10)).to(device)
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(BATCH, 3, 48, 48, device=device)
    labels = torch.randint(0, 10, (BATCH,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return step


def train(seconds: float, device: torch.device) -> dict[str, float]:
    step = make_step(device)
    dist.barrier()
    step()
    reached = time.time()
    slowest = torch.tensor([FIRST_LINE - float(os.environ["BENCH_BEGUN"]), reached - FIRST_LINE], device=device,
                           dtype=torch.float32)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    startup, first_step = slowest.tolist()
    return {"startup": startup, "first step": first_step, "steps/s": steps_a_second(step, seconds, device)}


def main() -> None:
    seconds, result, kind = float(sys.argv[1]), sys.argv[2], sys.argv[3]
    take_place()
    device = torch.device(kind, int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    figures = train(seconds, device)
    if dist.get_rank() == 0:
        with open(result, "w", encoding="utf-8") as file:
            json.dump({**figures, "threads": torch.get_num_threads(), "cpus": len(os.sched_getaffinity(0))}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
