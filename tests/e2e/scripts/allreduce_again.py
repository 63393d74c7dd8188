"""Adds up the ranks, then fails in the first attempt and ends well in the next."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
print(f"attempt {attempt} rank {dist.get_rank()}: sum {total.item():.0f} at {os.environ['MASTER_ADDR']}", flush=True)
dist.barrier()  # all have printed it
failing = attempt == 0 and dist.get_rank() == 1
dist.destroy_process_group()
raise SystemExit(int(failing))
