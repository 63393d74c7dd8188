"""ddprun from Python: `launch` calls a function in new workers, `run` runs the program with the arguments of a command line."""

from ddprun._launch import launch
from ddprun._run import Failure, Result, run

__all__ = ["Failure", "Result", "launch", "run"]
