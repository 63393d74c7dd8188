"""Trains and keeps checkpoints: checkpointed.py KIND STEPS OUTPUT [EVENT].

KIND is ddp, fsdp (both: a part for each rank) or dcp (fsdp by torch.distributed.checkpoint). A checkpoint after every second step.
Each rank writes a line for each step to OUTPUT.RANK: "STEP LOSS", and first of all "from STEP DIGEST", with the digest of the whole state.
EVENT die-in-N: rank 1 is killed while it saves step N. NODES: a folder with one for each two ranks, with a socket: as ddprun has them.
"""

import gc
import hashlib
import os
import random
import signal
import sys
from pathlib import Path

if "NODES" in os.environ:
    node = Path(os.environ["NODES"], str(int(os.environ["RANK"]) // 2))
    os.environ |= {"DDPRUN_CHECKPOINTS": str(node), "DDPRUN_CHECKPOINT_SOCKET": f"{node}.socket"}

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from ddprun import checkpoint
from ddprun.checkpoint import _place

KIND, STEPS, OUTPUT = sys.argv[1], int(sys.argv[2]), sys.argv[3]
EVENT = sys.argv[4] if len(sys.argv) > 4 else ""


def make():
    torch.manual_seed(7)
    layers = torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.Dropout(0.1), torch.nn.Tanh(), torch.nn.Linear(65, 7))
    if KIND == "ddp":
        return DistributedDataParallel(layers)
    for layer in (layers[0], layers[3]):
        fully_shard(layer)
    return fully_shard(layers)


def digest(model, optimizer):
    """The same for each number of ranks."""
    total = hashlib.sha256()
    states = get_state_dict(model, optimizer)
    for name, tensor in sorted((f"{name} {key}", value) for name, group in [*states[1]["state"].items(), ("model", states[0])]
                               for key, value in group.items()):
        total.update(name.encode())
        total.update((tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).numpy().tobytes())
    return total.hexdigest()[:16]


def load(model, optimizer, state):
    if KIND != "dcp":
        return checkpoint.load(state)
    reader = checkpoint.Reader()
    if reader.step is not None:
        states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
        dcp.load(states, storage_reader=reader)
        set_state_dict(model, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"])
    return reader.step


def save(step, model, optimizer, state):
    if KIND != "dcp":
        return checkpoint.save(step, state)
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    if step % 4 == 0:
        return dcp.async_save(states, storage_writer=checkpoint.Writer(step)).result()
    return dcp.save(states, storage_writer=checkpoint.Writer(step))


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(rank)
    state = {"model": model, "optimizer": optimizer, "rng": checkpoint.rng_state()}
    step = load(model, optimizer, state)
    with open(f"{OUTPUT}.{rank}", "w", buffering=1) as output:
        print("from", step, digest(model, optimizer) if step else "nothing", file=output)
        for step in range((step or 0) + 1, STEPS + 1):
            samples = torch.rand(8, 33) + random.random() + numpy.random.random()
            if KIND == "dcp":  # which saves no states of generators here
                samples = torch.rand(8, 33, generator=torch.Generator().manual_seed(100 * step + rank))
                torch.manual_seed(step)
            loss = model(samples).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(step, loss.item().hex(), file=output)
            if EVENT == f"die-in-{step}" and rank == 1:
                _place.Part.finish = die
            if step % 2 == 0:
                saved = save(step, model, optimizer, state)
                print("saved" if saved else "not saved", step, digest(model, optimizer), file=output)
    del model, state
    gc.collect()  # a model that holds the last reference to its process group can wait for ever for gloo's thread
    dist.destroy_process_group()


main()
