"""The launchers that are compared: how each is found, and the command line for each kind of run."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PER_HOST = 2  # workers on each host of the runs with several hosts
ELASTIC_RESTARTS = "3"


@dataclass(frozen=True)
class Place:
    """Where one of several agents runs and where they meet."""
    node: int
    nodes: int
    address: str
    port: int


class Launcher:
    """`missing` says why there is nothing to measure; otherwise `version` is what the launcher calls itself."""

    name = ""
    has_spares = False  # hosts that wait until one is lost

    def __init__(self):
        self.version = ""
        self.missing = ""

    def start(self, workers: int) -> list[str]:
        """The command line, up to the program, that starts `workers` workers on this machine."""
        raise NotImplementedError

    def restarting(self, workers: int) -> list[str] | None:
        """The same with one restart allowed; None when the launcher does not restart."""
        return None

    def on_host(self, place: Place) -> list[str] | None:
        """The agent of one of several hosts, with one restart allowed; None when the launcher does not restart."""
        return None

    def elastic(self, place: Place, least: int, host_timeout: float, spares: int = 0) -> list[str] | None:
        """The agent of one of several hosts, up to the script of its one worker. Its job restarts, and goes on while
        `least` hosts are left; of all hosts `spares` wait. None when the launcher cannot."""
        return None

    def is_prepared(self, enter: list[str], environment: dict[str, str]) -> bool:
        """Whether the job on the host that `enter` leads to can be disturbed."""
        return True

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        return base

    def close(self) -> None:
        pass


class Ddprun(Launcher):
    name = "ddprun"
    has_spares = True

    def __init__(self, path: Path):
        super().__init__()
        self.path = str(path.absolute())
        if os.access(path, os.X_OK):
            self.version = first_line([self.path, "--version"]).removeprefix("ddprun ")
        else:
            self.missing = (f"{path} is not there; "
                            "build it with: cmake --preset release && cmake --build --preset release")

    def start(self, workers: int) -> list[str]:
        return [self.path, "--nproc-per-node", str(workers), "--no-python"]

    def restarting(self, workers: int) -> list[str]:
        return [self.path, "--max-restarts", "1", "--nproc-per-node", str(workers), "--no-python"]

    def on_host(self, place: Place) -> list[str]:
        return [*self._agent(place, str(place.nodes)), *self.restarting(PER_HOST)[1:]]

    def elastic(self, place: Place, least: int, host_timeout: float, spares: int = 0) -> list[str]:
        nodes = [str(place.nodes), "--spares", str(spares)] if spares else [f"{least}:{place.nodes}"]
        return [*self._agent(place, nodes.pop(0)), *nodes, "--max-restarts", ELASTIC_RESTARTS,
                "--host-timeout", f"{host_timeout:g}s", "--nproc-per-node", "1"]

    def _agent(self, place: Place, nodes: str) -> list[str]:
        return [self.path, "--nnodes", nodes, "--node-rank", str(place.node), "--master-addr", place.address,
                "--master-port", str(place.port)]


class DdprunCheck(Ddprun):
    name = "ddprun --check=auto"

    def elastic(self, place: Place, least: int, host_timeout: float, spares: int = 0) -> list[str]:
        return [*super().elastic(place, least, host_timeout, spares), "--check=auto"]


class DdprunStandby(Ddprun):
    name = "ddprun --standby"

    def elastic(self, place: Place, least: int, host_timeout: float, spares: int = 0) -> list[str]:
        return [*super().elastic(place, least, host_timeout, spares), "--standby"]

    def is_prepared(self, enter: list[str], environment: dict[str, str]) -> bool:
        """Each worker has a standby interpreter."""
        told = subprocess.run([*enter, self.path, "--status=json"], env=environment, capture_output=True, text=True, check=False)
        nodes = [node for job in json.loads(told.stdout or "[]") for node in job["nodes"]]
        return bool(nodes) and all(worker.get("standby") == "ready" for node in nodes for worker in node["workers"])


class Torchrun(Launcher):
    name = "torchrun"

    def __init__(self, python: str):
        super().__init__()
        beside = Path(python).parent / "torchrun"
        self.command = [str(beside)] if os.access(beside, os.X_OK) else [python, "-m", "torch.distributed.run"]
        self.version = first_line([python, "-c", "import importlib.metadata as m; print(m.version('torch'))"])
        if not self.version:
            self.missing = f"{python} has no torch"

    def start(self, workers: int) -> list[str]:
        return [*self.command, "--standalone", "--nproc-per-node", str(workers), "--no-python"]

    def restarting(self, workers: int) -> list[str]:
        return [*self.command, "--standalone", "--max-restarts", "1", "--nproc-per-node", str(workers), "--no-python"]

    def on_host(self, place: Place) -> list[str]:
        return [*self._agent(place, str(place.nodes)), "--max-restarts", "1", "--nproc-per-node", str(PER_HOST),
                "--no-python"]

    def elastic(self, place: Place, least: int, host_timeout: float, spares: int = 0) -> list[str]:
        return [*self._agent(place, f"{least}:{place.nodes}"), "--max-restarts", ELASTIC_RESTARTS,
                "--nproc-per-node", "1"]

    def _agent(self, place: Place, nodes: str) -> list[str]:
        return [*self.command, "--nnodes", nodes, "--rdzv-backend", "c10d", "--rdzv-endpoint",
                f"{place.address}:{place.port}", "--rdzv-id", "bench"]


class TorchrunOwnStore(Torchrun):
    """torchrun whose workers have a new store in each attempt, which the first of them serves. By default all attempts
    use one store, and the keys of the last attempt are still there."""

    name = "torchrun own store"

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        return {**base, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


class MpichHydra(Launcher):
    name = "mpiexec.hydra"

    def __init__(self):
        super().__init__()
        self.path = shutil.which("mpiexec.hydra")
        if self.path:
            self.version = version_in(output_of([self.path, "--version"]))
        else:
            self.missing = "not installed (Debian: mpich)"

    def start(self, workers: int) -> list[str]:
        return [self.path, "-n", str(workers)]


class OpenMpi(Launcher):
    name = "mpirun.openmpi"

    def __init__(self):
        super().__init__()
        self.path = shutil.which("mpirun.openmpi")
        if self.path:
            self.version = version_in(output_of([self.path, "--version"]))
        else:
            self.missing = "not installed (Debian: openmpi-bin)"

    def start(self, workers: int) -> list[str]:
        # Above 32 processes 4.1 starts them from several threads and then loses the ends of those that are over before
        # the last has started: mpirun waits for ever. One thread does not (measured with 4.1.4 on two cores).
        threads = ["--mca", "odls_base_num_threads", "0"] if workers > 32 else []
        return [self.path, "--oversubscribe", "--allow-run-as-root", *threads, "-np", str(workers)]


class Srun(Launcher):
    """Steps inside one allocation on one node, made here unless the benchmark already runs in a job: what is timed
    is the step, not the queue."""

    name = "srun"

    def __init__(self, variables: dict[str, str]):
        super().__init__()
        self.path = shutil.which("srun")
        self.variables = {name: value for name, value in variables.items() if name == "SLURM_CONF"}
        self.job = variables.get("SLURM_JOB_ID", "")
        self.own_job = False
        if not self.path or "SLURM_CONF" not in variables or not first_line(["sinfo", "--noheader"]):
            self.missing = "no Slurm cluster at hand"
            return
        self.version = version_in(output_of([self.path, "--version"]))
        if not self.job:
            self._allocate()

    def _allocate(self) -> None:
        said = output_of(["salloc", "--no-shell", "--job-name=ddprun-bench", "--immediate=30", "--time=30", "--nodes=1",
                          "--exclusive", "--overcommit", "--ntasks=64"], limit=60)
        granted = re.search(r"Granted job allocation (\d+)", said)
        if granted:
            self.job, self.own_job = granted[1], True
        else:
            self.missing = f"no allocation: {(said.strip().splitlines() or ['salloc said nothing'])[-1]}"

    def start(self, workers: int) -> list[str]:
        return [self.path, f"--jobid={self.job}", "--nodes=1", "--overcommit", "--overlap", f"--ntasks={workers}"]

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        return {**base, **self.variables}

    def close(self) -> None:
        if self.own_job:
            output_of(["scancel", self.job])


def clean_environment(folder: Path) -> dict[str, str]:
    """This environment without what another launcher left in it: every run has to look like one from a plain shell.
    The home is a folder of our own, so that nobody's settings count and nothing is left behind."""
    foreign = re.compile(r"(SLURM|PET|PMI|PMIX|OMPI|PRTE|HYDRA?|MPIR|PBS|TORCHELASTIC|DDPRUN)_|"
                         r"(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_(ADDR|PORT)$")
    kept = {name: value for name, value in os.environ.items() if not foreign.match(name)}
    return {**kept, "HOME": str(folder), "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}


def torch_python(given: str | None) -> str:
    """The Python that was asked for, else one with torch, which may be installed first."""
    if given:
        return os.path.abspath(given) if "/" in given else given  # commands run in another folder
    found = subprocess.run([TOP / "scripts/torch-python"], stdout=subprocess.PIPE, text=True, timeout=1800)
    return found.stdout.strip() or sys.executable


def output_of(command: list[str], limit: float = 20) -> str:
    """What a command says on both streams; nothing when it cannot run or takes too long."""
    with tempfile.TemporaryFile("w+") as said:
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, timeout=limit)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        said.seek(0)
        return said.read()


def first_line(command: list[str]) -> str:
    """The first line a command that succeeds writes on stdout."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0].strip() if done.returncode == 0 else ""


def version_in(text: str) -> str:
    found = re.search(r"\d+\.\d+(\.\d+)*", text)
    return found[0] if found else "unknown version"
