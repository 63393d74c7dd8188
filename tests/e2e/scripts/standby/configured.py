"""Hydra reads its configuration and runs it in another folder."""

import os

import ending
import hydra
import torch
import torch.distributed as dist


@hydra.main(version_base=None, config_path=".", config_name="configured")
def main(config) -> None:
    assert "outputs" in os.getcwd()
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(config.size, 10))
    ending.end(ending.train(model, torch.optim.AdamW(model.parameters()), [torch.randn(4, config.size) for _ in range(20)]))


if __name__ == "__main__":
    main()
