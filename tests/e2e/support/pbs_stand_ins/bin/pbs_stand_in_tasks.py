"""What the stand-ins for pbsdsh and pbs_tmrsh share: a task on a host of the job, started as pbs_mom does."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

JOB = json.load(open(os.environ["PBS_STAND_IN_JOB"]))


def start(host: str, number: int, words: list[str], output=None) -> subprocess.Popen:
    """`number`: of the task; a sister's are hexadecimal and high."""
    index = JOB["names"].index(host)
    task = f"{(0x10000000 * index) + number:08X}"
    variables = JOB["variables"][host] | {"PBS_TASKNUM": task}
    command = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words]
    line = f"umask 077; cd; exec {shlex.join(command)}"
    return subprocess.Popen(["ssh", "-T", "-o", "BatchMode=yes", host, line], stdin=subprocess.DEVNULL,
                            stdout=output, stderr=output)


def exit_code(task: subprocess.Popen) -> int:
    code = task.wait()
    return 128 - code if code < 0 else code
