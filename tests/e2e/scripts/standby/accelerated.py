import ending
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
torch.manual_seed(1)
model = torch.nn.Linear(10, 10)
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
ending.end(ending.train(model, optimizer, [torch.randn(4, 10) for _ in range(20)], accelerator.backward))
