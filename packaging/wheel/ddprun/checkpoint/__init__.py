"""The state of a training, kept over restarts.

    step = checkpoint.load(state)      # fills state; None at the first start
    checkpoint.save(step, state)       # returns when the state is copied

`state` is a dict. What has state_dict() and load_state_dict(), as models, optimizers and `rng_state()` have, is saved and loaded
by these; tensors are loaded in place, also in dicts; any other value is replaced in its dict. Each rank saves and loads its own.
`Writer` and `Reader` are for torch.distributed.checkpoint, for states that another number of ranks is to load.

Under `ddprun --checkpoint-memory` the files are in the memory of the node, otherwise in a folder that all ranks share: `folder`,
else $DDPRUN_CHECKPOINT_FILES, else ./checkpoints. The newest two steps stay.
"""

from __future__ import annotations

from typing import Any

from ddprun.checkpoint import _place, _state
from ddprun.checkpoint._state import RngState as rng_state

__all__ = ["Reader", "Writer", "hugging_face", "lightning", "load", "rng_state", "save"]


def load(state: dict[str, Any], *, folder: _place.Named = None) -> int | None:
    """Fills `state` from the newest step that all ranks have and returns the step; None where there is none.

    Call it after init_process_group(). Ranks beyond those that have saved read the parts of rank 0, 1 ... again.
    """
    place = _place.of(folder)
    step = place.look()
    if step is not None:
        _state.fill(state, _state.read(place, step))
    return step


def save(step: int, state: dict[str, Any], *, folder: _place.Named = None) -> bool:
    """Saves this rank's state of a step, and returns when it is copied; all ranks have to call it.

    False if it cannot be kept, as there is no room: the former step stays. A step just loaded or saved is not saved again.
    """
    return _state.write(_place.of(folder), step, _state.content_of(state), *_place.rank_and_world())


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ddprun.checkpoint import _adapters  # imports torch.distributed.checkpoint
    return getattr(_adapters, name)
