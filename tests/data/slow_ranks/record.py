#!/usr/bin/env python3
"""Records the collectives of a training on gloo: record.py KIND [RANK MS] FOLDER, by a Python with torch.

RANK is MS late in each step (each batch of an accumulation). Writes the entries of all ranks as agents send them
(src/core/slow/trace.hpp) to FOLDER/look-0.json, look-1.json, ..., and RANK to FOLDER/slow. TORCH_FR_BUFFER_SIZE is that of
ddprun.
"""

import contextlib
import functools
import json
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

ENTRIES = 256
FORWARD, BACKWARD = 0.006, 0.007  # of a layer, in seconds


class Work(torch.autograd.Function):
    """Takes as long as a layer would, without a processor."""

    @staticmethod
    def forward(context, value):
        time.sleep(FORWARD)
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(BACKWARD)
        return gradient


class Layer(nn.Linear):
    def forward(self, value):
        return super().forward(Work.apply(value)).relu()


def make_model(layers=4, width=128):
    return nn.Sequential(*[Layer(width, width) for _ in range(layers)])


def make_ddp():
    return nn.parallel.DistributedDataParallel(make_model(), bucket_cap_mb=0.05)


def batches(count, late, width=128):
    """A rank that is late gets its batches late."""
    for _ in range(count):
        time.sleep(0.005 + late)
        yield torch.randn(8, width)


def step(model, optimizer, batch):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), 1e-3)


def train_ddp(rank, late):
    model = make_ddp()
    optimizer = optimizer_of(model)
    for batch in batches(90, late):
        step(model, optimizer, batch)


def train_fsdp2(rank, late):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), make_model()
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = optimizer_of(model)
    for batch in batches(60, late):
        step(model, optimizer, batch)


def train_accumulation(rank, late, micro=4):
    model = make_ddp()
    optimizer = optimizer_of(model)
    for index, batch in enumerate(batches(60 * micro, late)):
        last = index % micro == micro - 1
        with contextlib.nullcontext() if last else model.no_sync():
            model(batch).square().mean().backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


def train_evaluation(rank, late):
    """Rank 0 evaluates each 20 steps, for ten times as long as a step."""
    model = make_ddp()
    optimizer = optimizer_of(model)
    for index, batch in enumerate(batches(90, late)):
        step(model, optimizer, batch)
        if index % 20 == 19:
            if rank == 0:
                time.sleep(0.7)
            dist.barrier()


def train_join(rank, late):
    """Each rank has two batches less than the one before it, in each of six epochs."""
    from torch.distributed.algorithms.join import Join

    model = make_ddp()
    optimizer = optimizer_of(model)
    for _ in range(6):
        with Join([model]):
            for batch in batches(16 - 2 * rank, late):
                step(model, optimizer, batch)


def train_pipeline(rank, late, stages=3, micro=4):
    """Three stages, each on two ranks that reduce its gradients; a norm over all."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    mesh = init_device_mesh("cpu", (2, stages), mesh_dim_names=("dp", "pp"))
    stage = mesh["pp"].get_local_rank()
    model = make_model(2)
    part = PipelineStage(model, stage, stages, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(part, micro, loss_fn=lambda output, target: (output - target).square().mean())
    optimizer = optimizer_of(model)
    for batch in batches(40, late):
        args = (batch,) if stage == 0 else ()
        schedule.step(*args, **({"target": batch} if stage == stages - 1 else {}))
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=mesh["dp"].get_group())
        norm = sum(parameter.grad.square().sum() for parameter in model.parameters())
        dist.all_reduce(norm)
        optimizer.step()
        optimizer.zero_grad()


def run(rank, size, port, train, late, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCH_FR_BUFFER_SIZE="2000")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    train(rank, late.get(rank, 0))
    with open(f"{folder}/{rank}.record", "wb") as file:
        file.write(torch._C._distributed_c10d._dump_fr_trace_json())
    dist.barrier()
    dist.destroy_process_group()


def convert(records, begin, end):
    """As add_flight_record() and shorten() do, with these entries of each rank."""
    groups, ranks, base = [], [], 0
    meets = ("all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "all_to_all", "alltoall", "barrier")
    for rank, record in enumerate(records):
        rows = []
        for entry in sorted(record["entries"], key=lambda entry: entry["record_id"])[begin:end]:
            name, sends = entry["profiling_name"].split(":", 1)[-1], entry["is_p2p"]
            role = 1 if sends else 0 if any(each in name for each in meets) else 1 if name == "send" or name.startswith("recv") else 2
            base = base or entry["time_created_ns"] // 1000 - 900_000_000
            if entry["process_group"][0] not in groups:
                groups.append(entry["process_group"][0])
            signature = functools.reduce(lambda number, each: (number ^ each) * 16777619 & 0xffffffff,
                                         (name + json.dumps(entry["input_sizes"], separators=(",", ":"))).encode(), 2166136261)
            rows.append([groups.index(entry["process_group"][0]), role, entry["p2p_seq_id" if role == 1 else "collective_seq_id"],
                         signature & 0x7fffffff, entry["time_created_ns"] // 1000 - base, 0])
        ranks.append({"rank": rank, "entries": rows})
    return {"base": base, "bound": 0, "step": 0, "groups": groups, "ranks": ranks}


def main():
    kind, *slow, folder = sys.argv[1:]
    train, size = globals()["train_" + kind], 6 if kind == "pipeline" else 4
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.makedirs(folder, exist_ok=True)
    late = {int(slow[0]): float(slow[1]) / 1000} if slow else {}
    torch.multiprocessing.spawn(run, (size, port, train, late, folder), size)
    records = []
    for rank in range(size):
        with open(f"{folder}/{rank}.record", encoding="utf-8") as file:
            records.append(json.load(file))
        if not os.environ.get("KEEP_RECORDS"):
            os.remove(f"{folder}/{rank}.record")
    count = min(len(record["entries"]) for record in records)
    looks = -(-count // ENTRIES)
    for look in range(looks):
        with open(f"{folder}/look-{look}.json", "w", encoding="utf-8") as file:
            part = convert(records, look * count // looks, (look + 1) * count // looks)
            json.dump(part, file, separators=(",", ":"))
    with open(f"{folder}/slow", "w", encoding="utf-8") as file:
        file.write("".join(f"{rank}\n" for rank in late))


if __name__ == "__main__":
    main()
