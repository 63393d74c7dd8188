"""A trainer as torchrun's users write it: everything from init_process_group() and LOCAL_RANK."""

import os

import torch
import torch.distributed as dist
import torch.distributed.nn  # torch 2.13: if first imported later, it holds the process group for ever
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(backend="gloo")
local_rank = int(os.environ["LOCAL_RANK"])
model = DistributedDataParallel(torch.nn.Linear(4, 4))
model(torch.ones(2, 4)).sum().backward()
norm = sum(parameter.grad.norm() for parameter in model.parameters())
print(f"rank {dist.get_rank()} local {local_rank}: gradient {norm:.3f}", flush=True)
del model  # it holds the process group too
dist.destroy_process_group()
