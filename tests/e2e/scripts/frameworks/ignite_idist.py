"""What Ignite, as MONAI's workflows use it, makes of the environment."""

import ignite.distributed as idist
import torch

with idist.Parallel(backend="gloo"):
    total = idist.all_reduce(torch.tensor([float(idist.get_rank())]))
    print(f"rank {idist.get_rank()} of {idist.get_world_size()} local {idist.get_local_rank()} node "
          f"{idist.get_node_rank()} of {idist.get_nnodes()}: sum {total.item():.0f}", flush=True)
