"""What torchrun's own tests ask for (torch: test/distributed/launcher/test_run.py), on one machine."""

from __future__ import annotations

import json
import os
import socket
import sys

import pytest

from support import programs
from support.hosts import Result
from support.machine import Machine
from support.ports import free_port

TOUCH = ("--no-python", "sh", "-c", "touch $RANK.of.$WORLD_SIZE")
DUMP = "import json, os; open(os.environ['RANK'] + '.' + os.environ['TORCHELASTIC_RESTART_COUNT'], 'w')" \
       ".write(json.dumps(dict(os.environ)))"
ALLREDUCE = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method=sys.argv[1], rank=int(os.environ["RANK"]),
                        world_size=int(os.environ["WORLD_SIZE"]))
total = torch.ones(1)
dist.all_reduce(total)
assert total.item() == dist.get_world_size(), total
dist.destroy_process_group()
print("sum", int(total.item()), "launched", dist.is_torchelastic_launched())
"""


def files(machine: Machine) -> set[str]:
    return {path.name for path in machine.directory.iterdir()}


def script(machine: Machine, name: str, text: str) -> str:
    (machine.directory / name).write_text(text)
    return name


def environments(machine: Machine) -> dict[str, dict[str, str]]:
    return {path.name: json.loads(path.read_text()) for path in machine.directory.glob("[0-9].[0-9]")}


def succeed(result: Result) -> Result:
    assert result.code == 0, str(result)
    return result


@pytest.mark.parametrize("options", [
    ["--nproc-per-node=4"], ["--nproc_per_node", "4"], ["--nnodes=1", "--nproc-per-node=4", "--node-rank=0"],
    ["--standalone", "--nproc-per-node=4"], ["--nnodes=1:1", "--nproc-per-node=4", "--rdzv-backend=c10d",
     "--rdzv-id=job", "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'", "--monitor-interval=1",
     "--start-method=spawn", "--max-restarts=0"],
])
def test_four_workers(machine, options):
    succeed(machine.run(*options, *TOUCH))
    assert files(machine) == {f"{rank}.of.4" for rank in range(4)}


def test_one_worker_by_default(machine):
    succeed(machine.run(*TOUCH))
    assert files(machine) == {"0.of.1"}


def test_options_from_the_environment_only(machine):
    name = script(machine, "touch.sh", "touch $RANK.of.$WORLD_SIZE.$TORCHELASTIC_RUN_ID.$TORCHELASTIC_MAX_RESTARTS")
    result = machine.run("sh", name, env={"PET_NPROC_PER_NODE": "2", "PET_NO_PYTHON": "1", "PET_MODULE": "0",
                                          "PET_RDZV_ID": "job", "PET_MAX_RESTARTS": "3"})
    succeed(result)
    assert files(machine) == {name, "0.of.2.job.3", "1.of.2.job.3"}


@pytest.mark.parametrize("options", [["-m", "trainer"], ["--module", "trainer"], ["--run-path", "trainer.py"],
                                     ["trainer.py"]])
def test_ways_to_name_a_python_program(machine, options):
    script(machine, "trainer.py", "import os, sys\nassert __name__ == '__main__'\n"
           "open('arguments.' + os.environ['RANK'], 'w').write(' '.join(sys.argv[1:]))\n")
    succeed(machine.run("--nproc-per-node", "2", *options, "--epochs", "3"))
    for rank in (0, 1):
        assert (machine.directory / f"arguments.{rank}").read_text() == "--epochs 3"


def test_the_local_rank_macro(machine):
    result = machine.run("--nproc-per-node", "2", "--no-python", "echo", "--local-rank=${local_rank}", "$HOME")
    assert sorted(succeed(result).stdout.splitlines()) == [f"--local-rank={rank} $HOME" for rank in (0, 1)]


def test_a_virtual_local_rank(machine):
    result = machine.run("--nproc-per-node", "2", "--virtual-local-rank", "--no-python", "sh", "-c",
                         "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES", env={"CUDA_VISIBLE_DEVICES": "5,7"})
    assert sorted(succeed(result).stdout.splitlines()) == ["0 0 5", "1 0 7"]


@pytest.mark.parametrize("choose", ["PYTHON_EXEC", "VIRTUAL_ENV"])
def test_which_python(machine, choose):
    python = machine.directory / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho chosen \"$@\"\n")
    python.chmod(0o755)
    value = {"PYTHON_EXEC": str(python), "VIRTUAL_ENV": str(machine.directory)}[choose]
    on_path = {"PATH": f"{python.parent}:{os.environ['PATH']}"} if choose == "VIRTUAL_ENV" else {}
    result = machine.run(script(machine, "x.py", ""), "--flag", env={choose: value, **on_path})
    assert succeed(result).stdout == "chosen -u x.py --flag\n"


def test_an_environment_that_another_python_on_path_hides_is_not_the_active_one(machine):
    for name in ("left", "loaded"):
        python = machine.directory / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho {name}\n")
        python.chmod(0o755)
        (python.parent / "python3").symlink_to("python")
    folders = [str(machine.directory / name / "bin") for name in ("loaded", "left")]
    environment = {"VIRTUAL_ENV": f"{machine.directory}/left", "PATH": ":".join([*folders, os.environ["PATH"]])}
    assert succeed(machine.run(script(machine, "x.py", ""), env=environment)).stdout == "loaded\n"


def test_a_python_that_is_not_there_is_named(machine):
    result = machine.run(script(machine, "x.py", ""), env={"PYTHON_EXEC": "/nowhere/python"})
    assert result.code == 2 and "PYTHON_EXEC=/nowhere/python" in result.stderr, str(result)
    succeed(machine.run("--no-python", "true", env={"PYTHON_EXEC": "/nowhere/python"}))


def test_a_script_that_only_path_has_is_named_by_its_path(machine):
    (machine.directory / "bin").mkdir()
    (machine.directory / "bin" / "only.py").touch(0o755)
    result = machine.run("only.py", env={"PATH": f"{machine.directory}/bin:{os.environ['PATH']}"})
    assert result.code == 127 and f"write {machine.directory}/bin/only.py" in result.stderr, str(result)


def test_master_port_is_exactly_the_one_asked_for_and_later_attempts_count_up(machine):
    port = free_port()
    name = script(machine, "port.sh", "n=$TORCHELASTIC_RESTART_COUNT; echo $MASTER_PORT > $RANK.$n.part; "
                  "mv $RANK.$n.part $RANK.$n; while [ ! -e $((1 - RANK)).$n ]; do sleep 0.05; done; exit $((n < 2))")
    program = ["--no-python", "sh", name]
    succeed(machine.run("--nproc-per-node", "2", "--max-restarts", "2", "--restart-policy", "always",
                        "--master-port", str(port), *program))
    seen = {path.name: int(path.read_text()) for path in machine.directory.glob("[0-9].[0-9]")}
    assert seen["0.0"] == seen["1.0"] == port, seen
    assert port < seen["0.1"] == seen["1.1"] < seen["0.2"] == seen["1.2"] < port + 64, seen


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_master_port_is_named(machine, workers):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = machine.run("--nproc-per-node", workers, "--master-port", port, *TOUCH)
    assert result.code == 125, str(result)
    assert port in result.stderr and "address already in use" in result.stderr.lower(), str(result)
    assert "--master-port" in result.stderr, str(result)
    assert files(machine) == set()


def torch_pythons() -> list:
    """Every Python with torch there is: the one named for the tests, and the system's."""
    found = [str(programs.torch_python()), "/usr/bin/python3"]
    return list(dict.fromkeys(found))


