"""ddprun.checkpoint in Lightning and in Hugging Face's Trainer: under torchrun, with a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conftest import require
from support.machine import FOREIGN
from support.python_package import install

LIGHTNING = """
import os, sys, torch
import pytorch_lightning as lightning
from pytorch_lightning.callbacks import ModelCheckpoint
from ddprun import checkpoint

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        samples = torch.randn(4, 4, generator=torch.Generator().manual_seed(10 * self.global_step + self.global_rank))
        return (self.layer(samples).squeeze(-1) - samples.sum(1)).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)

class Die(lightning.Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == int(sys.argv[1]):
            os._exit(3)

torch.manual_seed(3)
model, memory = Model(), checkpoint.lightning()
path = memory.path()
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", plugins=[memory], max_steps=11, logger=False, enable_progress_bar=False,
                            callbacks=[ModelCheckpoint(every_n_train_steps=2, save_top_k=-1), Die()], enable_model_summary=False)
trainer.fit(model, torch.utils.data.DataLoader(torch.zeros(64, 1), batch_size=2), ckpt_path=path)
if trainer.global_rank == 0:
    print("END", path and path.rpartition("/")[2], trainer.global_step, [weight.hex() for weight in model.layer.weight.flatten().tolist()])
"""

HUGGING_FACE = """
import os, sys, torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
from ddprun import checkpoint

class Model(PreTrainedModel):
    config_class = PretrainedConfig
    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(4, 1)
        self.post_init()
    def _init_weights(self, module):
        pass
    def forward(self, samples=None, labels=None):
        values = torch.nn.functional.dropout(self.layer(samples), 0.2).squeeze(-1)
        return {"loss": (values - labels).square().mean(), "logits": values}

class Die(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == int(sys.argv[1]):
            os._exit(3)

torch.manual_seed(3)
model, memory = Model(PretrainedConfig()), checkpoint.hugging_face()
samples = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
arguments = TrainingArguments(output_dir="out", save_steps=2, max_steps=11, per_device_train_batch_size=4, report_to=[], disable_tqdm=True, use_cpu=True)
trainer = Trainer(model, arguments, train_dataset=[{"samples": sample, "labels": sample.sum()} for sample in samples], callbacks=[memory, Die()])
path = memory.path()
trainer.train(resume_from_checkpoint=path)
if trainer.args.process_index == 0:
    print("END", path and path.rpartition("/")[2], trainer.state.global_step, [weight.hex() for weight in model.layer.weight.flatten().tolist()])
"""


@pytest.mark.parametrize("module, text", [("pytorch_lightning", LIGHTNING), ("transformers", HUGGING_FACE)], ids=["lightning", "hugging-face"])
def test_a_training_that_dies_begins_again_and_is_equal_to_the_last_bit(torch_python, tmp_path, module, text):
    require(module)
    environment = {name: value for name, value in os.environ.items() if not name.startswith((*FOREIGN, "DDPRUN_CHECKPOINT"))}
    path = [str(install(Path("/bin/true"), tmp_path / "environment")), *filter(None, [os.environ.get("PYTHONPATH")])]
    (tmp_path / "train.py").write_text(text)

    def train(folder: str, dies: int) -> str:
        done = subprocess.run([torch_python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py", str(dies)], cwd=tmp_path,
                              env=environment | {"PYTHONPATH": ":".join(path), "DDPRUN_CHECKPOINT_FILES": folder, "OMP_NUM_THREADS": "1"},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
        assert (done.returncode == 0) == (dies == 99), done.stdout
        return next((line for line in done.stdout.splitlines() if line.startswith("END")), "")

    whole = train("one", 99)
    train("other", 7)
    assert train("other", 99) == whole.replace("None", "step-6")
