"""The lines that start the same training: torchrun's, srun's and ddprun's; used by binding and training."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
TIME_LIMIT = 180


def make_lines(python: str, ddprun: str, workers: int) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Name -> command and what it adds to the environment."""
    threads = str(max(1, len(os.sched_getaffinity(0)) // workers))
    torchrun = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(workers), "--master-port", "29556"]
    found = {
        "torchrun": (torchrun, {}),
        f"torchrun, OMP_NUM_THREADS={threads}": (torchrun, {"OMP_NUM_THREADS": threads}),
        "srun": (["srun", "-N1", f"-n{workers}", "--overlap", python], {}),
        "ddprun --bind none": ([ddprun, "--standalone", "--bind", "none", "--nproc-per-node", str(workers)], {}),
        "ddprun": ([ddprun, "--standalone", "--nproc-per-node", str(workers)], {}),
    }
    if threads != "1":  # what torchrun sets by itself as soon as there are two workers
        found["torchrun, OMP_NUM_THREADS=1"] = (torchrun, {"OMP_NUM_THREADS": "1"})
    if not shutil.which("srun") or "SLURM_JOB_ID" not in os.environ:
        del found["srun"]
    return found


def run_once(command: list[str], extra: dict[str, str], words: list[str], result: Path) -> dict:
    """What the worker, the first of `words`, left in `result`."""
    result.unlink(missing_ok=True)
    kept = {name: value for name, value in os.environ.items()
            if name != "OMP_NUM_THREADS" and (command[0] == "srun" or not name.startswith("SLURM_"))}
    python = Path(command[0]).parent
    done = subprocess.run([*command, *words], stdin=subprocess.DEVNULL,
                          env={**kept, **extra, "PATH": f"{python}:{kept['PATH']}"}, capture_output=True, text=True,
                          timeout=TIME_LIMIT)
    if done.returncode != 0 or not result.exists():
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(result.read_text())


def run_in_job(words: list[str], kept: list[Path]) -> dict:
    """The JSON that `words` print inside a job of one node: the job around this process, an emulated one, or none."""
    if "SLURM_JOB_ID" in os.environ:
        return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    sys.path.insert(0, str(TOP / "tests" / "e2e"))
    from support import slurm_cluster
    reason = slurm_cluster.why_impossible()
    if reason is not None:
        print(f"without srun: {reason}\n")
        return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    with slurm_cluster.SlurmCluster(1, kept=kept) as cluster:
        result = cluster.run("salloc", "-N1", "--exclusive", "-Q", "srun", "-N1", "-n1", "-c2", *words, timeout=3600)
    if result.code != 0:
        raise SystemExit(str(result))
    return json.loads(result.stdout)
