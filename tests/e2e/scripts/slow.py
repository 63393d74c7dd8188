"""A DDP training on gloo until FILE exists, in which rank N sleeps SECONDS in each step, with layers of WIDTH: slow.py FILE N SECONDS
[WIDTH]."""

import os
import sys
import time

import torch
import torch.distributed as dist

end, slow, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
width = int(sys.argv[4]) if len(sys.argv) > 4 else 128
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)]))


def load():
    if rank == slow:
        time.sleep(seconds)
    return torch.randn(16, width)


while True:
    model(load()).sum().backward()
    ended = torch.tensor([float(os.path.exists(end))])
    dist.all_reduce(ended)
    if ended.item() > 0:
        break
    time.sleep(0.01)
del model
dist.destroy_process_group()
