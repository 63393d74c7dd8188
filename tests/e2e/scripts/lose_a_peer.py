"""A training loop in which rank 3 raises; how long it takes to exit then is the first argument, in seconds.

The others lose their connection to it, and may be gone before it is.
"""

import sys
import time
import traceback

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
tensor = torch.ones(1000)
try:
    for step in range(100_000):
        dist.all_reduce(tensor)
        if step == 3 and dist.get_rank() == 3:
            raise ValueError("bad sample 17")
except ValueError:
    traceback.print_exc()
    dist.destroy_process_group()
    time.sleep(float(sys.argv[1]))
    sys.exit(9)
