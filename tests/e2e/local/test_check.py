"""--check: every fault of a node or a link is found and named, and a sound cluster gives no false alarm."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import file_systems
from support.hosts import HostGroup, Result, wait_until
from support.manual import as_text, codes, start, start_all, wait_all, wait_for_files
from support.slow_link import slow_link

NODES = 4


def check(hosts: HostGroup, key: str, *arguments: str, nodes: int = NODES, env=None) -> Result:
    """On all hosts, as started by hand; the answer of the first."""
    processes = [start(hosts, node, "--key-file", key, "--check", *arguments, nodes=nodes, env=(env or {}).get("abcd"[node]))
                 for node in range(nodes)]
    results = wait_all(processes)
    for other in results[1:]:
        assert other.code == results[0].code and other.stdout == "", as_text(results)
    return results[0]


def findings(result: Result) -> list[tuple[str, str]]:
    """Mark and sentence."""
    return re.findall(r"^  (error|warning): (.*)\n    fix: .", result.stdout, re.M)


def said(result: Result, mark: str, sentence: str) -> bool:
    return any(mark == found and re.fullmatch(sentence, text) for found, text in findings(result))


def expect(result: Result, mark: str, sentence: str) -> None:
    """This finding and no other one."""
    assert said(result, mark, sentence) and len(findings(result)) == 1, str(result)
    assert result.stdout.count("    fix: ") == 1 and result.stderr == "", str(result)
    assert result.code == (1 if mark == "error" else 0), str(result)


def test_a_sound_cluster_is_sound(hosts, key):
    result = check(hosts, key)
    assert (result.code, result.stderr, findings(result)) == (0, "", []), str(result)
    lines = result.stdout.splitlines()
    assert lines[0].split()[:5] == ["node", "address", "MTU", "latency", "bandwidth"], str(result)
    for name, line in zip("abcd", lines[1:]):
        latency = r"\d+ us|[\d.]+ ms"
        assert re.match(rf"{name} +{hosts[name].address} fabric0 +1500 +({latency if name != 'a' else ''}) *[\d.]+ [KMG]iB/s to {'bcda'['abcd'.index(name)]} ",
                        line), str(result)
    assert lines[-1].startswith("checked 4 nodes in ") and lines[-1].endswith(": nothing is wrong"), str(result)


def test_several_workers_of_a_node_are_one_node(hosts, key):
    result = check(hosts, key, "--nproc-per-node", "2", "train.py", nodes=2)
    assert result.code == 0 and "checked 2 nodes in " in result.stdout, str(result)


def test_json_has_every_record_and_finding(hosts, key):
    with limited(hosts, "c", "-n 30") as env:
        result = check(hosts, key, "--check=json", env=env)
    report = json.loads(result.stdout)
    assert (result.code, report["result"]) == (1, "failed")
    assert [node["host"] for node in report["nodes"]] == ["a", "b", "c", "d"]
    assert all(node["connections"][-1]["rate"] > 0 for node in report["nodes"])
    [finding] = report["findings"]
    assert (finding["mark"], finding["subject"], finding["nodes"]) == ("error", "limits", ["c"]), finding


def test_without_a_network_one_machine_is_checked(machine):
    result = machine.run("--check")
    assert result.code == 0 and "checked 1 node in " in result.stdout, str(result)


# What is provoked, and the one finding that it leads to.

@contextmanager
def limited(hosts: HostGroup, name: str, limit: str) -> Iterator[dict]:
    """ddprun of this host runs with another limit."""
    folder = hosts.directory / "limited"
    folder.mkdir()
    program = folder / "ddprun"
    real = hosts[name].check(["sh", "-c", "command -v ddprun"]).strip()
    program.write_text(f"#!/bin/sh\nulimit {limit}\nexec {real} \"$@\"\n")
    program.chmod(0o755)
    path = hosts.environment["PATH"]
    try:
        yield {name: {"PATH": f"{folder}:{path}"}}
    finally:
        shutil.rmtree(folder)


def test_few_open_files(hosts, key):
    with limited(hosts, "b", "-Sn 24") as env:
        expect(check(hosts, key, env=env), "error",
               r"b: limits: a process may open 24 files \(ulimit -n\); data loaders and connections between ranks need more")


def test_a_limit_of_files_that_is_low_but_enough_for_the_workers_fails_no_check(hosts, key):
    """32 and one for each worker suffice; the job that is checked runs with that limit."""
    for files, code, result in ((32, 1, "failed"), (33, 0, "passed")):
        with limited(hosts, "b", f"-Sn {files}") as env:
            checked = check(hosts, key, "--check=json", env=env)
        report = json.loads(checked.stdout)
        assert (checked.code, report["result"]) == (code, result), str(checked)
        [finding] = report["findings"]
        assert (finding["mark"], finding["subject"], finding["nodes"]) == ("error" if code else "warning", "limits", ["b"]), finding
        assert f" {files} files (ulimit -n)" in finding["what"], finding


def rules(rule: str) -> str:
    return f"table inet check {{\nchain input {{\ntype filter hook input priority 0;\n{rule}\n}}\n}}"


def test_a_firewall_between_two_nodes(hosts, key):
    if shutil.which("nft") is None:
        pytest.skip("nft is not installed")
    hosts["c"].check(["nft", rules(f"ip saddr {hosts['b'].address} tcp flags & (syn|ack) == syn drop")])
    try:
        expect(check(hosts, key), "error",
               rf"b: connection: cannot connect to c \({hosts['c'].address}\), port \d+: no answer within 3 s")
    finally:
        hosts["c"].check(["nft", "delete", "table", "inet", "check"])


def test_another_mtu(hosts, key):
    hosts["d"].check(["ip", "link", "set", "fabric0", "mtu", "1400"])
    try:
        expect(check(hosts, key), "warning", r"d: MTU: the nodes differ in MTU: 1400 on d, 1500 on \[a-c\]|"
                                             r"d: MTU: the nodes differ in MTU: 1400 on d, 1500 on a,b,c")
    finally:
        hosts["d"].check(["ip", "link", "set", "fabric0", "mtu", "1500"])


def test_a_link_that_drops_long_packets(hosts, key):
    """A switch of a smaller MTU than its hosts, whose ICMP does not come back."""
    if shutil.which("nft") is None:
        pytest.skip("nft is not installed")
    hosts["c"].check(["nft", rules(f"ip saddr {hosts['b'].address} meta length > 1000 drop")])
    try:
        result = check(hosts, key)
        assert said(result, "error", rf"b: connection: short messages arrive at c \({hosts['c'].address}\), long ones do not"), str(result)
        assert result.code == 1
    finally:
        hosts["c"].check(["nft", "delete", "table", "inet", "check"])


def test_a_slow_link(hosts, key):
    """200 ms of latency."""
    with slow_link(hosts, "c", loss_percent=0):
        result = check(hosts, key)
    assert said(result, "warning", rf"c: latency: a message to a \({hosts['a'].address}\) and its answer need [2-4]\d\d ms; .*"), str(result)
    assert result.code == 0, str(result)


def test_an_own_name_on_loopback(hosts, key):
    """Debian's 127.0.1.1. gloo is told the interface by ddprun, so it is a warning."""
    hosts["b"].write_names(["127.0.1.1 b", *(f"{hosts[name].address} {name}" for name in "acd")])
    try:
        result = check(hosts, key)
        assert said(result, "warning", r"b: names: its own name resolves to 127.0.1.1, an address that no other node reaches"), str(result)
        assert result.code == 0, str(result)
        assert check(hosts, key, "--strict").code == 1
    finally:
        hosts.use_plain_names()


