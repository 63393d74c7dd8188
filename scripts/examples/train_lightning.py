"""A small Lightning training: fits a line, prints the weights it found, which are near 1, -2, 3 and 0.5.

Nothing in it is about the launcher but the numbers of nodes and devices, which Lightning requires.
"""

import argparse

import pytorch_lightning as lightning
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


class Line(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.layer(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--devices", type=int, default=1, help="on each node")
    arguments = parser.parse_args()

    lightning.seed_everything(1)
    inputs = torch.randn(512, 4)
    target = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    data = DataLoader(TensorDataset(inputs, inputs @ target), batch_size=16)
    trainer = lightning.Trainer(accelerator="auto" if torch.cuda.is_available() else "cpu", strategy="ddp",
                                num_nodes=arguments.nodes, devices=arguments.devices, max_epochs=4, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False)
    line = Line()
    trainer.fit(line, data)
    weights = " ".join(f"{weight:.3f}" for weight in line.layer.weight.flatten().tolist())
    print(f"rank {trainer.global_rank} of {trainer.world_size}, local rank {trainer.local_rank}, "
          f"{type(trainer.strategy.cluster_environment).__name__}, weights {weights}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
