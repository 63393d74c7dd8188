"""--profile: where all ranks spend their time, asked from another shell; the job goes on."""

from __future__ import annotations

import json
import re

import pytest

from support import programs
from support.hosts import wait_until
from support.manual import as_text, codes, start_all, wait_all, wait_for_files

SCRIPT = str(programs.SCRIPTS / "profiled.py")


@pytest.fixture
def job(hosts, directory, key, torch_python):
    """Two hosts with two ranks each; rank 1 spends time in decode()."""
    started, end = [], directory / "end"

    def run(*options: str):
        started.extend(start_all(hosts, "--key-file", key, "--nproc-per-node", "2", *options, SCRIPT, str(end),
                                 env={"PYTHON_EXEC": str(torch_python)}))
        wait_for_files(directory, "end.up.*", 4)

    def finish():
        end.touch()
        results = wait_all(started)
        assert codes(results) == [0, 0], as_text(results)

    run.started, run.finish = started, finish
    yield run
    end.touch()


def check_speedscope(file) -> None:
    scope = json.loads(file.read_text())
    assert scope["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    mains = [each for each in scope["profiles"] if ", thread " not in each["name"]]
    assert [each["name"] for each in mains] == ["rank 0 on a", "rank 1 on a", "rank 2 on b", "rank 3 on b"]
    frames = scope["shared"]["frames"]
    for each in scope["profiles"]:
        assert len(each["samples"]) == len(each["weights"]) and sum(each["weights"]) == each["endValue"] > 0, each["name"]
        assert all(0 <= frame < len(frames) for stack in each["samples"] for frame in stack)
    in_decode = [sum(weight for stack, weight in zip(each["samples"], each["weights"])
                     if any(frames[frame]["name"] == "decode" for frame in stack)) for each in mains]
    assert in_decode[1] > 0.2 * mains[1]["endValue"] and in_decode[0] == in_decode[2] == in_decode[3] == 0, in_decode


@pytest.mark.parametrize("asked", ["a", "b"])
def test_the_rank_that_differs_is_named_on_any_host(hosts, directory, job, asked):
    job()
    shown = hosts[asked].check(["ddprun", "--profile", "3s", "-o", str(directory / "run")])
    assert re.search(r"\nrank 1: \d+ % at profiled.py:\d+ in decode; the others 0 %\n", shown), shown
    assert re.search(r"\n MEAN  LEAST   MOST  PLACE\n(.*\n)*.*profiled.py:\d+ in step\n", shown), shown
    assert "not in it" not in shown and "no answer" not in shown, shown
    check_speedscope(directory / "run.speedscope.json")
    lines = (directory / "run.collapsed").read_text().splitlines()
    assert lines and all(re.fullmatch(r"rank \d on [ab].*;.* \d+", line) for line in lines), lines
    assert any(line.startswith("rank 1 on a;") and "decode (profiled.py:" in line for line in lines), lines
    job.finish()


def test_ranks_that_are_not_inspected_are_named(hosts, job):
    job("--no-inspect")
    shown = hosts["a"].check(["ddprun", "--profile", "1s"])
    assert [re.search(rf"rank {rank} on {host} \(pid \d+\) is not in it: not inspected\n", shown) is not None
            for rank, host in enumerate("aabb")] == [True] * 4, shown
    job.finish()


def test_one_profile_at_a_time(hosts, directory, job):
    job()
    first = hosts["a"].popen(["ddprun", "--profile", "20s"])
    wait_for_files(directory, "end.sampled.*", 4)
    second = hosts["b"].check(["ddprun", "--profile", "1s"])
    assert second.count("is not in it: another profile of it is being taken\n") == 4, second
    shown = first.wait().stdout
    assert re.search(r"\nrank 1: \d+ % at profiled.py:\d+ in decode", shown), shown
    job.finish()


def test_profiles_are_written_beside_the_log_files(hosts, directory, job):
    folder = directory / "logs/run/profiles"
    job("--logs", str(directory / "logs"), "--rdzv-id", "run", "--profile-every", "10s")
    whole = wait_until("a profile has all ranks", lambda: next(
        (file for file in folder.glob("[0-9].collapsed") if all(f"rank {rank} on " in file.read_text() for rank in range(4))), None))
    job.finish()
    assert "decode (profiled.py:" in whole.read_text()
    check_speedscope(whole.with_suffix(".speedscope.json"))
    assert len(list(folder.iterdir())) == 2 * len(list(folder.glob("[0-9].speedscope.json"))), list(folder.iterdir())


def test_profiles_that_cannot_be_written_are_reported_once(hosts, directory, job):
    (directory / "logs/run").mkdir(parents=True)
    (directory / "logs/run/profiles").touch()  # where the folder would be
    job("--logs", str(directory / "logs"), "--rdzv-id", "run", "--profile-every", "10s")
    said = next(line for line in job.started[0].popen.stderr if "profiles" in line)
    assert re.match(r"ddprun: cannot write all profiles: .*/run/profiles/\d.speedscope.json: .*; the job continues$", said), said
    job.finish()


def test_a_script_that_ends_meanwhile_ends_the_profile(hosts, directory, job):
    job()
    asking = hosts["b"].popen(["ddprun", "--profile", "5m"])
    wait_for_files(directory, "end.sampled.*", 4)
    job.finish()
    asking.wait()
