"""Whether deepspeed.init_distributed would go by the environment, without DeepSpeed itself.

It asks MPI for ranks and addresses (and needs mpi4py) when one of these five is missing, and its engine refuses to
start where Open MPI's local rank is there and differs: deepspeed/comm/comm.py and runtime/engine.py.
"""

import os

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")

asks_mpi = any(name not in os.environ for name in NEEDED)
local = os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ["LOCAL_RANK"])
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: asks MPI {asks_mpi}, "
      f"local ranks agree {local == os.environ['LOCAL_RANK']}", flush=True)