def test_a_full_shared_memory(hosts, key):
    hosts["c"].check(["mount", "-t", "tmpfs", "-o", "size=4m", "none", "/dev/shm"])
    try:
        expect(check(hosts, key), "error",
               r"c: shared memory: /dev/shm has 4 MiB free of 4 MiB; data loaders and NCCL share memory there and end with SIGBUS when it is full")
    finally:
        hosts["c"].check(["umount", "/dev/shm"])


def test_a_folder_for_logs_that_is_missing(hosts, key, directory):
    result = check(hosts, key, "--log-dir", str(directory / "nowhere"), nodes=2)
    assert said(result, "error", rf"a,b: disk: cannot write to {directory}/nowhere \(log folder\): no such file or directory|"
                                 rf"\[a-b\]: disk: cannot write to {directory}/nowhere \(log folder\): no such file or directory"), str(result)


def test_another_torch(hosts, key, directory):
    for name, version in (("a", "2.13.0"), ("b", "2.15.0")):
        package = directory / name / "torch"
        package.mkdir(parents=True)
        (package / "version.py").write_text(f"__version__ = '{version}'\n")
    env = {name: {"PYTHONPATH": str(directory / name), "PYTHON_EXEC": sys.executable} for name in "ab"}
    result = check(hosts, key, nodes=2, env=env)
    assert said(result, "error", r"a,b: torch: the nodes differ in torch: 2.13.0 on a, 2.15.0 on b|"
                                 r"\[a-b\]: torch: the nodes differ in torch: 2.13.0 on a, 2.15.0 on b"), str(result)


