"""python -m ddprun: becomes the program that was installed with this package."""

import os
import sys

from ddprun._program import program

if __name__ == "__main__":
    try:
        path = program()
    except FileNotFoundError as missing:
        sys.exit(f"ddprun: {missing}")
    os.execv(path, [path, *sys.argv[1:]])
