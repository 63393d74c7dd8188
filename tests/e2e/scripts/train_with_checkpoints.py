"""A training that resumes from ddprun.checkpoint; what it leaves ends as that of an undisturbed one, to the last bit.

train_with_checkpoints.py FOLDER PAUSE [KIND]: KIND is ddp, fsdp, or dcp, which is fsdp saved by torch.distributed.checkpoint. Each rank
leaves where it began, and rank 0 the hash of the model whenever it is saved and at the end.
"""

import hashlib
import json
import os
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import ddprun.checkpoint as checkpoint

FOLDER, PAUSE, KIND = Path(sys.argv[1]), float(sys.argv[2]), (sys.argv[3:] or ["ddp"])[0]
STEPS, BATCH, FEATURES, SAVED_EVERY = 40, 48, 16, 2  # a batch is divided by 1 to 4 ranks


def leave(name: str, value) -> None:
    temporary = FOLDER / f".{name}.{os.getpid()}"
    temporary.write_text(json.dumps(value))
    temporary.rename(FOLDER / name)


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(FEATURES, 64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))
    return layers.double()


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    samples = torch.randn(BATCH, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    return samples, samples.sum(1, keepdim=True).sin()


def hash_of(model: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        value = value.full_tensor() if hasattr(value, "full_tensor") else value
        digest.update(value.detach().numpy().tobytes())
    return digest.hexdigest()


def sharded(state: dict) -> dict:
    model, optimizer = get_state_dict(state["model"], state["optimizer"])
    return {"model": model, "optimizer": optimizer}


def load(state: dict) -> int | None:
    if KIND != "dcp":
        return checkpoint.load(state)
    reader = checkpoint.Reader()
    if reader.step is not None:
        loaded = sharded(state)
        dcp.load(loaded, storage_reader=reader)
        set_state_dict(state["model"], state["optimizer"], model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    return reader.step


def save(step: int, state: dict) -> bool:
    if KIND != "dcp":
        return checkpoint.save(step, state)
    dcp.save(sharded(state), storage_writer=checkpoint.Writer(step))
    return True


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = make_model()
    if KIND != "ddp":
        from torch.distributed.fsdp import fully_shard
        trained = fully_shard(model)
    else:
        trained = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=0.01)
    torch.manual_seed(rank)  # of the dropouts
    state = {"model": model, "optimizer": optimizer, "rng": checkpoint.rng_state()}
    step = load(state)
    loaded = hash_of(model)
    leave(f"began.{os.environ['TORCHELASTIC_RESTART_COUNT']}.{rank}",
          {"pid": os.getpid(), "host": socket.gethostname(), "step": step, "world": world, "hash": loaded})
    step = step or 0
    while step < STEPS:
        samples, targets = batch(step)
        optimizer.zero_grad()
        mine = slice(rank, None, world)
        torch.nn.functional.mse_loss(trained(samples[mine]), targets[mine]).backward()
        optimizer.step()
        step += 1
        if step % SAVED_EVERY == 0:
            before = hash_of(model)
            if rank == 0:
                leave(f"hash.{step}", before)
            leave(f"saved.{rank}", {"step": step, "kept": save(step, state)})
        time.sleep(PAUSE)
    ended = hash_of(model)
    if rank == 0:
        leave("ended", ended)
    del trained  # a model that holds the last reference to its process group can wait for ever for gloo's thread
    dist.destroy_process_group()


main()
