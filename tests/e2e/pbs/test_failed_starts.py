"""Starts that fail: whatever the remote launcher makes of them, ddprun does not end with 0."""

from __future__ import annotations

import pytest

from pbs.test_styles import WITH_MPIEXEC, mpiexec_line
from support import programs
from support.pbs_cluster import TWO_HOSTS

# {first}: a folder that only the first host has.
STARTS = {
    "no such program": "--no-python nosuch",
    "no such script": "nosuch.py",
    "no such module": "-m nosuchmodule",
    "a program that may not be run": "--no-python ./plain.sh",
    "a program of the first host": "--no-python {first}/program",
    "a script of the first host": "{first}/script.py",
    "a working directory of the first host": "--no-python true",
    "an unknown option": "--nosuch-option train.py",
    "GPUs where there are none": "--nproc-per-node gpu nosuch.py",
    "a port that may not be had": "--master-port 1 --no-python true",
    "an address of nobody": "--local-addr 192.0.2.1 --no-python true",
    "a worker that ends at once": "--no-python false",
}


# mpiexec goes to the home directory on a host that lacks the working directory, and nothing fails.
STARTS_OF_MPIEXEC = {name: arguments for name, arguments in STARTS.items() if "working directory" not in name}
LAUNCHES = {name: f"ddprun --launcher {name}" for name in ("pbsdsh", "pbs_tmrsh", "ssh")}


@pytest.mark.parametrize("launcher", [*LAUNCHES, *WITH_MPIEXEC])
def test_no_failed_start_is_a_success(cluster, ssh_daemons, directory, launcher):
    first = "/dev/shm/of-the-first-host"
    start = LAUNCHES.get(launcher) or f"{mpiexec_line(launcher)} {programs.binary()}"
    lines = [f"cd {directory}; touch plain.sh; mkdir -p {first}; touch {first}/script.py",
             f"printf '#!/bin/sh\\n' > {first}/program; chmod +x {first}/program"]
    starts = STARTS if launcher in LAUNCHES else STARTS_OF_MPIEXEC
    for name, arguments in starts.items():
        where = first if "working directory" in name else directory
        launch = f"{start} {arguments.format(first=first)}"
        lines.append(f"cd {where}; {launch} > '{directory}/{name}' 2>&1; echo \"$?: {name}\" >> {directory}/codes")
    result = cluster.submit(directory, "\n".join(lines), *TWO_HOSTS).wait(240)
    codes = (directory / "codes").read_text().splitlines()
    said = "\n".join(f"--- {name}\n{(directory / name).read_text()}" for name in starts)
    assert len(codes) == len(starts), f"{codes}\n{result}\n{said}"
    assert not [code for code in codes if code.startswith("0:")], f"{codes}\n{result}\n{said}"
    print("\n".join(codes))
