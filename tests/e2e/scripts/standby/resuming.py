"""Goes on from the checkpoint of its latest step, FILE."""

import os
import sys

import ending
import torch
import torch.distributed as dist

STEPS = 200
dist.init_process_group("gloo")
torch.manual_seed(1)
layers = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Tanh(), torch.nn.Linear(10, 10))
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(model.parameters())
saved = {"step": 0}
if os.path.exists(sys.argv[1]):
    saved = torch.load(sys.argv[1])
    layers.load_state_dict(saved["layers"])
    optimizer.load_state_dict(saved["optimizer"])
loss = 0.0
for step in range(saved["step"], STEPS):
    batch = torch.randn(4, 10, generator=torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank()))
    loss = ending.train(model, optimizer, [batch])
    if dist.get_rank() == 0:
        torch.save({"step": step + 1, "layers": layers.state_dict(), "optimizer": optimizer.state_dict()}, sys.argv[1] + ".new")
        os.rename(sys.argv[1] + ".new", sys.argv[1])
    dist.barrier()
ending.end(loss)
