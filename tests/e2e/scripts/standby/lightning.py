import ending
import pytorch_lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.loss = torch.nn.Linear(10, 10), 0.0

    def training_step(self, batch, _):
        ending.note_step()
        loss = self.layer(batch[0]).pow(2).sum()
        self.loss = loss.item()
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


pytorch_lightning.seed_everything(1)
module = Module()
trainer = pytorch_lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(module, DataLoader(TensorDataset(torch.randn(64, 10)), batch_size=8))
ending.end(module.loss)
