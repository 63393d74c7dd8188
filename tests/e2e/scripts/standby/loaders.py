"""Data loaders of all three ways to start a process, in another folder than it was started in, as Hydra does."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from standby import ending  # noqa: E402


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for way in ("fork", "spawn", "forkserver"):
            loader = DataLoader(TensorDataset(torch.randn(64, 10)), batch_size=8, num_workers=2, multiprocessing_context=way)
            loss = ending.train(model, optimizer, (batch for (batch,) in loader))
    ending.end(loss)


if __name__ == "__main__":
    main()
