"""What people type who come from the guides: exported variables, scripts that start ranks themselves, keys that differ,
environments that differ, and ddprun's own account of the rendezvous."""

from __future__ import annotations

import json
import re
import socket
import sys
from contextlib import contextmanager

import pytest

from support import evidence, programs
from support.manual import as_text, start
from support.ports import free_port
from support.programs import SCRIPTS

PRINT_ENV = str(SCRIPTS / "print_env.py")
SPAWN_FAILS = str(SCRIPTS / "guides" / "spawn_fails.py")
UNUSED = "no worker connected to the store that torch.distributed uses: the script ran 2 times"


@contextmanager
def taken_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        yield str(listener.getsockname()[1])


def printed_environment(machine, *options: str, env=None) -> list[dict]:
    directory = machine.directory / "evidence"
    directory.mkdir()
    result = machine.run("--nproc-per-node", "2", *options, sys.executable, PRINT_ENV, str(directory), env=env)
    assert result.code == 0, str(result)
    return evidence.workers(directory)


def plan(machine, *options: str, env=None) -> dict:
    result = machine.run("--dry-run=json", *options, "--no-python", "true", env=env)
    assert result.code == 0, str(result)
    return json.loads(result.stdout)


def test_an_exported_master_port_reaches_the_workers(machine):
    port = str(free_port())
    workers = printed_environment(machine, env={"MASTER_PORT": port, "MASTER_ADDR": "localhost"})
    assert [worker["MASTER_PORT"] for worker in workers] == [port, port]
    assert [worker["MASTER_ADDR"] for worker in workers] == ["localhost", "localhost"]


def test_the_plan_says_that_the_port_is_exported(machine):
    origins = plan(machine, env={"MASTER_PORT": "29600"})["workers"][0]["origins"]
    assert origins["MASTER_PORT"] == "MASTER_PORT of the environment"


def test_a_taken_master_port_is_an_error_that_names_the_variable(machine):
    with taken_port() as port:
        result = machine.run("--nproc-per-node", "2", "--no-python", "true", env={"MASTER_PORT": port})
    assert result.code == 125, str(result)
    assert f"cannot listen on port {port}" in result.stderr, str(result)
    assert "choose another MASTER_PORT, or unset it" in result.stderr, str(result)


def test_a_ddprun_that_a_worker_starts_does_not_take_the_port_of_its_store(machine):
    result = machine.run("--nproc-per-node", "2", "--no-python", machine.binary, "--nproc-per-node", "2", "--no-python",
                         "sh", "-c", "echo inner $MASTER_PORT")
    assert result.code == 0, str(result)
    ports = re.findall(r"inner (\d+)", result.stdout)
    assert len(ports) == 4 and len(set(ports)) == 2, str(result)


def test_a_leftover_master_addr_is_said_and_not_followed(machine):
    result = machine.run("--no-python", "sh", "-c", "echo address $MASTER_ADDR", env={"MASTER_ADDR": "login7"})
    assert result.code == 0 and "address 127.0.0.1" in result.stdout, str(result)
    assert "MASTER_ADDR=login7 of the environment is ignored: no other host takes part" in result.stderr


def test_two_hosts_by_hand_meet_at_exported_variables(hosts, key):
    env = {"MASTER_ADDR": hosts["a"].address, "MASTER_PORT": "29611"}
    both = [hosts["ab"[node]].popen(["ddprun", "--nnodes", "2", "--node-rank", str(node), "--key-file", key,
                                     "--no-python", "sh", "-c", "echo at $MASTER_ADDR:$MASTER_PORT"], env=env)
            for node in (0, 1)]
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [0, 0], as_text(results)
    for result in results:
        assert f"at {hosts['a'].address}:29611" in result.stdout, as_text(results)


def test_each_worker_of_one_gpu_sees_its_own(machine):
    env = {"CUDA_VISIBLE_DEVICES": "3,5"}
    seen = plan(machine, "--gpus-per-worker", "1", env=env)["workers"]
    assert [(worker["env"]["CUDA_VISIBLE_DEVICES"], worker["env"]["LOCAL_RANK"]) for worker in seen] == \
        [("3", "0"), ("5", "0")]


def test_more_threads_than_cores_are_said_with_both_numbers(machine):
    result = machine.run("--nproc-per-node", "2", "--no-python", "true", env={"OMP_NUM_THREADS": "4096"})
    assert result.code == 0, str(result)
    assert re.search(r"OMP_NUM_THREADS=4096 of the environment is more than the \d+ cores? that each worker has",
                     result.stderr), str(result)
    assert result.stderr.count("OMP_NUM_THREADS=4096") == 1, str(result)


@pytest.mark.usefixtures("torch_python")
def test_a_script_that_starts_ranks_itself_gets_a_hint(hosts):
    result = hosts["a"].run(["ddprun", "--nproc-per-node", "2", SPAWN_FAILS])
    assert result.code != 0, str(result)
    assert "hint: each of several workers starts ranks of its own (torch.multiprocessing.spawn)" in result.stderr, str(result)


def test_torchs_abort_at_exit_gets_a_hint(machine):
    script = "echo 'terminate called without an active exception' >&2; kill -ABRT $$"
    result = machine.run("--no-python", "sh", "-c", script)
    assert result.code == 134, str(result)
    assert "hint: Python exited without destroy_process_group() while a thread of gloo" in result.stderr, str(result)