def compile_library(folder: Path, text: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / "late.c").write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "late.so", "late.c"], cwd=folder, check=True)
    return folder / "late.so"


# Puts a process' time of day 90 s ahead, and leaves its other clocks alone.
LATE = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec* time) {
  int result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME && result == 0) time->tv_sec += 90;
  return result;
}
"""


def test_another_clock(hosts, key, directory):
    env = {"d": {"LD_PRELOAD": str(compile_library(directory, LATE))}}
    result = check(hosts, key, env=env)
    assert said(result, "warning", r"d: clock: its clock is (89|90)(\.\d+)? s ahead of that of a"), str(result)


def test_variables_that_hurt(hosts, key):
    env = {"b": {"GLOO_SOCKET_IFNAME": "eth7"}}
    expect(check(hosts, key, nodes=2, env=env), "error",
           r"b: variables: GLOO_SOCKET_IFNAME=eth7 names no interface that is up \(lo, fabric0\)")
    env = {name: {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"} for name in "ab"}
    result = check(hosts, key, nodes=2, env=env)
    assert said(result, "warning", r".*: variables: TORCH_DISTRIBUTED_DEBUG=DETAIL checks every collective .*"), str(result)


def test_a_node_that_does_not_come_is_named(hosts, key):
    hosts["b"].unplug()
    try:
        results = wait_all([start(hosts, node, "--key-file", key, "--check", "--join-timeout", "3") for node in range(2)])
    finally:
        hosts["b"].plug_in_again()
    assert results[0].code != 0 and "waiting for 1 of 2 nodes: node rank 1" in results[0].stderr, as_text(results)


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_node_that_hangs_in_its_check_is_named_and_ends(hosts, key, nodes):
    """Stopped while the others wait for its record; of two nodes the other one is then alone."""
    name, rank = "abc"[nodes - 1], nodes - 1
    processes = start_all(hosts, "--key-file", key, "--check", nodes=nodes)
    def worker() -> list[int]:
        return [pid for pid, line in hosts[name].processes().items() if "--check-node" in line]
    for pid in wait_until(f"the check runs on {name}", worker):
        subprocess.run(["kill", "-STOP", str(pid)], check=False)
    results = wait_all(processes)
    assert results[0].code == 1 and re.search(rf"error: ({name}: check: .* sent no result|a: check: rank {rank} did not report)", results[0].stdout), as_text(results)


def test_nodes_that_fail_are_named_in_a_file(hosts, key, directory):
    names = directory / "bad-nodes"
    with limited(hosts, "c", "-Sn 24") as env:
        assert check(hosts, key, "--exclude-file", str(names), nodes=3, env=env).code == 1
    assert names.read_text() == "c\n"
    assert check(hosts, key, "--exclude-file", str(names), nodes=2).code == 0
    assert names.read_text() == ""


def test_a_real_all_reduce(hosts, key, torch_python):
    env = {name: {"PYTHON_EXEC": str(torch_python)} for name in "ab"}
    result = check(hosts, key, "--check=deep", "--nproc-per-node", "2", nodes=2, env=env)
    assert result.code == 0 and findings(result) == [], str(result)
    assert re.search(r"^all-reduce by gloo on 4 ranks, bus bandwidth: 64 KiB at [\d.]+ [KMG]iB/s, 1 MiB at .*, 16 MiB at ", result.stdout, re.M), str(result)


def test_a_real_all_reduce_without_torch(hosts, key, directory):
    program = directory / "python3"
    program.write_text("#!/bin/sh\necho 'no python today' >&2\nexit 3\n")
    program.chmod(0o755)
    env = {name: {"PYTHON_EXEC": str(program)} for name in "ab"}
    result = check(hosts, key, "--check=deep", nodes=2, env=env)
    assert result.code == 1 and said(result, "error", r"a,b: torch: ranks 0-1: no python today"), str(result)
    env["b"] = {}
    result = check(hosts, key, "--check=deep", nodes=2, env=env)
    assert result.code == 1 and "torch was not tried, because of the errors\n" in result.stdout, str(result)


def test_the_table_shows_the_switches_of_each_node(hosts, key):
    env = {name: {"SLURM_TOPOLOGY_ADDR": f"s0.leaf{number}.{name}", "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"}
           for number, name in enumerate("ab", start=1)}
    result = check(hosts, key, "--check", nodes=2, env=env)
    assert "switches" in result.stdout.splitlines()[0], str(result)
    assert re.search(r"^a .* s0/leaf1 ", result.stdout, re.M) and re.search(r"^b .* s0/leaf2 ", result.stdout, re.M), str(result)


# --check=auto

SAY = ["--no-python", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"]


def test_before_a_job_only_what_is_wrong_is_told(hosts, key):
    results = wait_all(start_all(hosts, "--key-file", key, "--check=auto", *SAY))
    assert [(result.code, result.stderr) for result in results] == [(0, ""), (0, "")], as_text(results)
    with limited(hosts, "b", "-Sn 24") as env:
        results = wait_all([start(hosts, node, "--key-file", key, "--check=auto", *SAY, env=env.get("ab"[node])) for node in range(2)])
    assert [result.code for result in results] == [0, 0] and results[0].stderr == "", as_text(results)
    assert "limits on b: a process may open 24 files" in results[1].stderr and "hint: " in results[1].stderr, as_text(results)


def test_a_node_that_fails_is_left_out_where_there_are_spares(hosts, key, directory):
    names = directory / "bad-nodes"
    with limited(hosts, "b", "-Sn 24") as env:
        results = wait_all([start(hosts, node, "--key-file", key, "--check=auto", "--spares", "1", "--exclude-file", str(names), *SAY,
                                  nodes=3, env=env.get("abc"[node])) for node in range(3)])
    assert [results[0].code, results[2].code] == [0, 0] and results[1].code != 0, as_text(results)
    assert results[0].stdout + results[2].stdout == "rank 0 of 2\nrank 1 of 2\n", as_text(results)
    assert "limits on b: a process may open 24 files" in results[0].stderr and "the job starts without it" in results[0].stderr, as_text(results)
    assert names.read_text() == "b\n"


def test_a_node_that_has_become_unfit_is_left_before_a_restart(hosts, key, directory):
    names = directory / "bad-nodes"
    noted = "echo $RANK on $(hostname) > {0}/$TORCHELASTIC_RESTART_COUNT.$RANK; until [ -e {0}/end ]; do "
    work = noted + "[ $RANK = 1 ] || [ ! -e {0}/fail.$TORCHELASTIC_RESTART_COUNT ] || exit 3; sleep 0.05; done"
    full = False
    try:
        agents = [start(hosts, node, "--key-file", key, "--check=auto", "--spares", "1", "--max-restarts", "3", "--restart-policy",
                        "always", "--exclude-file", str(names), "--no-python", "sh", "-c", work.format(directory), nodes=3) for node in range(3)]
        wait_for_files(directory, "0.*", 2)
        (directory / "fail.0").touch()  # of rank 0, while all nodes are fit
        wait_for_files(directory, "1.*", 2)
        hosts["b"].check(["mount", "-t", "tmpfs", "-o", "size=4m", "none", "/dev/shm"])
        full = True
        (directory / "fail.1").touch()
        wait_for_files(directory, "2.*", 2)
        assert {attempt: (directory / f"{attempt}.1").read_text() for attempt in range(3)} == {
            0: "1 on b\n", 1: "1 on b\n", 2: "1 on c\n"}
        (directory / "end").touch()
        results = wait_all(agents)
    finally:
        if full:
            hosts["b"].check(["umount", "/dev/shm"])
    assert [results[0].code, results[2].code] == [0, 0] and results[1].code == 125, as_text(results)
    assert "ddprun: b is unfit for another attempt: shared memory: /dev/shm has " in results[0].stderr, as_text(results)
    assert "lost b (rank 1): it is unfit for another attempt; starting all workers again on 2 of 2 nodes" in results[0].stderr
    assert "ddprun: c replaces b\n" in results[0].stderr, as_text(results)
    assert names.read_text() == "b\n"


@pytest.mark.parametrize("path, before, after, reason", [
    ("/proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable: 2000000 kB\n", "MemTotal: 2000000 kB\nMemAvailable: 500 kB\n",
     r"memory: 500 KiB are free, and the workers had used .*iB"),
    ("/sys/devices/system/cpu/online", "0-63\n", "0-61\n", "CPUs: 62 CPUs are online, 64 before")], ids=["memory", "CPUs"])
def test_a_node_with_less_than_before_is_left_before_a_restart(hosts, key, directory, path, before, after, reason):
    shown = directory / "shown"
    shown.write_text(before)
    noted = "echo $RANK on $(hostname) > {0}/$TORCHELASTIC_RESTART_COUNT.$RANK; until [ -e {0}/end ]; do "
    work = (noted + "[ $RANK$TORCHELASTIC_RESTART_COUNT = 00 ] && [ -e {0}/fail ] && exit 3; sleep 0.05; done").format(directory)
    hosts["b"].check(["mount", "--bind", str(shown), path])
    try:
        agents = [start(hosts, node, "--key-file", key, "--check=auto", "--gpu-release-timeout", "1s", "--spares", "1", "--max-restarts", "1",
                        "--no-python", "sh", "-c", work, nodes=3) for node in range(3)]
        wait_for_files(directory, "0.*", 2)
        shown.write_text(after)
        (directory / "fail").touch()
        wait_for_files(directory, "1.*", 2)
        assert [(directory / f"1.{rank}").read_text() for rank in range(2)] == ["0 on a\n", "1 on c\n"]
        (directory / "end").touch()
        results = wait_all(agents)
    finally:
        hosts["b"].check(["umount", path])
    assert codes(results) == [0, 125, 0], as_text(results)
    assert re.search(rf"ddprun: b is unfit for another attempt: {reason}\nhint: ", results[0].stderr), str(results[0])


HANG = """import sys
from pathlib import Path
from support import file_systems
with file_systems.hanging(Path(sys.argv[1])):
    print("it hangs", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(file_systems.why_impossible() is not None, reason=str(file_systems.why_impossible()))
def test_a_node_whose_disk_hangs_is_left_before_a_restart(hosts, key, directory):
    (directory / "plain").mkdir()
    logs = directory / "logs"
    logs.symlink_to("plain")
    noted = "echo $RANK on $(hostname) > {0}/$TORCHELASTIC_RESTART_COUNT.$RANK; until [ -e {0}/end ]; do "
    work = (noted + "[ $RANK$TORCHELASTIC_RESTART_COUNT = 00 ] && [ -e {0}/fail ] && exit 3; sleep 0.05; done").format(directory)
    agents = [start(hosts, node, "--key-file", key, "--check=auto", "--spares", "1", "--max-restarts", "1", "--logs", str(logs), "--no-python",
                    "sh", "-c", work, nodes=3) for node in range(3)]
    wait_for_files(directory, "0.*", 2)
    holder = hosts["b"].popen([sys.executable, "-c", HANG, str(directory / "hung")], stdin=subprocess.PIPE,
                              env={"PYTHONPATH": str(Path(__file__).parents[1])})
    assert holder.popen.stdout.readline() == "it hangs\n"
    (directory / "other").symlink_to("hung")
    (directory / "other").rename(logs)  # the new folder hangs on b alone
    (directory / "fail").touch()
    wait_for_files(directory, "1.*", 2)
    wait_until("both have written", lambda: all(path.read_text() for path in directory.glob("1.*")))
    assert [(directory / f"1.{rank}").read_text() for rank in range(2)] == ["0 on a\n", "1 on c\n"]
    (directory / "end").touch()
    first, third = agents[0].wait(), agents[2].wait()
    holder.kill()
    second = agents[1].wait()
    assert [first.code, second.code, third.code] == [0, 125, 0], as_text([first, second, third])
    assert re.search(r"ddprun: b is unfit for another attempt: disk: .*log folder", first.stderr), str(first)


@pytest.mark.parametrize("words, message", [
    (["--check=tabel"], "--check is not one of table, json, deep, auto: 'tabel'\nhint: did you mean table?"),
    (["--check=auto,json", "x.py"], "--check cannot be auto and something else: 'auto,json'"),
    (["--strict", "x.py"], "--strict requires --check\nhint: add --check"),
    (["--exclude-file", "bad", "x.py"], "--exclude-file requires --check\nhint: add --check")])
def test_wrong_options(machine, words, message):
    result = machine.run(*words)
    assert result.code == 2 and message in result.stderr, str(result)


def test_no_false_alarm_in_many_runs(hosts, key):
    """DDPRUN_CHECK_RUNS=50 for more."""
    for _ in range(int(os.environ.get("DDPRUN_CHECK_RUNS", "3"))):
        result = check(hosts, key)
        assert findings(result) == [] and result.code == 0, str(result)


def test_no_false_verdict_in_many_restarts(hosts, key):
    """On four hosts that share busy CPUs. DDPRUN_CHECK_RUNS=500 for more."""
    restarts = os.environ.get("DDPRUN_CHECK_RUNS", "5")
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        agents = [start(hosts, node, "--key-file", key, "--check=auto", "--check-command", "true", "--max-restarts", restarts,
                        "--restart-policy", "always", "--no-python", "sh", "-c", "[ $RANK = 2 ] && exit 3; exec sleep 1000", nodes=NODES)
                  for node in range(NODES)]
        results = [agent.wait(3600) for agent in agents]
    finally:
        for loop in busy:
            loop.kill()
            loop.wait()
    assert [result.code for result in results] == [3] * NODES, as_text(results)
    told = "".join(result.stderr for result in results)
    assert told.count("starting all workers again") == int(restarts) and "unfit" not in told and "is not judged" not in told, as_text(results)