@pytest.fixture(params=torch_pythons())
def python(request, machine) -> str:
    probe = machine.start_program([request.param, "-c", "import importlib.util as util, sys;"
                                   "sys.exit(util.find_spec('torch') is None)"]).wait()
    if probe.code != 0:
        pytest.skip(f"{request.param} has no torch")
    return request.param


@pytest.mark.parametrize("method, workers", [("env://", 1), ("env://", 2), ("tcp://", 2)])
def test_process_groups_form(machine, python, method, workers):
    options = ["--nproc-per-node", str(workers)]
    if method == "tcp://":
        port = free_port()
        method += f"127.0.0.1:{port}"
        options += ["--master-port", str(port)]
    result = machine.run(*options, script(machine, "sum.py", ALLREDUCE), method, env={"PYTHON_EXEC": python})
    assert succeed(result).stdout == f"sum {workers} launched True\n" * workers


def test_a_script_that_spawns_its_own_world_under_a_world_of_one(machine, python):
    name = script(machine, "spawning.py", """
import os
import torch.distributed as dist, torch.multiprocessing as mp

def main(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.barrier()
    print(f"rank {rank}\\n", end="", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(main, (%d,), nprocs=2)
""" % free_port())
    result = machine.run(name, env={"PYTHON_EXEC": python})
    assert sorted(succeed(result).stdout.splitlines()) == ["rank 0", "rank 1"]


