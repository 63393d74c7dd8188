"""Every worker sends to every other one, over gloo, and says by which interface and address."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
received = {}
for other in range(size):
    if other == rank:
        continue
    value = torch.zeros(1)
    sending = dist.isend(torch.tensor([float(rank)]), other)
    dist.recv(value, other)
    sending.wait()
    received[other] = int(value)
assert received == {other: other for other in range(size) if other != rank}, received
total = torch.tensor([float(rank)])
dist.all_reduce(total)
print(f"rank {rank} of {size}: sum {total.item():.0f} at {os.environ['MASTER_ADDR']} by "
      f"{os.environ.get('GLOO_SOCKET_IFNAME')} {os.environ.get('NCCL_SOCKET_IFNAME')}", flush=True)
dist.destroy_process_group()
