"""A script written for plain srun: it takes its rank from Slurm and only the address from outside."""

import os

import torch
import torch.distributed as dist

rank = int(os.environ["SLURM_PROCID"])
world_size = int(os.environ["SLURM_NTASKS"])
local_rank = int(os.environ["SLURM_LOCALID"])
dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=world_size)
total = torch.tensor([float(rank)])
dist.all_reduce(total)
print(f"rank {rank} local {local_rank}: sum {total.item():.0f}", flush=True)
dist.destroy_process_group()
