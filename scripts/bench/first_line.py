"""A worker that records when its first line ran: first_line.py FOLDER."""
import time
now = time.monotonic_ns()

import os
import sys

with open(f"{sys.argv[1]}/{os.environ['DDPRUN_BENCH_RUN']}.{os.getpid()}", "w") as file:
    file.write(f"{now}\n")
