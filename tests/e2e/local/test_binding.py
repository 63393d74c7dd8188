"""Where workers run and take their memory from, as they see it themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import cpus
from support.programs import SCRIPTS

PRINT = ("--no-python", sys.executable, str(SCRIPTS / "print_binding.py"))
CORES = cpus.own_cores()
ALL = set().union(*CORES)

pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="sharing out cores needs two of them")
needs_policies = pytest.mark.skipif(not Path("/proc/self/numa_maps").exists(), reason="this kernel knows no NUMA")


def run(machine, *options: str, program=PRINT, **popen):
    result = machine.run(*options, *program, **popen)
    assert result.code == 0, str(result)
    return result


def is_whole_cores(worker: set[int]) -> bool:
    return all(core <= worker or not core & worker for core in CORES)


def test_two_workers_share_the_cores_out(machine):
    result = run(machine, "--nproc-per-node", "2")
    first, second = cpus.printed(result.stdout).values()
    assert first and second and not first & second and first | second <= ALL, str(result)
    assert is_whole_cores(first) and is_whole_cores(second), str(result)
    # The script uses no store, and that is all there is to say.
    assert [line[:34] for line in result.stderr.splitlines()] == ["ddprun: no worker connected to the",
                                                                  "hint: to train together, call torc"], str(result)


def test_more_workers_than_cores_are_not_bound_and_that_is_said_once(machine):
    count = len(CORES) + 1
    result = run(machine, "--nproc-per-node", str(count))
    assert cpus.printed(result.stdout) == dict.fromkeys(range(count), ALL), str(result)
    assert result.stderr.count(" workers share ") == 1, str(result)


def test_few_cores_by_taskset(machine):
    core = ",".join(map(str, CORES[0]))
    result = machine.shell(f"taskset -c {core} $ddprun --nproc-per-node 2 {' '.join(PRINT)}")
    assert result.code == 0, str(result)
    assert cpus.printed(result.stdout) == {0: CORES[0], 1: CORES[0]}, str(result)
    assert result.stderr.count("2 workers share ") == 1, str(result)


def test_no_binding(machine):
    result = run(machine, "--bind", "none", "--nproc-per-node", "2")
    assert cpus.printed(result.stdout) == {0: ALL, 1: ALL}, str(result)
    assert cpus.launchers(result.stdout) == {0: ALL, 1: ALL}, str(result)


def test_a_worker_that_has_all_is_not_bound(machine):
    result = run(machine, "--show-binding")
    assert cpus.printed(result.stdout) == {0: ALL}, str(result)
    [(rank, binding)] = cpus.shown(result.stderr)
    assert rank == 0 and binding.count(" (not bound)") == 1, str(result)
    assert binding.replace(" (not bound)", "") == cpus.printed_bindings(result.stdout)[0], str(result)


def test_lists_as_the_user_wrote_them(machine):
    lists = [",".join(map(str, core)) for core in (CORES[1], CORES[0])]
    result = run(machine, "--bind", "cpu:" + ":".join(lists), "--nproc-per-node", "2")
    assert cpus.printed(result.stdout) == {0: CORES[1], 1: CORES[0]}, str(result)


@needs_policies
@pytest.mark.parametrize("policy, words", [("preferred", "memory preferred on node"), ("bind", "memory bound to node")])
def test_what_is_shown_is_what_the_workers_see(machine, policy, words):
    result = run(machine, "--show-binding", "--membind", policy, "--nproc-per-node", "2")
    seen = cpus.printed_bindings(result.stdout)
    assert cpus.shown(result.stderr) == sorted(seen.items()), str(result)
    assert all(words in binding for binding in seen.values()), str(result)


def test_programs_that_end_at_once_are_shown_too(machine):
    for _ in range(5):
        result = run(machine, "--show-binding", "--membind", "none", "--nproc-per-node", "2",
                     program=("--no-python", "true"))
        assert [rank for rank, _ in cpus.shown(result.stderr)] == [0, 1], str(result)


def test_a_program_that_is_not_there_is_told_as_ever(machine):
    result = machine.run("--show-binding", "--nproc-per-node", "2", "--no-python", "/no/such/program")
    assert result.code == 127 and "no such file" in result.stderr, str(result)


def test_a_restart_binds_the_same(machine):
    result = run(machine, "--show-binding", "--max-restarts", "1", "--nproc-per-node", "2", program=(*PRINT, "fail"))
    after = cpus.printed_bindings(result.stdout, attempt=1)
    assert len(after) == 2 and len(set(after.values())) == 2, str(result)
    assert cpus.shown(result.stderr)[-2:] == sorted(after.items()), str(result)
    assert cpus.shown(result.stderr)[:2] == cpus.shown(result.stderr)[2:], str(result)


def test_ddprun_itself_keeps_off_the_workers_cores(machine):
    core = ",".join(map(str, CORES[1]))
    result = run(machine, "--bind", f"cpu:{core}")
    assert cpus.printed(result.stdout) == {0: CORES[1]}, str(result)
    assert cpus.launchers(result.stdout) == {0: ALL - CORES[1]}, str(result)


def test_grandchildren_inherit(machine):
    program = ("--no-python", "sh", "-c", f"{' '.join(PRINT[1:])} | sed 's/^/again /'; exec {' '.join(PRINT[1:])}")
    result = run(machine, "--nproc-per-node", "2", program=program)
    workers = cpus.printed(result.stdout)
    below = cpus.printed(result.stdout.replace("again ", ""))
    assert len(workers) == 2 and below == workers, str(result)


@pytest.mark.parametrize("call, told", [
    ("sched_setaffinity", "cannot bind rank 0 to CPU"),
    pytest.param("set_mempolicy", "cannot set the memory policy of rank 0 on", marks=needs_policies),
])
def test_a_container_that_forbids_binding_costs_a_warning(machine, call, told):
    install = cpus.forbid(call)
    if install is None:
        pytest.skip(f"the number of {call} is not known for this machine")
    result = run(machine, "--membind", "preferred", "--nproc-per-node", "2", "--show-binding", preexec_fn=install)
    workers = cpus.printed(result.stdout)
    if call == "sched_setaffinity":
        assert workers == {0: ALL, 1: ALL}, str(result)
        assert ["(not bound)" in binding for _, binding in cpus.shown(result.stderr)] == [True] * 2, str(result)
    else:
        assert workers[0] and workers[1] and not workers[0] & workers[1], str(result)
    assert "memory" not in result.stdout, str(result)
    assert result.stderr.count(told) == 1 and result.stderr.count(": operation not permitted; ") == 1, str(result)
    assert result.stderr.count("none disables ") == 1, str(result)
