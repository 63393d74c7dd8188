"""Trains on samples of the server and batches of the loader, and goes on from its last step: train.py FOLDER STEPS PORT."""

import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request

import torch
import torch.distributed as dist

folder, steps, port = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


def servers() -> list[str]:
    """Addresses of the servers that are ready: another node's after one is lost."""
    programs = json.loads(pathlib.Path(os.environ["DDPRUN_PROGRAMS_FILE"]).read_text())
    return next(each["ready"] for each in programs if each["name"] == "server")


def sample(step: int) -> float:
    """Of a server, which may be starting again."""
    while True:
        for server in servers():
            try:
                url = f"http://{server}:{port}/?step={step}&rank={dist.get_rank()}"
                return float(urllib.request.urlopen(url, timeout=5).read())
            except (urllib.error.URLError, OSError):
                pass
        time.sleep(0.1)


def batch(step: int) -> float:
    """Of the loader on this node."""
    file = folder / "batches" / os.uname().nodename / f"batch.{step}"
    while not file.exists():
        time.sleep(0.01)
    value = float(file.read_text())
    file.with_name(f"done.{step}").touch()
    return value


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
saved, first = folder / "state.pt", 0
if saved.exists():
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    first = state["step"] + 1
for step in range(first, steps):
    inputs = torch.tensor([sample(step), batch(step)])
    loss = (model(inputs) - inputs.sum()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "step": step}, folder / "state.new")
        (folder / "state.new").rename(saved)
        print(f"step {step} loss {total.item():.9f}", flush=True)
    time.sleep(float(os.environ.get("STEP_TIME", "0")))
del model, optimizer, loss
dist.destroy_process_group()
