"""Submits a training with submitit, as one task per node, in each of which ddprun starts the workers:

    python submit_train.py --nodes 2 --workers 4        a job of Slurm
    python submit_train.py --cluster local              here, without a scheduler
"""

import argparse

import ddprun
import submitit


def train(workers: int, steps: int) -> int:
    """Once on every node: the ddprun processes of a job step find each other. A failed training is the job's exception."""
    return ddprun.run(["--nproc-per-node", str(workers), "train_ddp.py", "--steps", str(steps)]).code


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster", choices=("slurm", "local"), default="slurm")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="on each node")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    executor = submitit.AutoExecutor(folder="submitted", cluster=options.cluster)
    executor.update_parameters(nodes=options.nodes, tasks_per_node=1, cpus_per_task=2, timeout_min=10)
    job = executor.submit(train, options.workers, options.steps)
    print("exit codes", job.results())  # waits; raises what failed, with the worker's traceback
    print(job.stdout())


if __name__ == "__main__":
    main()
