"""A training of small steps in which rank 1 spends time in a function of its own, until a file appears: profiled.py END"""

import os
import sys
import time

import torch
import torch.distributed as dist


def decode(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(50))


def step(tensor):
    time.sleep(0.01)
    dist.all_reduce(tensor)


def note(file):
    if not os.path.exists(file):
        open(file, "w").close()


def train(end):
    tensor, going = torch.ones(1000), torch.ones(1)
    while going:
        if dist.get_rank() == 1:
            decode(0.04)
        step(tensor)
        going.fill_(not os.path.exists(end))
        dist.broadcast(going, 0)
        if going:
            note(f"{end}.up.{dist.get_rank()}")
        if sys.getswitchinterval() < 0.001:
            note(f"{end}.sampled.{dist.get_rank()}")


dist.init_process_group("gloo")
train(sys.argv[1])
dist.destroy_process_group()
