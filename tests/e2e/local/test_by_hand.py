"""Two machines started by hand, as torchrun's users do it, and one machine alone."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import uuid

import pytest

from support import evidence
from support.manual import as_text, codes, start, start_all, wait_all
from support.hosts import HostGroup, wait_until
from support.programs import SCRIPTS

ALLREDUCE = str(SCRIPTS / "allreduce.py")
PRINT = str(SCRIPTS / "print_env.py")


@pytest.mark.usefixtures("torch_python")
def test_two_hosts(hosts, key):
    both = [start(hosts, node, "--key-file", key, ALLREDUCE) for node in (0, 1)]
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [0, 0], as_text(results)
    for rank, result in enumerate(results):
        assert f"rank {rank} of 2: sum 1" in result.stdout, str(result)


@pytest.mark.usefixtures("torch_python")
def test_standalone(hosts):
    result = hosts["a"].run(["ddprun", "--standalone", "--nproc-per-node", "2", ALLREDUCE])
    assert result.code == 0, str(result)
    assert sorted(re.findall("rank . of 2: sum 1", result.stdout)) == ["rank 0 of 2: sum 1", "rank 1 of 2: sum 1"]


def test_one_host_without_any_option(hosts, directory):
    result = hosts["a"].run(["ddprun", PRINT, str(directory)])
    assert result.code == 0, str(result)
    [worker] = evidence.workers(directory)
    assert evidence.numbers(worker, "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE") == (0, 1, 1)


def test_the_default_key_file_serves_hosts_that_share_a_home(hosts, directory):
    both = [start(hosts, node, PRINT, str(directory)) for node in (0, 1)]
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [0, 0], as_text(results)
    assert [worker["host"] for worker in evidence.workers(directory)] == ["a", "b"]


def test_hosts_numbered_on_arrival_are_all_in_the_index_of_the_logs(hosts, directory, key):
    command = ["ddprun", "--nnodes", "3", "--master-addr", hosts["a"].address, "--master-port", "29500", "--rdzv-id", "run",
               "--key-file", key, "--nproc-per-node", "2", "--logs", str(directory / "logs"), "--no-python", "true"]
    results = wait_all([hosts[name].popen(command) for name in "abc"])
    assert codes(results) == [0, 0, 0], as_text(results)
    index = json.loads((directory / "logs/run/index.json").read_text())
    assert sorted(each["rank"] for each in index["workers"]) == list(range(6))
    assert sorted(each["host"] for each in index["workers"]) == ["a", "a", "b", "b", "c", "c"]


def test_the_second_host_may_come_first(hosts, directory, key):
    before = refusals(hosts)
    second = start(hosts, 1, "--key-file", key, PRINT, str(directory))
    wait_until("the second host knocks", lambda: refusals(hosts) > before)
    first = start(hosts, 0, "--key-file", key, PRINT, str(directory))
    results = [first.wait(), second.wait()]
    assert [result.code for result in results] == [0, 0], as_text(results)


def refusals(hosts: HostGroup) -> int:
    """How many connections host a has refused so far."""
    return int(hosts["a"].check(["nstat", "-asz", "TcpOutRsts"]).split("TcpOutRsts")[1].split()[0])


def test_a_failing_worker_ends_both_with_its_code(hosts, key):
    program = ["--nproc-per-node", "2", "--no-python", "sh", "-c", "[ $RANK = 3 ] && exit 7; exec sleep 600"]
    both = [start(hosts, node, "--key-file", key, *program) for node in (0, 1)]
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [7, 7], as_text(results)
    output = results[0].output + results[1].output
    assert evidence.times_said(output, "rank 3 on b exited with code 7") == 1, output


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_ddprun_takes_its_workers_along_and_ends_the_other(hosts, directory, key, killed):
    markers = [f"DDPRUN_TEST_MARKER={uuid.uuid4()}" for _ in range(2)]
    # The grandchild leaves its parent's session, as data loaders and shells' background jobs may.
    worker = f"setsid sleep 600 & touch {directory}/ready.$RANK; wait"
    both = [start(hosts, node, "--key-file", key, "--shutdown-timeout", "2", "--no-python", "sh", "-c", worker,
                  env=dict([markers[node].split("=")])) for node in (0, 1)]
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    both[killed].send_signal(signal.SIGKILL)
    wait_until("the killed one's processes are gone", lambda: not hosts.processes_with(markers[killed]), 20)
    result = both[1 - killed].wait()
    assert result.code != 0, str(result)
    assert evidence.spoken(result.stderr), str(result)
    wait_until("no process is left", lambda: not hosts.processes_with(markers[1 - killed]), 20)
    both[killed].wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_ddprun_stops_the_other(hosts, directory, key, number):
    worker = (f"trap 'touch {directory}/stopped.$RANK; exit 0' TERM INT; touch {directory}/ready.$RANK;"
              "while :; do sleep 0.1; done")
    both = [start(hosts, node, "--key-file", key, "--no-python", "sh", "-c", worker) for node in (0, 1)]
    wait_until("both workers run", lambda: len(list(directory.glob("ready.*"))) == 2)
    both[1].send_signal(number)
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [128 + number] * 2, as_text(results)
    assert sorted(path.name for path in directory.glob("stopped.*")) == ["stopped.0", "stopped.1"], results


def test_a_wrong_key_is_refused_with_the_reason(hosts, directory, key):
    other = directory / "other"
    other.write_text("fedcba9876543210" * 4 + "\n")
    other.chmod(0o600)
    both = [start(hosts, node, "--join-timeout", "3", "--key-file", file, PRINT, str(directory))
            for node, file in enumerate((key, str(other)))]
    results = [process.wait() for process in both]
    assert all(result.code in (124, 125) for result in results), as_text(results)
    assert any("key" in line for line in evidence.spoken(results[1].stderr)), str(results[1])
    assert not evidence.workers(directory)


def test_an_unreachable_address_is_given_up_with_the_last_error(hosts, directory, key):
    results = [process.wait() for process in (
        start(hosts, 0, "--join-timeout", "3", "--key-file", key, PRINT, str(directory)),
        start(hosts, 1, "--join-timeout", "3", "--key-file", key, PRINT, str(directory), address="10.77.0.77"))]
    assert [result.code for result in results] == [124, 124], as_text(results)
    assert "1 of 2 nodes" in results[0].stderr, str(results[0])
    assert "10.77.0.77" in results[1].stderr, str(results[1])
    assert re.search("no route to (the )?host|unreachable|timed out|no answer", results[1].stderr, re.IGNORECASE), str(results[1])


def test_the_ids_of_a_run_are_the_same_on_both_hosts(hosts, directory, key):
    both = [start(hosts, node, "--key-file", key, "--nproc-per-node", "2", PRINT, str(directory)) for node in (0, 1)]
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [0, 0], as_text(results)
    workers = evidence.workers(directory)
    assert len(workers) == 4
    assert len({worker["TORCHELASTIC_RUN_ID"] for worker in workers}) == 1
    assert len({worker["DDPRUN_LAUNCH_ID"] for worker in workers}) == 1
    assert len({worker["DDPRUN_AGENT_ID"] for worker in workers}) == 2


@pytest.fixture
def gpus(hosts, directory):
    """Makes device files of NVIDIA GPUs on a host, which are /dev/null; each host has a /dev of its own then."""
    mounted = []

    def make(host, count):
        folder = directory / f"dev.{host.name}"
        folder.mkdir()
        for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        for number in range(count):
            os.mknod(folder / f"nvidia{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            (folder / f"nvidia{number}").chmod(0o666)
        (folder / "shm").mkdir(mode=0o777)
        (folder / "fd").symlink_to("/proc/self/fd")
        host.check(["mount", "--bind", str(folder), "/dev"])
        mounted.append(host)

    yield make
    for host in mounted:
        host.check(["umount", "-l", "/dev"])  # what has ended may still be ending


def test_gpus_that_are_missing_are_told_with_the_host_and_the_smaller_world(hosts, directory, key, gpus):
    for name, count in (("a", 2), ("b", 1)):
        gpus(hosts[name], count)
    both = [start(hosts, node, "--key-file", key, PRINT, str(directory), env={"CUDA_VISIBLE_DEVICES": "0,1"})
            for node in (0, 1)]
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [0, 0], as_text(results)
    assert len(evidence.workers(directory)) == 3
    assert "b: CUDA_VISIBLE_DEVICES names 2 GPUs, 1 is visible" in results[0].stderr, as_text(results)
    assert "different numbers of workers: 2 on a, 1 on b (world size 3)" in results[0].stderr, as_text(results)


def test_hosts_write_into_one_folder_of_logs(hosts, directory, key):
    """Four agents make the folder, its links and its index at the same time, over a restart."""
    script = 'echo "$(hostname) $RANK $TORCHELASTIC_RESTART_COUNT"; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK != 5 ] || exit 3'
    results = wait_all(start_all(hosts, "--key-file", key, "--nproc-per-node", "2", "--max-restarts", "1", "--rdzv-id", "job",
                                 "--logs", str(directory / "logs"), "--no-python", "sh", "-c", script, nodes=4))
    assert codes(results) == [0] * 4, as_text(results)
    run = directory / "logs/job"
    assert os.readlink(directory / "logs/latest") == "job"
    for attempt in (0, 1):
        folder = run / f"attempt-{attempt}"
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            f"rank-{rank:05}.{stream}" for rank in range(8) for stream in ("out", "err"))
        for rank in range(8) if attempt == 1 else [5]:  # the others may have been stopped before they wrote
            assert (folder / f"rank-{rank:05}.out").read_text() == f"{'abcd'[rank // 2]} {rank} {attempt}\n"
    index = json.loads((run / "index.json").read_text())
    assert [(each["attempt"], each["rank"], each["host"]) for each in index["workers"]] == [
        (attempt, rank, "abcd"[rank // 2]) for attempt in (0, 1) for rank in range(8)]
    assert [each["exit_code"] for each in index["workers"] if each["attempt"] == 1] == [0] * 8
    assert index["workers"][5]["exit_code"] == 3
