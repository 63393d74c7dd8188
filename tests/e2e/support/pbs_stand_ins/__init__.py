"""Stand-ins for a PBS job and its Task Manager commands, where no PBS can be installed.

They are not PBS. What they copy, from OpenPBS' sources and recordings of a real one (tests/data): the environment
and umask of the job script and of the tasks, the node file, which the sisters may or may not have, the home
directory as working directory, and what pbsdsh and pbs_tmrsh pass on (nothing of the script's environment) and
give back (the exit code). Under it the tasks are started by the test hosts' sshd.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from ..hosts import Host, HostGroup, Process

PROGRAMS = Path(__file__).with_name("bin")
NODE_FILE = "/run/pbs-aux"  # of each host's own /run


class PbsJob:
    """`slots`: the lines of the node file; the script runs on the first host."""

    def __init__(self, hosts: HostGroup, directory: Path, slots: Sequence[str], *, programs: Sequence[str] = (),
                 node_file_on_sisters: bool = False) -> None:
        self.hosts = hosts
        self.names = list(dict.fromkeys(slots))
        self.directory = directory
        self.output = directory / "job.output"
        self.cookie = secrets.token_hex(16).upper()
        self.path = ":".join([*programs, hosts.environment["PATH"]])
        for name in self.names if node_file_on_sisters else self.names[:1]:
            hosts[name].check(["sh", "-c", f"printf '%s\\n' {' '.join(slots)} > {NODE_FILE}"])
        for name in [] if node_file_on_sisters else self.names[1:]:
            if name in hosts.hosts:
                hosts[name].check(["rm", "-f", NODE_FILE])
        (directory / "pbs_job.json").write_text(json.dumps({
            "slots": list(slots), "names": self.names, "output": str(self.output),
            "variables": {name: self.variables(index) for index, name in enumerate(self.names)}}))

    def variables(self, index: int) -> dict[str, str]:
        home = self.hosts.environment["HOME"]
        return {
            "ENVIRONMENT": "BATCH", "HOME": home, "NCPUS": "4", "OMP_NUM_THREADS": "4", "PATH": self.path,
            "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBCOOKIE": self.cookie, "PBS_JOBDIR": home,
            "PBS_JOBID": "7.ctl", "PBS_JOBNAME": "job.pbs", "PBS_MOMPORT": "15003", "PBS_NODEFILE": NODE_FILE,
            "PBS_NODENUM": str(index), "PBS_TASKNUM": "1", "PBS_O_HOME": home, "PBS_O_HOST": "ctl",
            "PBS_O_PATH": self.path, "PBS_O_WORKDIR": str(self.directory), "PBS_QUEUE": "workq", "SHLVL": "1",
            "PWD": home, "TMPDIR": "/tmp", "USER": "root", "LOGNAME": "root",
            "PBS_STAND_IN_JOB": str(self.directory / "pbs_job.json")}

    def start(self, script: str) -> Process:
        """The script's output is the Process' own; what tasks of pbs_tmrsh write is in `output`."""
        first: Host = self.hosts[self.names[0]]
        words = [f"{name}={value}" for name, value in self.variables(0).items()]
        return first.popen(["env", "-i", *words, "sh", "-c", f"umask 077; {script}"])
