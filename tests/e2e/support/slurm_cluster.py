"""A real Slurm on test hosts: munge everywhere, slurmctld on `ctl`, slurmd on n1, n2, ..."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from . import hosts
from .hosts import Host, HostGroup, wait_until

PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "scontrol")
# Anything else is a job that waits, runs or is being cleaned up (COMPLETING).
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE",
         "PREEMPTED"}
CGROUPS = Path("/sys/fs/cgroup")
GPUS = 4
CPUS = 8
START = 60  # seconds after which a job that Slurm could run is running, on a busy machine too
NOTES = 20  # lines of each daemon's log that are shown

# Eight CPUs and four GPUs are promised to Slurm whatever the machine has. Nothing is pinned then: task/affinity
# refuses to start a task when the machine has fewer CPUs than promised ("failed to distribute tasks"). A cluster that
# pins has the CPUs that are there, on its only node. bf_interval: heterogeneous jobs are started by the backfill
# scheduler only, which runs every 30 s by default.
CONFIGURATION = """\
ClusterName=ddprun
SlurmctldHost=ctl({control_address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/hosts/ctl/slurmctld.pid
SlurmctldLogFile={directory}/hosts/ctl/slurmctld.log
SlurmdPidFile={directory}/hosts/%n/slurmd.pid
SlurmdLogFile={directory}/hosts/%n/slurmd.log
SlurmdSpoolDir={directory}/hosts/%n/spool
{overrides}
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/{tracking}
TaskPlugin=task/{task_plugin}
MpiDefault=none
{more}
SelectType=select/cons_tres
SelectTypeParameters={units}
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=1
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=5
InactiveLimit=0
MessageTimeout=20
{nodes}
PartitionName=test Nodes=ALL Default=YES MaxTime=60 State=UP
{partitions}
"""


def why_impossible() -> str | None:
    for program in PROGRAMS:
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            return f"the Slurm tests need the program {program}"
    return hosts.why_impossible()


def why_no_cgroups() -> str | None:
    freezer = CGROUPS / "freezer"
    if (freezer / "cgroup.procs").exists() and os.access(freezer, os.W_OK):
        return None
    return f"Slurm's proctrack/cgroup is tested where {freezer}, of version 1, can be written to"


def remove_cgroups() -> None:
    """Of a cluster that is no more, also of one that was killed."""
    for folder in sorted(CGROUPS.glob("*/slurm_n1/**/"), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()


class SlurmCluster:
    """Use as a context manager. `control` is the submit host, `nodes` run the jobs."""

    def __init__(self, node_count: int = 4, *, reserved_ports: str = "", kept: Iterable[str | Path] = (),
                 path: Iterable[str] = (), pinning: bool = False, settings: Iterable[str] = (),
                 partitions: Iterable[str] = (), cgroups: bool = False, files: dict[str, str] | None = None) -> None:
        """`reserved_ports`: "12000-12099" makes Slurm reserve ports of that range for every step. `pinning`: Slurm
        binds tasks to cores of this machine. `settings`, `partitions`: more lines of slurm.conf. `cgroups`: steps are
        tracked by them, as at most sites; they are the machine's own, so one node has to do. `files`: text of files beside slurm.conf."""
        names = [f"n{number}" for number in range(1, node_count + 1)]
        self.hosts = HostGroup([*names, "ctl"], kept=kept, path=path)
        self.directory = self.hosts.directory
        self.home = self.hosts.home
        self.control = self.hosts["ctl"]
        self.nodes = [self.hosts[name] for name in names]
        self._reserved_ports = reserved_ports
        self._pinning = pinning
        self._settings = list(settings)
        self._partitions = list(partitions)
        self._cgroups = cgroups
        self._files = dict(files or {})

    def __enter__(self) -> SlurmCluster:
        try:
            self.hosts.start()
            self._configure()
            self._start_daemons()
        except BaseException:
            self.hosts.stop()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.hosts.stop()
        if self._cgroups:
            remove_cgroups()

    def run(self, *command: str, **arguments) -> hosts.Result:
        """Runs a program on the submit host."""
        try:
            return self.control.run(command, **arguments)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.explain()}") from None

    def popen(self, *command: str, **arguments) -> hosts.Process:
        return self.control.popen(command, **arguments)

    def batch(self, *words: str, timeout: float = 300.0, **arguments) -> hosts.Result:
        """What `sbatch --wait` does, which looks for the end of the job after 2, 12 and 42 s only."""
        submitted = self.run("sbatch", "--parsable", *words, **arguments)
        if submitted.code != 0:
            return submitted
        return dataclasses.replace(submitted, code=self.wait_for_job(submitted.stdout, timeout))

    def wait_for_job(self, told: str, timeout: float = 300.0) -> int:
        """`told`: what `sbatch --parsable` printed. The highest exit code of the job's elements; 1 for a signal."""
        job = told.strip().split(";")[0]
        started_by = time.monotonic() + START

        def look() -> str:
            shown = self.show_ended(job)
            if not shown and time.monotonic() > started_by and "JobState=PENDING" in self._show(job):
                raise AssertionError(f"job {job} is not run\n{self.explain(job)}")
            return shown

        try:
            shown = wait_until(f"job {job} has ended", look, timeout, pause=0.2)
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{self.explain(job)}") from None
        codes = re.findall(r" ExitCode=(\d+):(\d+)", shown)
        return max(1 if int(number) else int(code) for code, number in codes)

    def run_again_now(self, job: str) -> None:
        """A job that was requeued, which Slurm would not start for two minutes. Within the second in which a job was stopped
        slurmd takes the new start for a late one of the old (its record of ended jobs has whole seconds) and fails the job."""
        busy = ["sinfo", "--noheader", "--states=alloc,mix,comp", "--format=%n"]
        wait_until("nothing of it runs any more", lambda: not self.control.check(busy).strip())
        time.sleep(1.1)
        self.control.check(["scontrol", "update", f"jobid={job}", "StartTime=now"])

    def show_ended(self, job: str) -> str:
        """What scontrol shows of it; nothing as long as it has not ended."""
        shown = self._show(job)
        states = set(re.findall(r"JobState=(\w+)", shown))
        return shown if states and states <= ENDED else ""

    def _show(self, job: str) -> str:
        return self.control.check(["scontrol", "show", "job", job])

    def explain(self, *job: str) -> str:
        """Why a job, or any, is where it is: as Slurm shows it, and the last that each daemon noted."""
        shown = self.control.run(["scontrol", "show", "job", *job]).output
        logs = [self.directory / "hosts" / "ctl" / "slurmctld.log", *(node.directory / "slurmd.log" for node in self.nodes)]
        return "\n".join([shown, *(f"{log.parent.name}: {line}" for log in logs if log.exists()
                                   for line in log.read_text(errors="replace").splitlines()[-NOTES:])])

    def has_no_jobs(self) -> bool:
        return self.control.check(["squeue", "--noheader"]).strip() == ""

    def cancel_all(self) -> None:
        """Ends what a failed test may have left, so that the next one finds free nodes."""
        if not self.has_no_jobs():
            self.run("scancel", "--user=root")
            try:
                wait_until("all jobs are gone", self.has_no_jobs)
            except TimeoutError as late:
                raise AssertionError(f"{late}\n{self.explain()}") from None

    def state_of(self, node: str) -> str:
        """As sinfo writes it: "mixed", "down*" for one that is down and does not answer."""
        return self.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T").stdout.strip()

    def kill_slurmd(self, node: str) -> None:
        """What it started lives on."""
        self._kill(node, lambda command: command.startswith("slurmd") and not command.startswith("slurmstepd"))

    def kill_all(self, node: str, *, silently: bool) -> None:
        """Silently as when it is switched off: nothing of it is heard any more, not even the end of its connections."""
        if silently:
            self.hosts[node].unplug()
        self._kill(node, lambda command: not command.startswith("munged"))

    def start_slurmd(self, node: str) -> None:
        self.hosts[node].check(["slurmd"])

    def restore(self, node: str) -> None:
        """Whatever was done to it. All jobs end, which wait for a node that is lost."""
        self.hosts[node].plug_in_again()
        if not any(command.startswith("slurmd") for command in self.hosts[node].processes().values()):
            self.start_slurmd(node)
        self.cancel_all()
        wait_until(f"{node} is idle", lambda: self._is_idle_again(node), pause=0.2)

    def _is_idle_again(self, node: str) -> bool:
        state = self.state_of(node)
        if state.startswith(("down", "drain")):
            self.run("scontrol", "update", f"nodename={node}", "state=resume")
        return state == "idle"

    def _kill(self, node: str, chosen: Callable[[str], bool]) -> None:
        """Again until none is left, since one may start another meanwhile."""
        def look() -> bool:
            found = [number for number, command in self.hosts[node].processes().items() if chosen(command)]
            for number in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            return not found
        wait_until(f"processes of {node} have ended", look)

    def _configure(self) -> None:
        self.hosts.environment["SLURM_CONF"] = str(self.directory / "slurm.conf")
        shape = _shape_of_this_machine() if self._pinning else f"CPUs={CPUS}"
        nodes = "\n".join(f"NodeName={node.name} NodeAddr={node.address} {shape} RealMemory=1000 "
                          f"Gres=gpu:{GPUS} State=UNKNOWN" for node in self.nodes)
        ports = f"MpiParams=ports={self._reserved_ports}" if self._reserved_ports else ""
        (self.directory / "slurm.conf").write_text(CONFIGURATION.format(
            control_address=self.control.address, directory=self.directory, nodes=nodes,
            more="\n".join([ports, *self._settings]), tracking="cgroup" if self._cgroups else "linuxproc",
            partitions="\n".join(self._partitions),
            overrides="" if self._pinning else "SlurmdParameters=config_overrides",
            task_plugin="affinity" if self._pinning else "none", units="CR_Core" if self._pinning else "CR_CPU"))
        for name, text in self._files.items():
            (self.directory / name).write_text(text)
        gpus = self.directory / "gpus"
        gpus.mkdir()
        for number in range(GPUS):  # any character device will do; this one is /dev/null
            os.mknod(gpus / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (self.directory / "gres.conf").write_text(f"Name=gpu File={gpus}/gpu[0-{GPUS - 1}]\n")
        (self.directory / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={CGROUPS}\nIgnoreSystemd=yes\n")
        (self.directory / "state").mkdir()
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)

    def _start_daemons(self) -> None:
        for host in self.hosts.hosts.values():
            self._start_munge(host)
        self.control.check(["slurmctld"])
        for node in self.nodes:
            (node.directory / "spool").mkdir()
            node.check(["slurmd"])
        wait_until("all nodes are idle", self._all_idle)

    def _start_munge(self, host: Host) -> None:
        host.check(["install", "-d", "-m", "755", "/run/munge"])
        host.check(["munged", "--num-threads=2", f"--key-file={self.directory}/munge.key",
                    "--socket=/run/munge/munge.socket.2", "--pid-file=/run/munge/munged.pid",
                    f"--log-file={host.directory}/munged.log", f"--seed-file={host.directory}/munged.seed"])

    def _all_idle(self) -> bool:
        shown = set(self.run("sinfo", "--noheader", "--Node", "--format=%N %T").stdout.splitlines())  # by partition
        return shown == {f"{node.name} idle" for node in self.nodes}


def _shape_of_this_machine() -> str:
    """CPUs, sockets, cores and threads as slurmd finds them."""
    told = subprocess.run(["slurmd", "-C"], capture_output=True, text=True, check=True,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}).stdout
    found = re.search(r"CPUs=.*?ThreadsPerCore=\d+", told)
    assert found, f"slurmd -C told no shape:\n{told}"
    return found[0]
