"""All-reduce over init_method="tcp://", as many guides write it, and once more after a pause."""

import os
import time

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
for pause in (0.0, 1.5):  # longer than ddprun listens to a peer that says nothing
    time.sleep(pause)
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
dist.distributed_c10d._get_default_store().delete_key(f"nothing-of-{rank}")
print(f"rank {rank} of {size}: sum {total.item():.0f} {where}", flush=True)
dist.destroy_process_group()
