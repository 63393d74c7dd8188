"""What a script gives, as a file, and back."""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ddprun.checkpoint._place import Place, rank_and_world


def write(place: Place, step: int, content: Any, rank: int, world: int) -> bool:
    part = None if place.has(step) else place.begin(step, rank, world, size_of(content))
    if part is None:
        return place.has(step)
    sums = getattr(torch.serialization, "get_crc32_options", bool)()
    try:
        with part.open(f"rank-{rank}.pt") as file:
            if sums:  # they take as long as the copy, and torch.load() does not look at them
                torch.serialization.set_crc32_options(False)
            torch.save(content, file)
        part.finish()
    except (OSError, RuntimeError) as error:
        reason = error if isinstance(error, OSError) else error.__context__  # torch's error follows that of the file
        if not isinstance(reason, OSError):
            raise
        warnings.warn(f"ddprun.checkpoint: step {step} is not saved: {part.folder}: {reason}", stacklevel=3)
        return False
    finally:
        if sums:
            torch.serialization.set_crc32_options(True)
    return True


def read(place: Place, step: int) -> Any:
    saved_by, rank, names = place.part(step, rank_and_world()[0])
    name = next((name for name in names if name.startswith(f"rank-{rank}.")), None)
    if name is None:
        raise RuntimeError(f"step {step} in {place.path} is from checkpoint.Writer: load it by torch.distributed.checkpoint.load("
                           "state, storage_reader=checkpoint.Reader())")
    path = place.fetch(step, name)
    content = torch.load(path, map_location="cpu", mmap=True, weights_only=False)  # only this user can change the folder
    if saved_by != rank_and_world()[1] and any(hasattr(tensor, "device_mesh") for tensor in _tensors(content)):
        raise RuntimeError(f"step {step} in {place.path} has sharded tensors of {saved_by} ranks, and there are "
                           f"{rank_and_world()[1]} now: save with checkpoint.Writer, which any number of ranks can load")
    return content


def content_of(value: Any) -> Any:
    if hasattr(value, "state_dict"):
        return value.state_dict()
    return {key: content_of(item) for key, item in value.items()} if isinstance(value, dict) else value


def fill(state: dict[str, Any], saved: dict[str, Any]) -> None:
    for name in state:
        if name not in saved:
            raise KeyError(f"the checkpoint has no {name!r}, only {', '.join(map(repr, saved))}")
        state[name] = _filled(state[name], saved[name])
    mapped = {_memory(tensor).data_ptr() for tensor in _tensors(saved)}
    kept = [value for value in state.values() if not isinstance(value, torch.nn.Module)]  # modules copy, optimizers do not
    for tensor in _tensors(content_of(dict(enumerate(kept)))):
        if _memory(tensor).data_ptr() in mapped:  # of a file that would use memory even after it is removed
            local = getattr(tensor, "_local_tensor", tensor)
            local.data = local.data.clone()


def _filled(value: Any, saved: Any) -> Any:
    if hasattr(value, "load_state_dict"):
        value.load_state_dict(saved)
    elif isinstance(value, torch.Tensor):
        value.detach().copy_(saved)
    elif isinstance(value, dict) and isinstance(saved, dict):
        value.update({key: _filled(value[key], item) if key in value else item for key, item in saved.items()})
    else:
        return saved
    return value


def size_of(content: Any) -> int:
    """In bytes, at least what a file of it has, unless it consists of very many small objects."""
    memory = {_memory(tensor).data_ptr(): _memory(tensor).nbytes() for tensor in _tensors(content)}
    others = (getattr(leaf, "nbytes", 0) or sys.getsizeof(leaf) for leaf in tree_leaves(content) if not isinstance(leaf, torch.Tensor))
    return sum(memory.values()) + sum(others) + (1 << 20)


def _tensors(content: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(content) if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


def _memory(tensor: Any) -> Any:
    return getattr(tensor, "_local_tensor", tensor).untyped_storage()


class RngState:
    """The states of the random number generators of python, torch (CPU, current CUDA device), and numpy if it is imported."""

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
        if torch.cuda.is_available():
            state["cuda"] = torch.cuda.get_rng_state()
        if "numpy" in sys.modules:
            kind, keys, *rest = sys.modules["numpy"].random.get_state()
            state["numpy"] = [kind, keys.tolist(), *rest]  # torch.load() needs no permission for numbers
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        random.setstate(state["python"])
        torch.set_rng_state(state["torch"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"])
        if "numpy" in state and "numpy" in sys.modules:
            sys.modules["numpy"].random.set_state(tuple(state["numpy"]))
