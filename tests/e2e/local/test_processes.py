"""Workers' processes: endings that others hold back, orphans, what SIGKILL does not end, and what is left on disk."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.manual import as_text, codes, start, start_all, wait_all, wait_for_files
from support.hosts import wait_until
from support.machine import Machine, Program, python_program

TOP = Path(__file__).parents[3]
HOLD_ENDING = TOP / "tests/programs/hold_ending.py"
FREEZER = Path("/sys/fs/cgroup/freezer")
# Ends with $1 once it is told to.
OBEDIENT = "echo $$ > pid.$RANK.new; mv pid.$RANK.new pid.$RANK; while [ ! -e end ]; do sleep 0.02; done; exit $1"


def pid_of_worker(machine: Machine, rank: int = 0) -> int:
    machine.wait_for_files(f"pid.{rank}")
    return int((machine.directory / f"pid.{rank}").read_text())


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def tracer_of(pid: int) -> Iterator[subprocess.Popen[str]]:
    tracer = subprocess.Popen([sys.executable, HOLD_ENDING, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
    try:
        if tracer.stdout.readline() != "attached\n":
            pytest.skip("ptrace(2) is not allowed here")
        yield tracer
    finally:
        tracer.stdin.close()
        tracer.stdout.close()
        tracer.wait()


def hear_of_end(program: Program, tracer: subprocess.Popen[str]) -> None:
    """The tracer knows that the worker has ended, and ddprun has seen all it can see by itself and sleeps."""
    assert tracer.stdout.readline() == "ended\n"
    wait_until("ddprun sleeps", lambda: state_of(program.pid) == "S")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_ends_when_a_tracer_lets_go_of_its_worker(machine, workers):
    program = machine.start("--nproc-per-node", str(workers), "--no-python", "sh", "-c", OBEDIENT, "sh", "7")
    pids = [pid_of_worker(machine, rank) for rank in range(workers)]
    with tracer_of(pids[-1]) as tracer:
        (machine.directory / "end").touch()
        hear_of_end(program, tracer)
        time.sleep(0.5)  # as one who reads the debugger's screen
    result = program.wait()
    assert result.code == 7, str(result)


def test_a_worker_that_a_tracer_holds_is_told_and_awaited(machine):
    file = machine.directory / "stderr"
    with file.open("w") as stderr:
        program = machine.start("--shutdown-timeout", "1", "--no-python", "sh", "-c", OBEDIENT, "sh", "0",
                                stderr=stderr)
    pid = pid_of_worker(machine)
    with tracer_of(pid) as tracer:
        (machine.directory / "end").touch()
        hear_of_end(program, tracer)
        program.send_signal(signal.SIGTERM)
        wait_until("it is told", lambda: file.read_text().count("\n") == 2)
        said = file.read_text()
        name = Path(f"/proc/{tracer.pid}/comm").read_text().strip()
    result = program.wait()
    assert said.startswith("ddprun: rank 0 on "), said
    assert said.endswith(f" has not ended 3 s after SIGKILL: pid {pid} (sh) is traced by {name} (pid {tracer.pid}), "
                         f"which has not released it\nhint: detach the tracer or end it: kill {tracer.pid}\n"), said
    assert result.code == 143, str(result)
    assert "did not stop its workers" not in file.read_text(), file.read_text()


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A cgroup whose processes no signal ends: as near to a hanging driver as a healthy machine comes."""
    group = FREEZER / f"ddprun-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as why:
        pytest.skip(f"no cgroup v1 freezer: {why}")
    yield group
    (group / "freezer.state").write_text("THAWED")
    wait_until("the frozen processes are gone", lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def freeze(group: Path, pid: int) -> None:
    """A shell that waits in vfork() for its frozen child never freezes: both are let go, and frozen again."""
    state = group / "freezer.state"
    (group / "cgroup.procs").write_text(str(pid))

    def is_frozen() -> bool:
        state.write_text("FROZEN")
        for _ in range(25):
            if state.read_text() == "FROZEN\n":
                return True
            time.sleep(0.02)
        state.write_text("THAWED")
        return False

    wait_until("it is frozen", is_frozen)


def test_a_worker_in_uninterruptible_sleep_is_told_with_its_wait_channel_and_does_not_keep_the_job(machine, freezer):
    program = machine.start("--nproc-per-node", "2", "--shutdown-timeout", "1", "--no-python", "sh", "-c", OBEDIENT,
                            "sh", "0")
    pid = pid_of_worker(machine, 1)
    pid_of_worker(machine, 0)
    freeze(freezer, pid)
    program.send_signal(signal.SIGTERM)
    result = program.wait()
    (freezer / "freezer.state").write_text("THAWED")
    assert result.code == 143, str(result)
    assert re.search(rf"ddprun: rank 1 on \S+ has not ended 3 s after SIGKILL: pid {pid} \(sh\) is in uninterruptible "
                     r"sleep \(state D\)( in \w+)?\nhint: a driver, a file system or a frozen cgroup blocks it, and no "
                     r"signal ends it; see dmesg on ", result.stderr), str(result)


def test_what_a_worker_leaves_in_uninterruptible_sleep_is_told_and_changes_nothing(machine, freezer):
    script = "setsid sh -c 'echo $$ > new; mv new pid.0; exec sleep 600' & until [ -e end ]; do sleep 0.02; done"
    program = machine.start("--no-python", "sh", "-c", script)
    pid = pid_of_worker(machine)
    freeze(freezer, pid)
    (machine.directory / "end").touch()
    result = program.wait()
    (freezer / "freezer.state").write_text("THAWED")
    assert result.code == 0, str(result)
    assert "a process that a worker left behind on " in result.stderr, str(result)
    assert f"has not ended 10 s after SIGKILL: pid {pid} (" in result.stderr, str(result)


def test_background_commands_leave_no_zombies(machine):
    count = """
import os
def zombies_of(parent):
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] == "Z" and int(fields[1]) == parent:
            yield name
for _ in range(1000):
    os.system("true &")
"""
    # The last one may be ending just now.
    wait = """
import time
deadline = time.monotonic() + 20
while left := list(zombies_of(os.getppid())):
    if time.monotonic() > deadline:
        break
    time.sleep(0.01)
print(len(left))
"""
    result = machine.run(*python_program(count + wait))
    assert (result.code, result.stdout) == (0, "0\n"), str(result)


def test_orphans_are_reaped_behind_a_rank_that_has_ended(machine):
    """Rank 0 has ended, and keeps its number to the end of the attempt."""
    program = """
import os, time
if os.environ["RANK"] == "0":
    raise SystemExit
def state_of(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
while state_of(int(open("pid.0").read())) != "Z":
    time.sleep(0.01)
os.system("sh -c 'echo $$ > orphan' &")
while not os.path.exists("orphan") or not (number := open("orphan").read()):
    time.sleep(0.01)
deadline = time.monotonic() + 20
while os.path.exists("/proc/" + number.strip()) and time.monotonic() < deadline:
    time.sleep(0.01)
print(os.path.exists("/proc/" + number.strip()))
"""
    script = 'echo $$ > pid.$RANK.new; mv pid.$RANK.new pid.$RANK; until [ -e pid.0 ]; do sleep 0.01; done; exec "$@"'
    result = machine.run("--nproc-per-node", "2", "--no-python", "sh", "-c", script, "sh", sys.executable, "-c",
                         program)
    assert (result.code, result.stdout) == (0, "False\n"), str(result)


NAMESPACE = """
before() { echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid; }
before $2; sleep 600 & bystander=$!
before $1; "$ddprun" --no-python sh -c 'touch ran' & wait $!
echo "code $? of $!"
kill -0 $bystander && echo "$bystander is there"
kill -KILL $bystander
"""


def test_in_a_pid_namespace_with_anothers_proc_no_foreign_process_is_signalled(machine):
    """ddprun gets the number of a process outside, and a bystander that of its child: by /proc one is the other's."""
    outside = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    child = int(outside.stdout.readline())
    try:
        result = machine.start_program(["unshare", "--pid", "--fork", "sh", "-c", NAMESPACE, "sh", str(outside.pid),
                                        str(child)], env={"ddprun": machine.binary}).wait()
    finally:
        os.kill(child, signal.SIGKILL)
        outside.kill()
        outside.communicate()
    if "Operation not permitted" in result.stderr or f"of {outside.pid}\n" not in result.stdout:
        pytest.skip(f"no PID namespace with numbers of our choice here: {result}")
    assert result.stdout == f"code 0 of {outside.pid}\n{child} is there\n", str(result)
    assert result.stderr.startswith("ddprun: /proc on "), str(result)
    said = " does not show this process' PID namespace: processes that workers leave behind outside their process " \
           "groups are not stopped\nhint: mount the namespace's own /proc: unshare --mount-proc"
    assert said in result.stderr, str(result)


def test_in_a_pid_namespace_with_anothers_proc_the_workers_groups_are_stopped(machine):
    script = "trap '' TERM; sleep 600 & echo $! > left; exit 0"
    inner = ('"$ddprun" --no-python sh -c "$1"; echo "code $?"; '
             'for i in $(seq 50); do kill -0 $(cat left) 2> /dev/null || exit 0; sleep 0.1; done; echo left')
    result = machine.start_program(["unshare", "--pid", "--fork", "sh", "-c", inner, "sh", script],
                                   env={"ddprun": machine.binary}).wait()
    if "Operation not permitted" in result.stderr:
        pytest.skip(f"no PID namespace here: {result.stderr}")
    assert result.stdout == "code 0\n", str(result)


CATCHER = """
for number in 24 25 26 27 35; do trap "echo $number >> got" $number; done; trap 'echo USR1 >> got' USR1
touch ready; while [ ! -e end ]; do sleep 0.02; done
"""


def test_warnings_reach_the_workers_and_signals_of_our_own_timers_end_nothing(machine):
    program = machine.start("--no-python", "bash", "-c", CATCHER)
    machine.wait_for_files("ready")
    got = machine.directory / "got"
    for number in (signal.SIGVTALRM, signal.SIGPROF, signal.SIGXFSZ):
        program.send_signal(number)
    for number in (signal.SIGXCPU, 35, signal.SIGUSR1):  # one after the other: a shell runs its traps by number
        before = got.read_text() if got.exists() else ""
        program.send_signal(number)
        wait_until(f"the worker has {number}", lambda: got.exists() and got.read_text() != before)
    (machine.directory / "end").touch()
    result = program.wait()
    assert result.code == 0, str(result)
    assert got.read_text() == "24\n35\nUSR1\n"


def test_a_restart_on_the_highest_port_does_not_run_off_the_end(machine):
    script = '[ $TORCHELASTIC_RESTART_COUNT = 2 ] && echo $MASTER_PORT || exit 1'
    result = machine.run("--nproc-per-node", "2", "--master-port", "65535", "--max-restarts", "3",
                         "--restart-policy", "always", "--no-python", "sh", "-c", script)
    assert result.code == 0, str(result)
    assert result.stdout == "65535\n" * 2, str(result)


def test_only_the_current_attempts_folder_is_kept(machine):
    script = 'cd "${TORCHELASTIC_ERROR_FILE%/*}/.."; ls; exit 1'
    result = machine.run("--max-restarts", "3", "--restart-policy", "always", "--no-python", "sh", "-c", script)
    assert result.stdout == "attempt_0\nattempt_1\nattempt_2\nattempt_3\n", str(result)


def test_a_ddprun_that_is_killed_at_any_moment_leaves_no_file(machine):
    moments = random.Random(7)
    for _ in range(20):
        program = machine.start("--max-restarts", "1000000", "--restart-policy", "always", "--no-python", "sh", "-c",
                                "echo {} > $TORCHELASTIC_ERROR_FILE; sleep 0.02; exit 1")
        machine.start_program(["sleep", str(moments.uniform(0, 0.15))]).wait()
        program.send_signal(signal.SIGKILL)
        program.wait()
    machine.check_nothing_is_left()


def pid_here(marker: str, inner: int) -> int:
    """Hosts have PID namespaces of their own: our number of their process with this one."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            process = Path(f"/proc/{entry}")
            if marker.encode() in (process / "environ").read_bytes():
                numbers = (process / "status").read_text().partition("NSpid:")[2].split("\n")[0].split()
                if int(numbers[-1]) == inner and b"RANK=1\0" in (process / "environ").read_bytes():
                    return int(entry)
    raise AssertionError(f"no process {inner} with {marker}")


def test_a_stuck_worker_of_one_host_ends_the_job_on_all_hosts_without_a_restart(hosts, directory, key, freezer):
    program = (f"echo $$ > {directory}/new.$RANK; mv {directory}/new.$RANK {directory}/pid.$RANK;"
               f"until [ -e {directory}/end ]; do sleep 0.05; done; exit 3")
    marker = str(uuid.uuid4())
    both = start_all(hosts, "--key-file", key, "--max-restarts", "3", "--shutdown-timeout", "1", "--no-python", "sh",
                     "-c", program, env={"DDPRUN_TEST_MARKER": marker})
    wait_for_files(directory, "pid.*", 2)
    freeze(freezer, pid_here(marker, int((directory / "pid.1").read_text())))
    (directory / "end").touch()
    results = wait_all(both)
    (freezer / "freezer.state").write_text("THAWED")
    assert codes(results) == [125, 125], as_text(results)
    assert "SIGKILL has not ended the workers of b (rank 1)" in results[0].stderr, as_text(results)
    assert "rank 1 on b has not ended 3 s after SIGKILL: pid " in results[1].stderr, as_text(results)
    assert "restart 1" not in as_text(results), as_text(results)


def test_a_spare_takes_the_place_of_a_host_with_a_stuck_worker(hosts, directory, key, freezer):
    program = (f"place={directory}/$TORCHELASTIC_RESTART_COUNT.$RANK; echo $$ $(hostname) > $place.new; mv $place.new $place;"
               f"[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit; until [ -e {directory}/end ]; do sleep 0.05; done; exit 3")
    marker = str(uuid.uuid4())
    agents = [start(hosts, node, "--key-file", key, "--spares", "1", "--max-restarts", "1", "--shutdown-timeout", "1",
                    "--rdzv-conf", "last_call_timeout=20", "--no-python", "sh", "-c", program, nodes="3",
                    env={"DDPRUN_TEST_MARKER": marker}) for node in range(3)]
    wait_for_files(directory, "0.?", 2)
    freeze(freezer, pid_here(marker, int((directory / "0.1").read_text().split()[0])))
    (directory / "end").touch()
    results = wait_all(agents)
    (freezer / "freezer.state").write_text("THAWED")
    assert codes(results) == [0, 125, 0], as_text(results)
    assert "lost b (rank 1): SIGKILL has not ended its workers" in results[0].stderr, as_text(results)
    assert "ddprun: c replaces b" in results[0].stderr, as_text(results)
    assert [(directory / f"1.{rank}").read_text().split()[1] for rank in range(2)] == ["a", "c"]


def test_restarts_leave_no_descriptors_and_no_files_behind(binary):
    """By the benchmark, which is thereby shown to work; how fast anything is does not count here."""
    shown = subprocess.run([TOP / "scripts/bench/restarts", "--ddprun", binary, "--at", "100", "300"], text=True,
                           capture_output=True, timeout=120, check=True).stdout.splitlines()
    assert shown[0].split() == ["restart", "100", "restart", "300", "last", ":", "first"], shown
    rows = {line[:24].strip(): [float(word) for word in line[24:].split()] for line in shown[1:]}
    assert list(rows)[2:] == ["memory, MiB", "open descriptors", "files and folders"], shown
    assert max(rows["files and folders"][:2]) <= 2, shown  # the folder and that of the attempt
    # A look falls into the middle of an attempt now and then, with its pipes open.
    assert rows["open descriptors"][1] < rows["open descriptors"][0] + 10, shown
