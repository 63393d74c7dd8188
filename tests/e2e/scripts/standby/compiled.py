import ending
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 10)))
model = torch.nn.parallel.DistributedDataParallel(model)
ending.end(ending.train(model, torch.optim.AdamW(model.parameters()), [torch.randn(4, 10) for _ in range(20)]))
