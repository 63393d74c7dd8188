"""A trainer as torchrun's users write it: everything from init_process_group() and LOCAL_RANK."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(backend="gloo")
local_rank = int(os.environ["LOCAL_RANK"])
model = DistributedDataParallel(torch.nn.Linear(4, 4))
model(torch.ones(2, 4)).sum().backward()
norm = sum(parameter.grad.norm() for parameter in model.parameters())
print(f"rank {dist.get_rank()} local {local_rank}: gradient {norm:.3f}", flush=True)
for _ in range(2):  # torch 2.13 aborts at exit if a thread of gloo still holds tensors then
    dist.barrier()
dist.destroy_process_group()
