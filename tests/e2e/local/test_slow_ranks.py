"""A rank that the others wait for is named while the job trains (--slow-notice), on one host and on two."""

from __future__ import annotations

import json
import re

import pytest

from support import programs
from support.hosts import wait_until
from support.manual import as_text, codes, start_all, wait_all

SCRIPT = str(programs.SCRIPTS / "slow.py")
NOTICE = re.compile(r"rank (\d+) on (\w) is slow: the other ranks waited for it (\d+) % of the last 10 s")


def events(path, kind: str) -> list[dict]:
    if not path.exists():
        return []
    return [event for event in map(json.loads, path.read_text().splitlines()) if event["event"] == kind]


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_rank_that_the_others_wait_for_is_named(hosts, directory, key, torch_python, nodes):
    end, log = directory / "end", directory / "events.jsonl"
    slow = 2 * nodes - 1
    processes = start_all(hosts, "--key-file", key, "--nproc-per-node", "2", "--slow-notice", "20%/10s", "--events", str(log),
                          SCRIPT, str(end), str(slow), "0.2", nodes=nodes, env={"PYTHON_EXEC": str(torch_python)})
    wait_until("the slow rank is named", lambda: events(log, "slow"))
    shown = json.loads(hosts["a"].check(["ddprun", "--status=json"]))[0]
    end.touch()
    results = wait_all(processes)
    assert codes(results) == [0] * nodes, as_text(results)
    named = NOTICE.search(results[0].stderr)
    assert named and (int(named[1]), named[2]) == (slow, "ab"[nodes - 1]), as_text(results)
    assert int(named[3]) >= 20, as_text(results)
    assert [event["rank"] for event in events(log, "slow")] == [slow]
    shares = {worker["rank"]: worker.get("waited_for_percent", 0) for node in shown["nodes"] for worker in node["workers"]}
    assert max(shares, key=shares.get) == slow and shares[slow] >= 20, shares
    assert shown["step_seconds"] >= 0.2, shown


def test_a_slow_link_is_named_and_no_rank(hosts, directory, key, torch_python):
    """What b sends is limited to a tenth of what comes back: all ranks wait for the end of each all-reduce, and none for another."""
    limit = ["tc", "qdisc", "add", "dev", "fabric0", "root", "tbf", "rate", "100mbit", "burst", "64k", "latency", "200ms"]
    if hosts["b"].run(limit).code != 0:
        pytest.skip("this kernel or machine has no tc with tbf")
    end, log = directory / "end", directory / "events.jsonl"
    try:
        processes = start_all(hosts, "--key-file", key, "--nproc-per-node", "1", "--slow-notice", "20%/10s", "--events", str(log),
                              SCRIPT, str(end), "-1", "0", "1024", nodes=2, env={"PYTHON_EXEC": str(torch_python)})
        wait_until("the slow link is named", lambda: events(log, "slow"))
        end.touch()
        results = wait_all(processes)
    finally:
        hosts["b"].check(["tc", "qdisc", "del", "dev", "fabric0", "root"])
    assert codes(results) == [0, 0], as_text(results)
    named = re.search(r"the connection from b to a is slow: it carries ([\d.]+) [KM]iB/s, those of the other nodes .*/s; the ranks waited "
                      r"for it (\d+) % of the last 10 s", results[0].stderr)
    assert named and int(named[2]) >= 20, as_text(results)
    assert [(event["host"], "rank" in event) for event in events(log, "slow")] == [("b", False)]


def test_off_asks_the_ranks_nothing(hosts, directory, key, torch_python):
    end = directory / "end"
    processes = start_all(hosts, "--key-file", key, "--nproc-per-node", "2", "--slow-notice", "off", SCRIPT, str(end), "1", "0.05",
                          nodes=1, env={"PYTHON_EXEC": str(torch_python)})
    wait_until("it trains", lambda: "all_reduce" in hosts["a"].run(["ddprun", "--status"]).stdout)
    shown = json.loads(hosts["a"].check(["ddprun", "--status=json"]))[0]
    end.touch()
    results = wait_all(processes)
    assert codes(results) == [0], as_text(results)
    assert "step_seconds" not in shown and "waited_for_percent" not in json.dumps(shown), shown
    assert "is slow" not in results[0].stderr, as_text(results)


def test_an_even_training_names_none(hosts, directory, key, torch_python):
    end, log = directory / "end", directory / "events.jsonl"
    processes = start_all(hosts, "--key-file", key, "--nproc-per-node", "2", "--slow-notice", "30%/10s", "--events", str(log),
                          SCRIPT, str(end), "-1", "0", env={"PYTHON_EXEC": str(torch_python)})

    def measured() -> bool:
        asked = hosts["a"].run(["ddprun", "--status=json"])
        return asked.code == 0 and json.loads(asked.stdout)[0].get("uptime_seconds", 0) > 25 and "waited_for_percent" in asked.stdout

    wait_until("a window has passed", measured)
    end.touch()
    results = wait_all(processes)
    assert codes(results) == [0, 0], as_text(results)
    assert events(log, "slow") == [] and "is slow" not in results[0].stderr, as_text(results)
