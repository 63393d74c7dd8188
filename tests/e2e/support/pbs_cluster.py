"""A real OpenPBS on test hosts: server, scheduler and comm on `ctl`, pbs_mom on p1, p2, ...

Each host has an /etc and a /var/spool of its own, in its mount namespace: PBS writes into both, and jobs are
submitted by a user that only the hosts' password files have, since root may submit none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from . import hosts
from .hosts import Answer, Host, HostGroup, Process, Result, wait_until

EXEC = Path(os.environ.get("PBS_EXEC", "/opt/pbs"))
USER = "ddprun-pbs"  # no machine has a user of this name
USER_ID = 54321
CPUS = 8
TWO_HOSTS = ["-l", "select=2:ncpus=4", "-l", "place=scatter"]  # for qsub
START = 60  # seconds after which a job that PBS could run is running, on a busy machine too

# PBS refuses to keep its files below a folder that everybody may write to, as the run directory is.
OWN_FOLDERS = """
mkdir "$1/etc" && cp -a /etc/. "$1/etc" && rm -f "$1/etc/pbs.conf"*
mount --bind "$1/etc" /etc
mount --bind "$1/hosts" /etc/hosts
mount --bind "$1/resolv.conf" /etc/resolv.conf
mount -t tmpfs -o mode=755 tmpfs /var/spool
install -d -o postgres -g postgres -m 2775 /run/postgresql
"""


def why_impossible() -> str | None:
    for program in ("bin/qsub", "bin/pbsdsh", "sbin/pbs_mom", "sbin/pbs_server", "libexec/pbs_postinstall"):
        if not os.access(EXEC / program, os.X_OK):
            return f"the PBS tests need an OpenPBS in {EXEC} (or PBS_EXEC): there is no {EXEC / program}"
    if not (EXEC / "sbin" / "pbs_iff").stat().st_mode & stat.S_ISUID:
        return f"the PBS tests need {EXEC}/sbin/pbs_iff setuid root: nobody can submit a job else"
    return hosts.why_impossible()


@dataclasses.dataclass
class Job:
    """A job that was submitted; `stdout` and `stderr` are complete once it has ended."""
    cluster: PbsCluster
    number: str
    directory: Path

    @property
    def stdout(self) -> str:
        return _read(self.directory / "out")

    @property
    def stderr(self) -> str:
        return _read(self.directory / "err")

    def shown(self) -> str:
        return self.cluster.control.run(["qstat", "-xf", self.number]).stdout

    def state(self) -> str:
        """PBS' letter: Q for queued, R for running, F for finished."""
        found = re.search(r"job_state = (\w)", self.shown())
        return found[1] if found else ""

    def wait(self, seconds: float = 180.0) -> Result:
        self.wait_until("it has ended", lambda: self.state() == "F", seconds)
        found = re.search(r"Exit_status = (-?\d+)", self.shown())
        return Result(["job", self.number], int(found[1]) if found else -1, self.stdout, self.stderr)

    def wait_until(self, what: str, look: Callable[[], Answer], seconds: float = 60.0) -> Answer:
        """What the job itself does: not longer than it runs, nor where PBS does not run it."""
        started_by = time.monotonic() + START

        def look_at_the_job_too() -> Answer:
            state = self.state()  # before: what is looked for may be the last that it does
            answer = look()
            if not answer and (state == "F" or (state in ("Q", "H", "W") and time.monotonic() > started_by)):
                raise AssertionError(f"job {self.number} {'has ended' if state == 'F' else 'is not run'}\n{self.explain()}")
            return answer

        try:
            return wait_until(f"{what}, job {self.number}", look_at_the_job_too, seconds, pause=0.2)
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{self.explain()}") from None

    def explain(self) -> str:
        """Why it is where it is: the job as PBS shows it, what it wrote, and what each pbs_mom noted of it."""
        notes = [f"pbs_mom of {node.name}:\n" + node.run(["sh", "-c", f"grep -h '{self.number}' /var/spool/pbs/mom_logs/*"]).stdout
                 for node in self.cluster.nodes]
        return "\n".join([self.shown(), f"its output:\n{self.stdout}{self.stderr}", *notes])


