"""Two machines as a service starts them: its variables alone, and homes of their own."""

from __future__ import annotations

import json
import signal

import pytest

from support.manual import as_text, codes, wait_all, wait_for_files

SECRET = {"DDPRUN_SECRET": "0123456789abcdef0123456789abcdef"}
PRINT = ["--no-python", "sh", "-c", "echo rank $RANK of $WORLD_SIZE: $MASTER_ADDR ${DDPRUN_SECRET:-none}"]


def skypilot(hosts, node: int) -> dict[str, str]:
    return {"SKYPILOT_NODE_IPS": f"{hosts['a'].address}\n{hosts['b'].address}", "SKYPILOT_NODE_RANK": str(node),
            "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NUM_GPUS_PER_NODE": "2", "SKYPILOT_TASK_ID": "sky-1"}


def aws_batch(hosts, node: int) -> dict[str, str]:
    main = {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": hosts["a"].address} if node else {}
    return {"AWS_BATCH_JOB_ID": f"6d1c#{node}", "AWS_BATCH_JOB_NUM_NODES": "2", "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0",
            "AWS_BATCH_JOB_NODE_INDEX": str(node)} | main


def pods(hosts, node: int) -> dict[str, str]:
    return {"MASTER_ADDR": "a", "MASTER_PORT": "23456", "RANK": str(node), "WORLD_SIZE": "2"}


def kubeflow(hosts, node: int) -> dict[str, str]:
    return {"PET_NNODES": "2", "PET_NODE_RANK": str(node), "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "23456"}


def start(hosts, directory, place, node: int, *options: str, env=None, program=PRINT):
    home = directory / f"home-{node}"
    home.mkdir(exist_ok=True)
    variables = {"HOME": str(home)} | place(hosts, node) | (env or {})
    return hosts["ab"[node]].popen(["ddprun", *options, *program], env=variables)


@pytest.mark.parametrize(("place", "workers"), [(skypilot, 2), (aws_batch, 1), (pods, 1)])
def test_the_variables_of_a_place_are_enough(hosts, directory, place, workers):
    results = wait_all([start(hosts, directory, place, node, env=SECRET) for node in (0, 1)])
    assert codes(results) == [0, 0], as_text(results)
    lines = sorted(line for result in results for line in result.stdout.splitlines())
    assert lines == [f"rank {rank} of {2 * workers}: {hosts['a'].address} none" for rank in range(2 * workers)]


@pytest.mark.parametrize("place", [pods, kubeflow])
def test_a_pod_that_is_started_again_is_taken_back(hosts, directory, place):
    wait = (f"touch {directory}/up.$TORCHELASTIC_RESTART_COUNT.$RANK; until [ -e {directory}/end ]; do sleep 0.05; done; "
            "echo rank $RANK of $WORLD_SIZE")

    def start_one(node: int):
        return start(hosts, directory, place, node, "--max-restarts", "1", env=SECRET, program=["--no-python", "sh", "-c", wait])

    agents = [start_one(node) for node in (0, 1)]
    wait_for_files(directory, "up.0.*", 2)
    agents[1].send_signal(signal.SIGKILL)
    agents[1].wait()
    agents[1] = start_one(1)
    wait_for_files(directory, "up.1.*", 2)
    (directory / "end").touch()
    results = wait_all(agents)
    assert codes(results) == [0, 0], as_text(results)
    assert [result.stdout for result in results] == ["rank 0 of 2\n", "rank 1 of 2\n"], as_text(results)


def test_without_a_secret_the_refusal_says_how_to_give_one(hosts, directory):
    results = wait_all([start(hosts, directory, skypilot, node, "--join-timeout", "3s") for node in (0, 1)])
    assert codes(results) == [124, 124], as_text(results)
    for result in results:
        assert "set DDPRUN_SECRET to the same value on every node" in result.stderr, str(result)


def test_a_key_file_on_a_shared_volume_does_as_well(hosts, directory, key):
    results = wait_all([start(hosts, directory, skypilot, node, "--key-file", key) for node in (0, 1)])
    assert codes(results) == [0, 0], as_text(results)


def test_files_of_a_place_are_read(machine):
    result = machine.run("--dry-run=json", "true", env={"JOB_COMPLETION_INDEX": "0", "NNODES": "2"})
    captured = machine.run("--capture", "-", "true", env={"JOB_COMPLETION_INDEX": "0"})
    assert result.code == 0 and "/etc/hosts" in json.loads(captured.stdout)["files"], str(result) + str(captured)
