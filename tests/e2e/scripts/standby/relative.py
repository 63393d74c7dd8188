"""Run as -m standby.relative: it imports what is beside it by a relative path."""

import torch
import torch.distributed as dist

from . import ending

dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 10))
ending.end(ending.train(model, torch.optim.AdamW(model.parameters()), [torch.randn(4, 10) for _ in range(20)]))