class PbsCluster:
    """Use as a context manager. `control` is the submit host, `nodes` run the jobs."""

    def __init__(self, node_count: int = 3, *, kept: Iterable[str | Path] = (), path: Iterable[str] = ()) -> None:
        names = [f"p{number}" for number in range(1, node_count + 1)]
        programs = [*path, f"{EXEC}/bin", f"{EXEC}/sbin"]
        self.hosts = HostGroup([*names, "ctl"], kept=kept, path=programs)
        self.directory = self.hosts.directory
        self.home = self.hosts.home
        self.control = self.hosts["ctl"]
        self.nodes = [self.hosts[name] for name in names]

    def __enter__(self) -> PbsCluster:
        try:
            self.hosts.start()
            os.chown(self.home, USER_ID, USER_ID)
            for host in self.hosts.hosts.values():
                self._prepare(host)
            for host in [self.control, *self.nodes]:
                host.check([f"{EXEC}/libexec/pbs_init.d", "start"], timeout=300)
            self._add_nodes()
        except BaseException:
            self.hosts.stop()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.hosts.stop()

    def submit(self, directory: Path, script: str, *options: str,
               env: Mapping[str, str] | None = None) -> Job:
        """`options`: of qsub, as "-l", "select=2:ncpus=4". The script runs in bash, at first in the home directory."""
        return self._submit(directory, [*options, str(self._script(directory, script))], env)

    def submit_without_shell(self, directory: Path, script: str, *options: str) -> Job:
        """As `qsub -- script`: no login shell is above it, which any signal but qdel's would end, and the job with it."""
        return self._submit(directory, ["-V", *options, "--", str(self._script(directory, script))], None)

    def _script(self, directory: Path, lines: str) -> Path:
        path = directory / "job.sh"
        path.write_text(f"#!/bin/bash\nexport PATH={shlex.quote(self.hosts.environment['PATH'])}\n{lines}\n")
        path.chmod(0o755)
        return path

    def _submit(self, directory: Path, words: list[str], env: Mapping[str, str] | None) -> Job:
        os.chown(directory, USER_ID, USER_ID)
        words = ["qsub", "-o", str(directory / "out"), "-e", str(directory / "err"), *words]
        number = self.as_user(self.control, words, env=env, cwd=directory).strip()
        return Job(self, number, directory)

    def as_user(self, host: Host, words: list[str], **arguments) -> str:
        return host.check(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", *words], **arguments)

    def delete_all(self) -> None:
        """Ends what a failed test may have left, so that the next one finds free nodes."""
        jobs = self.control.run(["qselect"]).stdout.split()
        if jobs:
            self.control.run(["qdel", "-W", "force", *jobs])
            wait_until("all jobs are gone", lambda: not self.control.run(["qselect"]).stdout.split())
        wait_until("all nodes are free", self._all_free)

    @contextlib.contextmanager
    def cut_off(self, host: Host) -> Iterator[None]:
        """Its pbs_mom starts anew afterwards: its old connections would stay silent for up to a minute."""
        host.unplug()
        try:
            yield
        finally:
            host.plug_in_again()
            self.restart_mom(host, "-r")

    def restart_mom(self, host: Host, option: str = "-p") -> None:
        """As an administrator does who keeps the jobs: SIGINT, then -p. With -r they end."""
        number = host.check(["cat", "/var/spool/pbs/mom_priv/mom.lock"]).split()[0]
        host.check(["kill", "-INT", number])
        wait_until("pbs_mom has ended", lambda: host.run(["kill", "-0", number]).code != 0)
        host.check([f"{EXEC}/sbin/pbs_mom", option])

    def _prepare(self, host: Host) -> None:
        host.check(["sh", "-euc", OWN_FOLDERS, "sh", str(host.directory)])
        etc = host.directory / "etc"
        for name, line in (("passwd", f"{USER}:x:{USER_ID}:{USER_ID}::{self.home}:/bin/bash"),
                           ("group", f"{USER}:x:{USER_ID}:")):
            with open(etc / name, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        server = int(host is self.control)
        (etc / "pbs.conf").write_text("\n".join([
            "PBS_SERVER=ctl", f"PBS_START_SERVER={server}", f"PBS_START_SCHED={server}", f"PBS_START_COMM={server}",
            f"PBS_START_MOM={1 - server}", f"PBS_EXEC={EXEC}", "PBS_HOME=/var/spool/pbs",
            f"PBS_LEAF_NAME={host.name}",
            "PBS_TMPDIR=/tmp",  # else /var/tmp, in which the qsub of another cluster would submit this one's jobs
        ]) + "\n")
        host.check([f"{EXEC}/libexec/pbs_postinstall", "server" if server else "execution"])
        if not server:  # files are the same on all hosts: output is not copied by scp
            host.check(["sh", "-c", "echo '$usecp *:/ /' >> /var/spool/pbs/mom_priv/config"])

    def _add_nodes(self) -> None:
        settings = ["set server flatuid=true", "set server job_history_enable=true",
                    "set server scheduler_iteration=5", "set server scheduling=true"]
        settings += [f"create node {node.name}" for node in self.nodes]
        for setting in settings:
            self.control.check(["qmgr", "-c", setting])
        wait_until("all nodes are free", self._all_free, 120)
        for node in self.nodes:
            self.control.check(["qmgr", "-c", f"set node {node.name} resources_available.ncpus={CPUS}"])

    def _all_free(self) -> bool:
        told = self.control.run(["pbsnodes", "-a"]).stdout
        return told.count("state = free") == len(self.nodes)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
