"""train_ddp.py CHECKPOINT [FAILURES]: trains a small model, saves after every step, resumes from what is saved.

Rank 1 fails in the middle of each of the first FAILURES attempts. Rank 0 ends with the losses of all steps, those
of earlier attempts included, as one line of JSON.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn  # torch 2.13: if first imported later, it holds the process group for ever

STEPS = 6

checkpoint = sys.argv[1]
failures = int(sys.argv[2]) if len(sys.argv) > 2 else 0
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(7)
model = torch.nn.Linear(8, 1)
trained = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
losses: list[float] = []
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    losses = saved["losses"]

for step in range(len(losses), STEPS):
    if attempt < failures and rank == 1 and step == 2 * (attempt + 1):
        sys.exit(5)
    generator = torch.Generator().manual_seed(100 * step + rank)
    batch = torch.randn(16, 8, generator=generator)
    loss = (trained(batch) - batch.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item() / dist.get_world_size())
    if rank == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
        torch.save(state, checkpoint + ".part")
        os.replace(checkpoint + ".part", checkpoint)
    dist.barrier()

print(json.dumps({"rank": rank, "attempt": attempt, "losses": losses if rank == 0 else None}), flush=True)
del trained  # it holds the process group too
dist.destroy_process_group()
