"""What Accelerate, and with it Hugging Face's Trainer, makes of the environment."""

import torch
import torch.distributed as dist
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
state = accelerator.state
total = accelerator.reduce(torch.tensor([float(accelerator.process_index)]), reduction="sum")
print(f"rank {accelerator.process_index} of {accelerator.num_processes} local {accelerator.local_process_index} "
      f"{state.distributed_type.value} {state.backend}: sum {total.item():.0f}", flush=True)
dist.destroy_process_group()
