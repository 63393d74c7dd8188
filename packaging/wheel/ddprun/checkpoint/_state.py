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
    part = None if step in place.there else place.begin(step, rank, world, size_of(content))
    if part is None:
        return step in place.there
    sums, set_sums = (getattr(torch.serialization, f"{verb}_crc32_options", bool) for verb in ("get", "set"))  # not in torch 2.5
    before = sums()
    set_sums(False)  # they take as long as the copy, and torch.load() does not look at them
    try:
        with part.open(f"rank-{rank}.pt") as file:
            torch.save(content, file)
        part.finish()
    except (OSError, RuntimeError) as error:
        reason = error if isinstance(error, OSError) else error.__context__  # torch's error follows that of the file
        if not isinstance(reason, OSError):
            raise
        warnings.warn(f"ddprun.checkpoint: step {step} is not saved: {part.folder}: {reason}", stacklevel=3)
        return False
    finally:
        set_sums(before)
    return True


def read(place: Place, step: int) -> Any:
    saved_by, rank, names = place.part(step, rank_and_world()[0])
    name = next((name for name in names if name.startswith(f"rank-{rank}.")), None)
    if name is None:
        raise RuntimeError(f"step {step} in {place.path} is from checkpoint.Writer, and checkpoint.Reader has to load it")
    # Only this user can change the folder.
    content = torch.load(place.fetch(step, name), map_location="cpu", mmap=True, weights_only=False)
    if saved_by != rank_and_world()[1] and any(hasattr(leaf, "device_mesh") for leaf in tree_leaves(content)):
        raise RuntimeError(f"step {step} in {place.path} has sharded tensors of {saved_by} ranks, and there are "
                           f"{rank_and_world()[1]} now: save with checkpoint.Writer, for any number of ranks")
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
    mapped = {tensor.untyped_storage().data_ptr() for tensor in _tensors(saved)}
    for tensor in _tensors([content_of(value) for value in state.values() if not isinstance(value, torch.nn.Module)]):
        if tensor.untyped_storage().data_ptr() in mapped:  # an optimizer keeps it, and so the file's memory after it is removed
            tensor.data = tensor.data.clone()


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
    storages = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in _tensors(content))}
    others = [leaf for leaf in tree_leaves(content) if not isinstance(leaf, torch.Tensor)]
    return sum(storages.values()) + sum(getattr(leaf, "nbytes", 0) or sys.getsizeof(leaf) for leaf in others) + (1 << 20)  # at most


def _tensors(content: Any) -> list[Any]:
    """Those with a storage: of a sharded one that of this rank, and none of sparse ones."""
    tensors = [getattr(leaf, "_local_tensor", leaf) for leaf in tree_leaves(content) if isinstance(leaf, torch.Tensor)]
    return [tensor for tensor in tensors if tensor.layout == torch.strided]


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