def test_a_script_without_torch_is_told_that_it_ran_once_a_worker(machine):
    script = machine.directory / "plain.py"
    script.write_text("print('done')\n")
    result = machine.run("--nproc-per-node", "2", str(script))
    assert result.code == 0 and result.stdout.count("done") == 2, str(result)
    assert result.stderr.count(UNUSED) == 1, str(result)


def test_other_programs_and_single_workers_are_not_asked_about_the_store(machine):
    script = machine.directory / "plain.py"
    script.write_text("print('done')\n")
    for arguments in (["--nproc-per-node", "2", "--no-python", "hostname"], [str(script)]):
        result = machine.run(*arguments)
        assert result.code == 0 and result.stderr == "", str(result)


@pytest.mark.usefixtures("torch_python")
def test_a_script_that_trains_together_hears_nothing_about_the_store(machine):
    result = machine.run("--nproc-per-node", "2", str(SCRIPTS / "allreduce.py"),
                         env={"PYTHON_EXEC": str(programs.torch_python())})
    assert result.code == 0 and "store" not in result.stderr, str(result)


def test_keys_that_differ_are_answered_with_the_line_that_copies_one(hosts, directory):
    homes = []
    for name, digits in (("first", "0123456789abcdef"), ("second", "fedcba9876543210")):
        folder = directory / name / ".ddprun"
        folder.mkdir(parents=True)
        (folder / "key").write_text(digits * 4 + "\n")
        (folder / "key").chmod(0o600)
        homes.append(str(directory / name))
    first, second = (start(hosts, node, "--join-timeout", limit, "--no-python", "true", env={"HOME": homes[node]})
                     for node, limit in ((0, "3"), (1, "8")))
    results = [first.wait(), second.wait()]
    assert [result.code for result in results] == [124, 124], as_text(results)
    line = f"scp {hosts['a'].address}:.ddprun/key ~/.ddprun/key"
    assert line in results[0].stderr and line in results[1].stderr, as_text(results)
    # Node 0 has left by then, and its refusal is still the cause.
    end = [text for text in results[1].stderr.splitlines() if "cannot join the coordinator" in text]
    assert len(end) == 1 and "the key files of the two hosts differ" in end[0] and line in end[0], str(results[1])


def fake_environment(folder, torch: str) -> str:
    """An interpreter that runs anything, with a torch of that version beside it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text("version = 3.11.2\ninclude-system-site-packages = false\n")
    package = folder / "lib" / "python3.11" / "site-packages" / "torch"
    package.mkdir(parents=True)
    (package / "version.py").write_text(f"__version__ = '{torch}'\n")
    return str(folder / "bin" / "python3")


@pytest.mark.parametrize("second, said", [("1.13.0a0", 1), ("2.13.0", 0)])
def test_hosts_with_unlike_torch_are_named(hosts, directory, key, second, said):
    script = directory / "plain.py"
    script.write_text("pass\n")
    pythons = [fake_environment(directory / "one", "2.13.0"), fake_environment(directory / "two", second)]
    both = [start(hosts, node, "--key-file", key, str(script), env={"PYTHON_EXEC": pythons[node]})
            for node in (0, 1)]
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [0, 0], as_text(results)
    text = "".join(result.stderr for result in results)
    assert text.count("the nodes have different versions") == said, as_text(results)
    if said:
        assert re.search(r"torch 1\.13\.0a0 with Python 3\.11 on b, torch 2\.13\.0 with Python 3\.11 on a", text)


def test_verbose_shows_each_step_of_the_rendezvous(hosts, key):
    both = [start(hosts, node, "--key-file", key, "--no-python", "true", env={"LOGLEVEL": "INFO"}) for node in (0, 1)]
    results = [process.wait() for process in both]
    assert [result.code for result in results] == [0, 0], as_text(results)
    time = r"ddprun: \d\d:\d\d:\d\d\.\d\d\d "
    address = re.escape(hosts["a"].address)
    for expected in ("coordinating 2 agents on port 29500", r"\S+ authenticated with a key file",
                     "b joins as number 1 of 2 with 1 worker, reached this host at " + address,
                     f"all nodes have joined; MASTER_ADDR is {address}", r"the store listens on port \d+",
                     rf"attempt 0: 2 workers on 2 nodes, {address}:\d+; rank 0 here, interface \S+"):
        assert re.search(time + "a: " + expected, results[0].stderr), f"{expected}\n{results[0]}"
    for expected in (f"looking for the coordinator: {address}, port 29500", f"dialling {address} port 29500",
                     f"{address} port 29500: both sides authenticated with a key file",
                     rf"joining the coordinator .*{address}.* from \S+",
                     r"attempt 0: .*; rank 1 here, interface \S+"):
        assert re.search(time + "b: " + expected, results[1].stderr), f"{expected}\n{results[1]}"


def test_values_of_a_site_may_name_variables(machine):
    site = machine.directory / "ours.json"
    site.write_text(json.dumps({"format": 1, "name": "ours", "environment": {
        "TORCHINDUCTOR_CACHE_DIR": "$SCRATCH/inductor", "TRITON_CACHE_DIR": "~/triton", "OTHER": "${NOWHERE}/x"}}))
    result = machine.run("--site", str(site), "--no-python", "sh", "-c",
                         "echo $TORCHINDUCTOR_CACHE_DIR $TRITON_CACHE_DIR ${OTHER-unset}",
                         env={"SCRATCH": "/scratch/u", "HOME": "/home/u"})
    assert result.code == 0 and "/scratch/u/inductor /home/u/triton unset" in result.stdout, str(result)
    assert "NOWHERE is not set: OTHER is left out" in result.stderr, str(result)
