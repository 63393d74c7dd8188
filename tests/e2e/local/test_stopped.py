"""Processes that are stopped (SIGSTOP), and not dead: an agent, a front end, a worker."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import uuid
from pathlib import Path

from support.hosts import wait_until
from support.manual import PORT, as_text, codes, start, wait_all

# Ends once it is told to, each rank by a file of its own.
WAITING = "touch {0}/here.$TORCHELASTIC_RESTART_COUNT.$RANK; until [ -e {0}/end.$RANK ]; do sleep 0.1; done"


def start_waiting(hosts, directory, key, node, nodes, options=("--host-timeout", "7"), env=None):
    return start(hosts, node, "--key-file", key, *options, "--no-python", "sh", "-c",
                 WAITING.format(directory), nodes=nodes, env=env)


def wait_for(directory, attempt: int, ranks: int) -> None:
    wait_until(f"{ranks} workers of attempt {attempt}", lambda: len(list(directory.glob(f"here.{attempt}.*"))) == ranks)


def test_a_stopped_agent_is_named_and_lost_once_the_others_have_ended(hosts, directory, key):
    """Its reaper looks every 10 s, so that the agent is named up to 40 s after its stop, and must not be killed before."""
    marker = str(uuid.uuid4())
    agents = [start_waiting(hosts, directory, key, node, 2, ("--host-timeout", "20"), {"DDPRUN_TEST_MARKER": marker}) for node in range(2)]
    wait_for(directory, 0, 2)
    agents[1].freeze()
    for rank in range(2):
        (directory / f"end.{rank}").touch()
    coordinator = agents[0].wait()
    agents[1].thaw()
    agent = agents[1].wait()
    assert coordinator.code == 125, as_text([coordinator, agent])
    assert re.search(r"^ddprun: ddprun on b \(rank 1\), pid \d+, has not answered for [34]\d s$", coordinator.stderr, re.M), str(coordinator)
    assert re.search(r"^ddprun: lost b \(rank 1\): ddprun there has not answered for \d+ s$", coordinator.stderr, re.M), str(coordinator)
    assert re.search(r"^ddprun: ddprun on b \(pid \d+\) has been stopped \(state T\) for [34]\d s\n"
                     r"hint: `kill -CONT \d+` on b continues it$", agent.stderr, re.M), str(agent)
    assert "ddprun: killing ddprun on b (pid " in agent.stderr, str(agent)
    wait_until("no worker is left", lambda: not hosts.processes_with(f"DDPRUN_TEST_MARKER={marker}"))


def test_an_elastic_job_goes_on_without_a_stopped_agent(hosts, directory, key):
    marker = str(uuid.uuid4())
    agents = [start_waiting(hosts, directory, key, node, "2:3", env={"DDPRUN_TEST_MARKER": marker}) for node in range(3)]
    wait_for(directory, 0, 3)
    agents[2].freeze()
    for rank in range(2):
        (directory / f"end.{rank}").touch()
    wait_for(directory, 1, 2)
    results = wait_all(agents[:2])
    agents[2].thaw()
    agents[2].wait()
    assert codes(results) == [0, 0], as_text(results)
    assert "lost c (rank 2): ddprun there has not answered for " in results[0].stderr, as_text(results)
    assert "starting all workers again on 2 of 3 nodes" in results[0].stderr, as_text(results)
    wait_until("no worker is left", lambda: not hosts.processes_with(f"DDPRUN_TEST_MARKER={marker}"))


def test_an_agent_that_is_continued_in_time_is_not_lost(hosts, directory, key):
    said = directory / "said"
    line = shlex.join(["ddprun", "--nnodes", "2", "--node-rank", "0", "--master-addr", hosts["a"].address, "--master-port", PORT,
                       "--key-file", key, "--host-timeout", "60", "--no-python", "sh", "-c", WAITING.format(directory)])
    coordinator = hosts["a"].popen(["sh", "-c", f"exec {line} 2> {said}"])
    agent = start_waiting(hosts, directory, key, 1, 2, options=("--host-timeout", "60"))
    wait_for(directory, 0, 2)
    agent.freeze()
    (directory / "end.0").touch()
    wait_until("it is named", lambda: "has not answered for" in said.read_text())
    agent.thaw()
    wait_until("it answers", lambda: re.search(r"^ddprun: ddprun on b \(rank 1\) answers again, after \d+ s$", said.read_text(), re.M))
    (directory / "end.1").touch()
    results = wait_all([coordinator, agent])
    assert codes(results) == [0, 0], as_text(results) + said.read_text()


def test_a_stopped_front_end_is_named_and_gets_the_whole_output_once_it_is_continued(reachable, directory):
    said = directory / "said"
    script = WAITING.format(directory) + "; echo out $RANK"
    line = shlex.join(["ddprun", "--hosts", "b,c", "--host-timeout", "300", "--no-python", "sh", "-c", script])
    front_end = reachable["a"].popen(["sh", "-c", f"exec {line} 2> {said}"])
    wait_for(directory, 0, 2)
    front_end.freeze()
    for rank in range(2):
        (directory / f"end.{rank}").touch()
    named = r"^ddprun: ddprun on a \(pid (\d+)\) has been stopped \(state T\) for \d+ s\nhint: `kill -CONT \1` on a continues it$"
    wait_until("it is named", lambda: re.search(named, said.read_text(), re.M))
    front_end.thaw()
    result = front_end.wait()
    assert result.code == 0 and sorted(result.stdout.split("\n")) == ["", "out 0", "out 1"], str(result) + said.read_text()


def test_a_stopped_front_end_is_killed_once_its_agents_have_only_output_for_it(reachable, directory):
    script = WAITING.format(directory) + "; echo out $RANK"
    front_end = reachable["a"].popen(["ddprun", "--hosts", "b,c", "--host-timeout", "7", "--no-python", "sh", "-c", script])
    wait_for(directory, 0, 2)
    front_end.freeze()
    for rank in range(2):
        (directory / f"end.{rank}").touch()
    wait_until("its reaper has killed it", lambda: _state(front_end.pid) in ("gone", "Z"))
    front_end.thaw()
    result = front_end.wait()
    assert result.code in (-signal.SIGKILL, 128 + signal.SIGKILL), str(result)
    assert re.search(r"^ddprun: killing ddprun on a \(pid \d+\), which does not run: the job continues or ends without it, and loses "
                     r"\d+ bytes of output that it has not read$", result.stderr, re.M), str(result)


def test_a_stopped_worker_gets_the_signal_that_stops_it(machine):
    program = machine.start("--shutdown-timeout", "600", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                            "trap 'touch got.$RANK; exit 0' TERM; echo $$ > pid.$RANK; while :; do sleep 0.05; done")
    wait_until("both run", lambda: all((machine.directory / f"pid.{rank}").exists() and
                                       (machine.directory / f"pid.{rank}").read_text().strip() for rank in (0, 1)))
    os.kill(int((machine.directory / "pid.1").read_text()), signal.SIGSTOP)
    program.send_signal(signal.SIGTERM)
    result = program.wait()
    assert result.code == 143, str(result)
    assert (machine.directory / "got.0").exists() and (machine.directory / "got.1").exists()


def test_ranks_that_are_killed_after_the_timeout_are_named(machine):
    report = machine.directory / "report.json"
    program = machine.start("--shutdown-timeout", "1", "--report", str(report), "--nproc-per-node", "2", "--no-python", "sh", "-c",
                            "[ $RANK = 1 ] && trap '' TERM; touch ready.$RANK; while :; do sleep 0.05; done")
    machine.wait_for_files("ready.0", "ready.1")
    program.send_signal(signal.SIGTERM)
    result = program.wait()
    assert result.code == 143, str(result)
    assert re.search(r"^  rank 1 on \S+ was killed 1 s after SIGTERM$", result.stderr, re.M), str(result)
    (killed,) = json.loads(report.read_text())["killed_ranks"]
    assert killed["ranks"] == [1] and killed["signal"] == "SIGTERM" and killed["seconds"] >= 1, killed


def test_what_a_worker_leaves_running_is_named_and_stopped(machine):
    result = machine.run("--no-python", "sh", "-c", "setsid sleep 600 > /dev/null 2>&1 < /dev/null & sleep 0.2; exit 0")
    assert result.code == 0, str(result)
    assert re.search(r"^ddprun: stopping a process that a worker left running on \S+: sleep \(pid \d+\)\n"
                     r"hint: what workers start ends with them: ", result.stderr, re.M), str(result)


def test_an_interrupt_stops_a_ddprun_that_a_script_has_started_in_the_background(machine):
    """bash ignores SIGINT and SIGQUIT in such commands; Python installs its handlers all the same."""
    worker = "trap 'touch int; exit 0' INT; touch ready; while :; do sleep 0.05; done"
    script = (f'"$ddprun" --no-python sh -c "{worker}" & p=$!; until [ -e ready ]; do sleep 0.05; done; kill -INT $p; wait $p')
    result = machine.shell(script)
    assert result.code == 130, str(result)
    assert (machine.directory / "int").exists(), "the worker ignores the signal"
    assert "ddprun: stopped by SIGINT on " in result.stderr, str(result)


def test_nohup_stays_respected(machine):
    program = machine.start_program(["nohup", str(machine.binary), "--no-python", "sh", "-c", "touch ready; until [ -e end ]; do sleep 0.05; done"])
    machine.wait_for_files("ready")
    program.send_signal(signal.SIGHUP)
    (machine.directory / "end").touch()
    assert program.wait().code == 0


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"
