"""python -m ddprun: becomes the program that was installed with this package."""

import os
import sys
from importlib.metadata import files


def program() -> str:
    for file in files("ddprun") or []:
        if file.name == "ddprun" and file.parent.name == "bin":
            return str(file.locate().resolve())
    sys.exit("ddprun: the program of this package is missing; pip install --force-reinstall ddprun installs it again")


if __name__ == "__main__":
    path = program()
    os.execv(path, [path, *sys.argv[1:]])
