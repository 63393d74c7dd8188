"""ddprun from Python: `launch` calls a function in new workers, `run` runs the program with the arguments of a command line."""

from ddprun._launch import launch
from ddprun._run import Failure, Result, run

__all__ = ["Failure", "Result", "launch", "run"]

Failure.__module__ = Result.__module__ = launch.__module__ = run.__module__ = __name__  # as tracebacks and help() name them
