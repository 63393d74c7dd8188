"""Workers on the cores that Slurm granted. The node is this machine, so the number of its cores is what it is."""

from __future__ import annotations

import sys

import pytest

from support import cpus
from support.programs import SCRIPTS

PRINT = ("--no-python", sys.executable, str(SCRIPTS / "print_binding.py"))
CORES = cpus.own_cores()
ALL = set().union(*CORES)

pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="sharing out cores needs two of them")


def launch(cluster, srun_options, *options):
    result = cluster.run("srun", *srun_options, "ddprun", *options, *PRINT)
    assert result.code == 0, str(result)
    return result, cpus.printed(result.stdout)


def assert_disjoint(workers: dict[int, set[int]], result) -> None:
    assert sorted(workers) == list(range(len(workers))) and len(workers) > 1, str(result)
    assert all(workers.values()), str(result)
    assert sum(map(len, workers.values())) == len(set().union(*workers.values())), str(result)


def granted_to_tasks(cluster, srun_options) -> dict[int, set[int]]:
    """What each task has from Slurm, without ddprun."""
    told = cluster.run("srun", "--label", *srun_options, "sh", "-c", "grep Cpus_allowed_list /proc/self/status")
    assert told.code == 0, str(told)
    lines = [line.split(":") for line in told.stdout.splitlines()]
    return {int(task): cpus.parse_list(mask.strip()) for task, _, mask in lines}


def test_one_agent_with_all_cores_shares_them_out(pinning_cluster):
    options = ["-n1", f"-c{len(ALL)}"]
    assert granted_to_tasks(pinning_cluster, options) == {0: ALL}
    result, workers = launch(pinning_cluster, options, "--nproc-per-node", "2")
    assert_disjoint(workers, result)
    assert "core" not in result.stderr and "--cpus-per-task" not in result.stderr, str(result)


def test_plain_srun_grants_one_core_and_what_gives_more_is_named(pinning_cluster):
    [granted] = granted_to_tasks(pinning_cluster, ["-n1"]).values()
    assert granted in CORES
    result, workers = launch(pinning_cluster, ["-n1"], "--nproc-per-node", "2")
    assert workers == {0: granted, 1: granted}, str(result)
    assert "#SBATCH --cpus-per-task=2, and srun --cpus-per-task=2 " in result.stderr, str(result)


def test_a_job_of_one_core_that_ddprun_started_itself_in(pinning_cluster):
    result = pinning_cluster.batch("--ntasks=1", "--output=one-core", "--wrap",
                                   f"ddprun --nproc-per-node 2 {' '.join(PRINT)}")
    told = (pinning_cluster.home / "one-core").read_text()
    assert result.code == 0 and "2 workers share" in told and "srun" not in told, told


def test_the_recipes_give_each_task_what_the_job_has_for_it(pinning_cluster):
    # With --cpu-bind=cores, the default of many sites, plain srun gives a task one core.
    recipe = 'srun --cpu-bind=cores --cpus-per-task="$SLURM_CPUS_PER_TASK" ddprun ' + " ".join(PRINT)
    result = pinning_cluster.batch("--ntasks=1", f"--cpus-per-task={len(ALL)}", "--output=recipe", "--wrap", recipe)
    told = (pinning_cluster.home / "recipe").read_text()
    assert result.code == 0 and cpus.printed(told) == {0: ALL}, told


def test_without_cpu_bind(pinning_cluster):
    result, workers = launch(pinning_cluster, ["-n1", f"-c{len(ALL)}", "--cpu-bind=none"], "--nproc-per-node", "2")
    assert_disjoint(workers, result)


@pytest.mark.parametrize("show", [[], ["--show-binding"]], ids=["", "shown"])
def test_tasks_that_slurm_has_bound_stay_there(pinning_cluster, show):
    options = ["-n2", "-c1"]
    granted = granted_to_tasks(pinning_cluster, options)
    result, workers = launch(pinning_cluster, options, *show)
    assert workers == granted, str(result)
    assert "core" not in result.stderr and "--cpus-per-task" not in result.stderr, str(result)


def test_tasks_with_the_same_wide_mask_agree(pinning_cluster):
    options = ["-n2", f"-c{len(ALL) // 2}", "--cpu-bind=none"]
    granted = granted_to_tasks(pinning_cluster, options)
    assert granted[0] == granted[1] and len(granted[0]) > 1
    result, workers = launch(pinning_cluster, options, "--show-binding")
    assert_disjoint(workers, result)
    assert set().union(*workers.values()) == granted[0], str(result)
    assert sorted(cpus.shown(result.stderr)) == sorted(cpus.printed_bindings(result.stdout).items()), str(result)


def test_tasks_agree_where_only_the_rendezvous_tells_that_they_share(pinning_cluster):
    # By this count each task has CPUs of its own, so none of them plans for the other.
    result = pinning_cluster.run("srun", "-n2", "--cpu-bind=none", "env", "SLURM_CPUS_ON_NODE=100000", "ddprun", *PRINT)
    assert result.code == 0, str(result)
    assert_disjoint(cpus.printed(result.stdout), result)


def test_tasks_keep_out_of_each_other_s_way_after_a_restart(pinning_cluster):
    result = pinning_cluster.run("srun", "-n2", "--cpu-bind=none", "ddprun", "--max-restarts", "1", *PRINT, "fail")
    assert result.code == 0, str(result)
    assert_disjoint(cpus.printed(result.stdout, attempt=1), result)


def test_a_step_narrowed_on_purpose(pinning_cluster):
    core = ",".join(map(str, sorted(CORES[1])))
    result = pinning_cluster.run("srun", "-n1", f"-c{len(ALL)}", "taskset", "-c", core, "ddprun", *PRINT)
    assert result.code == 0 and cpus.printed(result.stdout) == {0: CORES[1]}, str(result)
