"""A script that starts its own processes, one task a node, from MASTER_ADDR, MASTER_PORT, WORLD_SIZE and NODE_RANK."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PROCESSES_PER_NODE = 2


def main(local_rank: int) -> None:
    nodes = int(os.environ["WORLD_SIZE"])
    rank = int(os.environ["RANK"]) * PROCESSES_PER_NODE + local_rank
    address = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=nodes * PROCESSES_PER_NODE)
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    print(f"rank {rank}: sum {total.item():.0f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, nprocs=PROCESSES_PER_NODE)
