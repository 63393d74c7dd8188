"""One worker of scripts/bench/recovery: trains with DDP and gloo from the latest checkpoint on, and notes when.

recovery_worker.py FOLDER PAUSE: the folder is one for all hosts, the pause in seconds is that after each step; with BENCH_WAITS
it goes on after the first checkpoint when there is a file "go". Rank 0 saves checkpoints there; with BENCH_KEEPS=memory all ranks save
by ddprun.checkpoint. BENCH_STATE_MIB makes the state larger. Each step uses the same samples whatever the number of workers is, so that all trainings end with the same loss but for rounding.
"""

import time

FIRST_LINE = time.monotonic_ns()  # the interpreter's start is before it

import json  # noqa: E402: what comes after the script's first line is part of what is timed
import os  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

FOLDER = Path(sys.argv[1])
STEPS = 40
STEPS_TO_CHECKPOINT = 5
BATCH = 12  # of all workers together; one, two, three and four of them get equal parts
FEATURES = 16


def leave(name: str, record: object) -> None:
    """Others see the whole of it or nothing."""
    new = FOLDER / f"new.{os.getpid()}"
    new.write_text(json.dumps(record))
    new.rename(FOLDER / name)


leave(f"began.{os.getpid()}", {"at": FIRST_LINE, "host": os.uname().nodename, "pid": os.getpid()})

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.nn  # noqa: E402  torch 2.13: if first imported later, it holds the process group for ever
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

checkpoint = None
if os.environ.get("BENCH_KEEPS") == "memory":
    from ddprun import checkpoint


class Training:
    def __init__(self):
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).double()
        self.optimizer = torch.optim.SGD(self.layers.parameters(), lr=0.05, momentum=0.9)
        self.next_step = 0
        self.more = torch.zeros(int(os.environ.get("BENCH_STATE_MIB", "0")) << 18)
        if checkpoint:
            self.next_step = checkpoint.load(self.state()) or 0
        elif (FOLDER / "checkpoint").exists():
            saved = torch.load(FOLDER / "checkpoint")
            self.layers.load_state_dict(saved["layers"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.more.copy_(saved["more"])
            self.next_step = saved["next_step"]
        self.model = DistributedDataParallel(self.layers)

    def state(self) -> dict:
        return {"layers": self.layers, "optimizer": self.optimizer, "more": self.more}

    def save(self) -> None:
        new = FOLDER / f"checkpoint.{os.getpid()}"
        if checkpoint:
            if not checkpoint.save(self.next_step, self.state()):
                return
            new.touch()
        elif dist.get_rank() == 0:
            torch.save({"layers": self.layers.state_dict(), "optimizer": self.optimizer.state_dict(), "more": self.more,
                        "next_step": self.next_step}, new)
        else:
            return
        new.rename(FOLDER / "checkpoint")

    def step(self) -> None:
        samples, targets = batch(self.next_step)
        mine = slice(dist.get_rank(), BATCH, dist.get_world_size())
        self.optimizer.zero_grad()
        # The mean of equal parts' means, which DDP takes of the gradients, is that of the whole batch.
        torch.nn.functional.mse_loss(self.model(samples[mine]), targets[mine]).backward()
        self.optimizer.step()
        self.next_step += 1

    def loss(self) -> float:
        samples, targets = batch(STEPS)
        return torch.nn.functional.mse_loss(self.layers(samples), targets).item()


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    samples = torch.randn(BATCH, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    return samples, samples.sum(1, keepdim=True).sin()


def name_of_attempt() -> int:
    """The same in all workers of an attempt, and another one in the next. Launchers' own numbers are not: torchrun's
    differ from host to host."""
    name = torch.tensor([FIRST_LINE])
    dist.broadcast(name, 0)
    return int(name.item())


def main() -> None:
    dist.init_process_group("gloo")
    attempt = name_of_attempt()
    training = Training()
    resumed = training.next_step
    while training.next_step < STEPS:
        training.step()
        if training.next_step == resumed + 1:
            leave(f"trained.{os.getpid()}", {"at": time.monotonic_ns(), "began": FIRST_LINE, "attempt": attempt,
                                             "workers": dist.get_world_size(), "resumed": resumed})
        if training.next_step % STEPS_TO_CHECKPOINT == 0:
            training.save()
        while training.next_step == STEPS_TO_CHECKPOINT and os.environ.get("BENCH_WAITS") and not (FOLDER / "go").exists():
            time.sleep(0.02)
        time.sleep(float(sys.argv[2]))
    if dist.get_rank() == 0:
        leave("loss", training.loss())
    del training  # its model holds the process group too
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
