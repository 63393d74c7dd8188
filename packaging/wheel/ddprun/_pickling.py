"""Functions, arguments and values on their way to the workers and back."""

from __future__ import annotations

import pickle
from typing import Any


class CannotPickle(Exception):
    """With the reason, and whether cloudpickle, which is not installed, might have done it."""

    def __init__(self, why: str, without_cloudpickle: bool) -> None:
        super().__init__(why)
        self.without_cloudpickle = without_cloudpickle


def dumps(value: Any, main_is_importable: bool = True) -> bytes:
    """By pickle; by cloudpickle what pickle cannot, or what is in a `__main__` that a worker cannot import."""
    try:
        data = pickle.dumps(value)
        if main_is_importable or b"__main__" not in data:
            return data
        why = "it is defined in __main__, which has no file"
    except Exception as error:  # whatever a __reduce__ raises
        why = str(error) or type(error).__name__
    try:
        import cloudpickle  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise CannotPickle(why, without_cloudpickle=True) from None
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        raise CannotPickle(str(error) or type(error).__name__, without_cloudpickle=False) from None