def test_the_same_environment_as_torchrun(machine, torch_python):
    """Same names; same values but for those that are each launcher's own."""
    options = ["--nproc-per-node", "2", "--max-restarts", "1", "--role", "trainer"]
    worker = ["--no-python", sys.executable, "-c", DUMP]
    own = {"TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_RUN_ID", "MASTER_PORT", "MASTER_ADDR", "DDPRUN_AGENT_ID",
           "DDPRUN_LAUNCH_ID", "DDPRUN_PROGRESS_FILE", "DDPRUN_WORKER_VARIABLES", "DDPRUN_INSPECT", "PYTHONPATH", "PYTHONUNBUFFERED",
           "TORCH_FR_BUFFER_SIZE", "TMPDIR", "_", "PWD", "OLDPWD", "SHLVL"}
    succeed(machine.start_program([str(torch_python), "-m", "torch.distributed.run", *options, *worker],
                                  env={"TMPDIR": str(machine.directory)}).wait())
    theirs = environments(machine)
    succeed(machine.run(*options, *worker))
    ours = environments(machine)
    assert theirs.keys() == ours.keys() == {"0.0", "1.0"}
    for worker_name, expected in theirs.items():
        got = ours[worker_name]
        differences = {name: (expected.get(name), got.get(name)) for name in expected.keys() | got.keys()
                       if name not in own and expected.get(name) != got.get(name)}
        differences.pop("OMP_NUM_THREADS", None)  # torchrun: 1; ddprun: its share of the cores
        assert differences == {}, worker_name
        assert own & expected.keys() - got.keys() == set()
        assert int(got["OMP_NUM_THREADS"]) >= 1


def test_a_recorded_exception_is_reported(machine, torch_python):
    name = script(machine, "fails.py", """
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    raise ValueError("the data are gone")

main()
""")
    result = machine.run("--nproc-per-node", "2", name, env={"PYTHON_EXEC": str(torch_python)})
    assert result.code == 1, str(result)
    report = result.stderr[result.stderr.rindex("ddprun: rank"):]
    assert "ValueError: the data are gone" in report and "its error:" in report, str(result)


WATCHED = """
import json, os, sys, time
def ask(scope, expires):
    with open(os.environ["TORCHELASTIC_TIMER_FILE"], "w") as pipe:
        pipe.write(json.dumps({"version": 1, "pid": os.getpid(), "scope_id": scope, "expiration_time": expires,
                               "signal": 9}) + "\\n")
ask("done", time.time() + 600)
ask("done", -1)
if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    ask("step", time.time() - 1)
    time.sleep(600)
open(os.environ["RANK"] + ".done." + os.environ["TORCHELASTIC_RESTART_COUNT"], "w")
"""


@pytest.mark.parametrize("named", [False, True])
def test_a_watchdog_timer_that_expires_is_a_failure_of_its_worker(machine, named):
    variables = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}
    if named:
        variables["TORCHELASTIC_TIMER_FILE"] = str(machine.directory / "pipe")
    name = script(machine, "watched.py", WATCHED)
    result = succeed(machine.run("--nproc-per-node=2", "--max-restarts=1", name, env=variables))
    assert "the watchdog timer 'step' of rank 1 on" in result.stderr, str(result)
    assert "was killed by SIGKILL" in result.stderr, str(result)
    assert {"0.done.1", "1.done.1"} <= files(machine)
    assert not (machine.directory / "pipe").exists()


def test_without_the_variable_there_is_no_watchdog(machine):
    succeed(machine.run("--no-python", "sh", "-c", '[ -z "$TORCHELASTIC_TIMER_FILE" ]'))
