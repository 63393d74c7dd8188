"""Checkpoints as torch.distributed.checkpoint, Lightning and Hugging Face's Trainer save them."""

from __future__ import annotations

import importlib
import math
import shutil
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.futures import Future

from ddprun.checkpoint import _place, _state


class Writer(FileSystemWriter):
    """dcp.save(state, storage_writer=checkpoint.Writer(step)), and dcp.async_save; nothing is written where it does not fit."""

    def __init__(self, step: int, *, folder: _place.Named = None, **options: Any) -> None:
        self._place, self._step = _place.of(folder), step
        self._part: _place.Part | None = None
        super().__init__(self._place.path, **{"sync_files": False, **options})

    def write_data(self, plan: Any, planner: Any) -> Any:
        tensors = [item.tensor_data for item in plan.items if item.tensor_data]
        size = sum(math.prod(tensor.chunk.sizes) * tensor.properties.dtype.itemsize + 4096 for tensor in tensors) + (1 << 20)
        if self._step not in self._place.there:
            self._part = self._place.begin(self._step, *_place.rank_and_world(), size)
        if self._part is None:
            nothing: Any = Future()
            nothing.set_result([])
            return nothing
        self.path = self._part.folder
        written = super().write_data(plan, planner)
        for name in {result.storage_data.relative_path for result in written.value()}:
            self._part.add(self.path / name, name)
        if self._part.rank > 0:
            self._part.finish()
        return written

    def finish(self, metadata: Any, results: Any) -> None:  # of rank 0
        if self._part is not None:
            super().finish(metadata, results)
            self._part.add(self.path / ".metadata", ".metadata")
            self._part.finish()


class Reader(FileSystemReader):
    """dcp.load(state, storage_reader=reader) with reader = checkpoint.Reader(); if reader.step is None there is nothing to load."""

    def __init__(self, *, folder: _place.Named = None) -> None:
        self._place = _place.of(folder)
        self.step: Any = self._place.look()
        super().__init__(self._place.folder(self.step))

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        self._place.fetch(self.step, ".metadata")
        return super().read_metadata(*args, **kwargs)

    def read_data(self, plan: Any, planner: Any) -> Any:
        for name in {self.storage_data[item.storage_index].relative_path for item in plan.items}:
            self._place.fetch(self.step, name)
        return super().read_data(plan, planner)


def lightning(*, folder: _place.Named = None) -> Any:
    """memory = checkpoint.lightning(); Trainer(plugins=[memory], ...).fit(model, ckpt_path=memory.path())."""
    name, place = "lightning.pytorch" if "lightning.pytorch" in sys.modules else "pytorch_lightning", _place.of(folder)

    class Memory(importlib.import_module(f"{name}.plugins.io").CheckpointIO):  # type: ignore[misc]
        def path(self) -> str | None:
            step = place.look()
            return None if step is None else str(place.folder(step))

        def save_checkpoint(self, checkpoint: Any, path: Any, storage_options: Any = None) -> None:
            _state.write(place, checkpoint["global_step"], checkpoint, 0, 1)  # rank 0 alone is asked to

        def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: Any = None) -> Any:
            return deepcopy(_state.read(place, place.look()))

        def remove_checkpoint(self, path: Any) -> None: ...  # old steps go by themselves

    return Memory()


def hugging_face(*, folder: _place.Named = None) -> Any:
    """memory = checkpoint.hugging_face(); Trainer(callbacks=[memory], ...).train(resume_from_checkpoint=memory.path())."""
    place = _place.of(folder)

    class Memory(importlib.import_module("transformers").TrainerCallback):  # type: ignore[misc]
        def path(self) -> str | None:
            step = place.look()
            for rank in {0, _place.rank_and_world()[0]} if step is not None else ():
                for name in place.part(step, rank)[2]:
                    place.fetch(step, name)
            return None if step is None else str(place.folder(step))

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any) -> None:
            size = _state.size_of([model.state_dict(), optimizer.state_dict()]) if control.should_save else 0
            self.part = place.begin(state.global_step, *_place.rank_and_world(), size) if size else None
            control.should_save = self.part is not None
            if self.part:  # the trainer writes into a folder of it
                self.output, args.output_dir = args.output_dir, str(self.part.folder / f".rank-{self.part.rank}")
        on_epoch_end = on_step_end

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            for file in Path(args.output_dir, f"checkpoint-{state.global_step}").iterdir():
                self.part.add(file, file.name)
            shutil.rmtree(args.output_dir)
            args.output_dir = self.output
            self.part.finish()

    return Memory()
