"""Ranks under every layout Slurm makes, against what Slurm itself told each task."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest

from support import evidence
from support.programs import SCRIPTS

RECORD = str(SCRIPTS / "record_step.sh")
PRINT = str(SCRIPTS / "print_env.py")


def launch(cluster, directory, srun_options, ddprun_options=(), *, env=None):
    """Runs print_env.py under `srun ddprun` and gives back the workers and Slurm's tasks."""
    result = cluster.run("srun", *srun_options, "sh", RECORD, str(directory), "ddprun", *ddprun_options, PRINT,
                         str(directory), env=env)
    assert result.code == 0, str(result)
    return evidence.workers(directory), evidence.steps(directory)


def check_one_a_task(workers, steps):
    """Each ddprun has one worker, whose ranks are Slurm's."""
    per_host = Counter(step["host"] for step in steps)
    expected = [(step["procid"], step["localid"], per_host[step["host"]], step["nodeid"], step["nodes"],
                 step["ntasks"]) for step in steps]
    assert [evidence.numbers(worker, "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                             "WORLD_SIZE") for worker in workers] == expected
    assert [worker["host"] for worker in workers] == [step["host"] for step in steps]


def check_agree(workers):
    """All workers meet at one place, in one run."""
    for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"):
        assert len({worker[name] for worker in workers}) == 1, name


@pytest.mark.parametrize("count", [1, 3])
def test_one_a_node(cluster, directory, count):
    workers, steps = launch(cluster, directory, ["-N3", "--ntasks-per-node=1"], ["--nproc-per-node", str(count)])
    node_of = {step["host"]: step["nodeid"] for step in steps}
    assert len(workers) == 3 * count
    for worker in workers:
        node = node_of[worker["host"]]
        local = int(worker["LOCAL_RANK"])
        assert evidence.numbers(worker, "RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE") == (
            node * count + local, node, count, 3 * count)
    check_agree(workers)
    assert {worker["MASTER_ADDR"] for worker in workers} == {cluster.hosts["n1"].address}


def test_one_a_node_starts_a_worker_for_every_gpu(cluster, directory):
    workers, _ = launch(cluster, directory, ["-N2", "--ntasks-per-node=1", "--gres=gpu:2"])
    assert [evidence.numbers(worker, "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE") for worker in workers] == [
        (0, 0, 2), (1, 1, 2), (2, 0, 2), (3, 1, 2)]


def test_workers_of_one_ddprun_see_their_own_place_in_slurm_s_variables(cluster, directory):
    workers, _ = launch(cluster, directory, ["-N2", "--ntasks-per-node=1"], ["--nproc-per-node", "2"])
    for worker in workers:
        assert evidence.numbers(worker, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS") == evidence.numbers(
            worker, "RANK", "LOCAL_RANK", "WORLD_SIZE")


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_one_a_task(cluster, directory, mpi):
    workers, steps = launch(cluster, directory, [f"--mpi={mpi}", "-N2", "--ntasks-per-node=2"])
    check_one_a_task(workers, steps)
    check_agree(workers)


@pytest.mark.parametrize("mpi", ["pmi2", "pmix"])
def test_one_a_node_with_mpi(cluster, directory, mpi):
    workers, _ = launch(cluster, directory, [f"--mpi={mpi}", "-N2", "--ntasks-per-node=1"],
                        ["--nproc-per-node", "2"])
    assert [evidence.numbers(worker, "RANK", "LOCAL_RANK") for worker in workers] == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert not any(name.startswith(("PMI_", "PMIX_")) for worker in workers for name in worker)


@pytest.mark.parametrize(("options", "on_first_host"), [
    pytest.param(["-N2", "--ntasks-per-node=2", "-m", "cyclic"], "0,2", id="cyclic"),
    pytest.param(["-N2", "-n4", "-m", "block"], "0,1,2", id="uneven"),
    pytest.param(["-N2", "-n4", "-m", "cyclic"], "0,2,3", id="uneven-cyclic"),
    pytest.param(["-N3", "-n6", "-m", "plane=2"], "0,1,4,5", id="plane"),
])
def test_distributions(cluster, directory, options, on_first_host):
    workers, steps = launch(cluster, directory, options)
    assert steps[0]["gtids"] == on_first_host, "Slurm does not make the layout this test is about"
    check_one_a_task(workers, steps)
    check_agree(workers)


def test_arbitrary_distribution_puts_rank_0_where_the_host_file_says(cluster, directory):
    host_file = directory / "hostfile"
    host_file.write_text("n3\nn1\nn3\nn2\n")
    workers, steps = launch(cluster, directory, ["-N3", "-n4", "-m", "arbitrary"],
                            env={"SLURM_HOSTFILE": str(host_file)})
    assert [worker["host"] for worker in workers] == ["n3", "n1", "n3", "n2"]
    check_one_a_task(workers, steps)
    check_agree(workers)


@pytest.mark.parametrize(("options", "order"), [
    pytest.param(["-N3", "-n3", "-m", "cyclic"], ["n1", "n2", "n3"], id="cyclic"),
    pytest.param(["-N3", "-n3", "-m", "plane=1"], ["n1", "n2", "n3"], id="plane"),
    pytest.param(["-N3", "-n3", "-m", "arbitrary", "-w", "n2,n3,n1"], ["n2", "n3", "n1"], id="node-list"),
    pytest.param(["-N3", "-n3", "-m", "arbitrary"], ["n3", "n1", "n2"], id="host-file"),
])
def test_with_one_a_node_the_nodes_are_in_the_order_of_slurm_s_tasks(cluster, directory, options, order):
    host_file = directory / "hostfile"
    host_file.write_text("n3\nn1\nn2\n")
    env = {"SLURM_HOSTFILE": str(host_file)} if "-w" not in options and "arbitrary" in options else None
    workers, steps = launch(cluster, directory, options, ["--nproc-per-node", "2"], env=env)
    assert [step["host"] for step in steps] == order, "Slurm does not make the layout this test is about"
    assert [worker["host"] for worker in workers] == [host for host in order for _ in range(2)]
    assert [int(worker["GROUP_RANK"]) for worker in workers] == [0, 0, 1, 1, 2, 2]
    check_agree(workers)


@pytest.mark.parametrize("lines", ["n3 n1 n2", "n3 n3 n1 n1 n2 n2"], ids=["a-line-a-node", "a-line-a-task"])
def test_self_launch_follows_the_host_file_of_the_script(cluster, directory, lines):
    host_file = directory / "hostfile"
    host_file.write_text("\n".join(lines.split()) + "\n")
    (directory / "job.sh").write_text(f"#!/bin/sh\nexport SLURM_HOSTFILE={host_file}\n"
                                      f"ddprun --nproc-per-node 2 {PRINT} {directory}\n")
    result = cluster.batch("-N3", "-w", "n[1-3]", "--ntasks-per-node=2", f"--output={directory}/output", str(directory / "job.sh"))
    assert result.code == 0, (directory / "output").read_text()
    workers = evidence.workers(directory)
    assert [worker["host"] for worker in workers] == ["n3", "n3", "n1", "n1", "n2", "n2"]
    check_agree(workers)


def test_self_launch_does_not_follow_a_host_file_of_other_hosts(cluster, directory):
    host_file = directory / "hostfile"
    host_file.write_text("n4\nn1\n")
    (directory / "job.sh").write_text(f"#!/bin/sh\nexport SLURM_HOSTFILE={host_file}\nddprun {PRINT} {directory}\n")
    result = cluster.batch("-N2", "-w", "n[1-2]", f"--output={directory}/output", str(directory / "job.sh"))
    assert result.code == 0, (directory / "output").read_text()
    assert [worker["host"] for worker in evidence.workers(directory)] == ["n1", "n2"]


def test_a_step_on_part_of_the_job(cluster, directory):
    result = cluster.run("salloc", "-N2", "srun", "-N1", "-n1", "-w", "n2", "ddprun", PRINT, str(directory))
    assert result.code == 0, str(result)
    [worker] = evidence.workers(directory)
    assert worker["host"] == "n2"
    assert evidence.numbers(worker, "RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE") == (0, 1, 1)
    notice = "\n".join(evidence.spoken(result.stderr))
    assert "1 of the job's 2 nodes" in notice and "hint: " in notice, str(result)


def test_heterogeneous_job(cluster, directory):
    result = cluster.run("salloc", "-n1", "-w", "n1", ":", "-n2", "-N2", "-w", "n2,n3", "srun", "--het-group=0,1",
                         "sh", RECORD, str(directory), "ddprun", PRINT, str(directory))
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    check_one_a_task(workers, evidence.steps(directory))
    check_agree(workers)
    assert [worker["host"] for worker in workers] == ["n1", "n2", "n3"]


def test_two_jobs_on_the_same_nodes_at_once(cluster, directory):
    command = ["srun", "-N2", "--ntasks-per-node=1", "ddprun", "--nproc-per-node", "2", PRINT, str(directory), "8"]
    jobs = [cluster.popen(*command) for _ in range(2)]
    for job in jobs:
        result = job.wait()
        assert result.code == 0, str(result)
    by_job: dict[str, set[str]] = {}
    for worker in evidence.workers(directory):
        by_job.setdefault(worker["SLURM_JOB_ID"], set()).add(worker["MASTER_PORT"])
    assert len(by_job) == 2
    first, second = by_job.values()
    assert len(first) == len(second) == 1 and first != second


def test_two_steps_of_one_job_at_once(cluster, directory):
    step = f"srun --overlap -N2 --ntasks-per-node=1 ddprun {PRINT} {directory} 4"
    result = cluster.run("salloc", "-N2", "sh", "-c", f"{step} & first=$!; {step} || exit; wait $first")
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    assert [worker["RANK"] for worker in workers] == ["0", "0", "1", "1"]
    assert len({worker["MASTER_PORT"] for worker in workers}) == 2


def test_job_array(cluster, directory):
    script = directory / "array.sh"
    script.write_text(f"#!/bin/sh\nmkdir {directory}/$SLURM_ARRAY_TASK_ID\n"
                      f"srun ddprun {PRINT} {directory}/$SLURM_ARRAY_TASK_ID\n")
    result = cluster.batch("--array=0-1", "-N2", "--ntasks-per-node=1", f"--output={directory}/out.%a", str(script))
    assert result.code == 0, str(result)
    for element in ("0", "1"):
        workers = evidence.workers(directory / element)
        assert [evidence.numbers(worker, "RANK", "WORLD_SIZE") for worker in workers] == [(0, 2), (1, 2)]
        check_agree(workers)


def test_reserved_ports_carry_the_rendezvous(reserved_ports_cluster):
    cluster = reserved_ports_cluster
    directory = cluster.home / "reserved"
    directory.mkdir()
    command = ["srun", "-N2", "--ntasks-per-node=1", "sh", RECORD, str(directory), "ddprun"]
    workers, steps = launch(cluster, directory, ["-N2", "--ntasks-per-node=1"])
    check_agree(workers)
    assert len(workers) == 2
    assert steps[0]["reserved_ports"].startswith("120")
    plan = cluster.run(*command, "--dry-run", PRINT, str(directory))
    assert plan.code == 0, str(plan)
    last = evidence.steps(directory)[0]["reserved_ports"].split("-")[-1].split(",")[-1]
    assert last in plan.stdout and "SLURM_STEP_RESV_PORTS" in plan.stdout, str(plan)


@pytest.mark.parametrize("discovery", [
    '--node-rank $rank --master-addr "$first" --master-port 29611',
    '--rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$first:29611"',
], ids=["static", "c10d"])
def test_a_step_a_node_in_a_loop_as_guides_for_torchrun_have_it(cluster, directory, discovery):
    loop = f"""
        first=$(scontrol show hostnames | head -n1); rank=0
        for node in $(scontrol show hostnames); do
          srun -N1 -n1 -w "$node" ddprun --nnodes "$SLURM_NNODES" --nproc-per-node 2 {discovery} "$@" &
          rank=$((rank + 1))
        done
        wait"""
    result = cluster.run("salloc", "-N2", "-Q", "sh", "-c", loop, "sh", PRINT, str(directory))
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    assert [worker["WORLD_SIZE"] for worker in workers] == ["4"] * 4
    check_agree(workers)


@pytest.mark.parametrize("skipped", [0, 1])
def test_a_loop_over_some_of_the_nodes_meets_at_the_address_of_any_of_them(cluster, directory, skipped):
    loop = f"""
        nodes=$(scontrol show hostnames | tail -n +{1 + skipped})
        address=$(getent hosts "$(echo "$nodes" | tail -n1)" | cut -d' ' -f1)
        for node in $nodes; do
          srun -N1 -n1 -w "$node" ddprun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d \\
            --rdzv-endpoint "$address:29611" "$@" &
        done
        wait"""
    result = cluster.run("salloc", f"-N{2 + skipped}", "-Q", "sh", "-c", loop, "sh", PRINT, str(directory))
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    assert [worker["WORLD_SIZE"] for worker in workers] == ["4"] * 4
    last = cluster.nodes[1 + skipped].name
    assert [worker["host"] for worker in workers if int(worker["RANK"]) < 2] == [last] * 2, str(workers)


def test_slurm_s_numbers_are_the_workers_on_all_nodes_where_nodes_differ(cluster, directory):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "sh", "-c",
                         f'exec ddprun --nproc-per-node $((2 - SLURM_NODEID)) {PRINT} {directory}')
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    assert [worker["host"] for worker in workers] == ["n1", "n1", "n2"]
    for worker in workers:
        assert evidence.numbers(worker, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS") == evidence.numbers(
            worker, "RANK", "LOCAL_RANK", "WORLD_SIZE")
        assert worker["SLURM_TASKS_PER_NODE"] == worker["SLURM_STEP_TASKS_PER_NODE"] == "2,1"


def test_components_that_srun_itself_made_are_one_world(cluster, directory):
    result = cluster.run("srun", "-N1", "-n1", "ddprun", PRINT, str(directory), ":", "-N1", "-n2", "ddprun", PRINT,
                         str(directory))
    assert result.code == 0, str(result)
    workers = evidence.workers(directory)
    assert [evidence.numbers(worker, "RANK", "WORLD_SIZE") for worker in workers] == [(0, 3), (1, 3), (2, 3)]


def at_a_terminal(cluster, srun_options, line):
    """What is typed into the shell of srun --pty."""
    typed = f"{line} </dev/null; echo ended with $?; exit\n"
    return cluster.run("sh", "-c", 'printf "$1" | script -qec "srun $2 --pty bash --norc -i" /dev/null', "-", typed,
                       " ".join(srun_options))


def test_a_shell_of_srun_with_a_terminal_is_a_launch_on_its_host(cluster, directory):
    result = at_a_terminal(cluster, ["-N1", "-n4", "--gres=gpu:4"], f"ddprun {PRINT} {directory}")
    assert "ended with 0" in result.output, str(result)
    workers = evidence.workers(directory)
    assert [evidence.numbers(worker, "RANK", "WORLD_SIZE") for worker in workers] == [(i, 4) for i in range(4)]


def test_a_shell_of_srun_on_several_nodes_says_what_to_start(cluster, directory):
    result = at_a_terminal(cluster, ["-N2", "-n2"], f"ddprun {PRINT} {directory}")
    assert "ended with 2" in result.output, str(result)
    assert "srun --overlap -N2 -n2 --ntasks-per-node=1 ddprun" in result.output, str(result)
    result = at_a_terminal(cluster, ["-N2", "-n2"],
                           f"srun --overlap -N2 -n2 --ntasks-per-node=1 ddprun {PRINT} {directory}")
    assert "ended with 0" in result.output, str(result)
    assert [worker["host"] for worker in evidence.workers(directory)] == ["n1", "n2"], str(result)


def test_the_time_left_is_asked_from_slurm(cluster):
    result = cluster.run("srun", "-N1", "--time=30", "ddprun", "--dry-run=json", "--no-python", "true")
    end = json.loads(result.stdout)["allocation"]["end_time"]
    assert end, str(result)
    assert 0 < end["value"] - time.time() <= 30 * 60, str(result)


def test_a_process_without_the_job_s_variables_is_told_whose_it_is(cluster, directory):
    path = cluster.hosts.environment["PATH"]
    result = cluster.run("srun", "-N1", "env", "-i", f"PATH={path}", "ddprun", PRINT, str(directory))
    assert result.code == 0, str(result)
    assert "ddprun uses n1 only: this shell belongs to Slurm job" in result.stderr, str(result)
    assert "--overlap --ntasks-per-node=1 ddprun" in result.stderr, str(result)


def test_a_container_without_the_job_s_variables_does_not_train_alone(cluster, directory):
    path = cluster.hosts.environment["PATH"]
    cleared = ["srun", "-N2", "-n2", "env", "-i", f"PATH={path}", "APPTAINER_CONTAINER=/x.sif"]
    result = cluster.run(*cleared, "ddprun", PRINT, str(directory))
    assert result.code == 125 and not list(directory.iterdir()), str(result)
    assert "SLURM_JOB_ID is not set in its container (APPTAINER_CONTAINER is set)" in result.stderr, str(result)
    assert cluster.run(*cleared, "ddprun", "--standalone", "--no-python", "true").code == 0
