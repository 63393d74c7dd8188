"""One of several programs: in_program.py FOLDER NAME. Ready at once; at a stop it adds its name to FOLDER/order.

`train` takes its time for that, and ends well at SIGUSR1 in the first run of the job; `server` would die of it.
"""

import os
import pathlib
import signal
import sys
import time

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
run = os.environ.get("SLURM_RESTART_COUNT", "0")


def stop(*_) -> None:
    time.sleep(0.5 if name == "train" else 0)
    with open(folder / "order", "a") as order:
        order.write(f"{name}.{run} ")
    os._exit(0)


def warned(*_) -> None:
    (folder / f"warned.{run}").touch()
    if run == "0":
        os._exit(0)


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
if name == "train":
    signal.signal(signal.SIGUSR1, warned)
(folder / f"up.{name}").write_text(" ".join(os.environ[each] for each in ("MASTER_ADDR", "RANK", "WORLD_SIZE")))
pathlib.Path(os.environ["DDPRUN_READY_FILE"]).touch()
while True:
    signal.pause()
