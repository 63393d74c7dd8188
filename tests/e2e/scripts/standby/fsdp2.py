import ending
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Linear(10, 10))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
ending.end(ending.train(model, torch.optim.AdamW(model.parameters()), [torch.randn(4, 10) for _ in range(20)]))
