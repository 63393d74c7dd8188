"""A host that cannot start anything tells the others: all end at once, and one message names it."""

from __future__ import annotations

import pytest

from support import evidence
from support.manual import as_text, codes, start, wait_all, wait_for_listener
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
MISSING = "/nonexistent/train.py"


def test_a_script_missing_on_one_of_four_hosts(hosts, directory, key):
    # Without an id of its own a launch by hand is one of the same script.
    scripts = [[PRINT, str(directory)], [PRINT, str(directory)], [MISSING], [PRINT, str(directory)]]
    started = [start(hosts, node, "--key-file", key, "--rdzv-id", "job", *scripts[node], nodes=4)
               for node in (0, 1, 3, 2)]  # a failure waits for the others half a second
    results = wait_all(started)
    assert codes(results) == [127] * 4, as_text(results)
    text = "cannot start /nonexistent/train.py on c: no such file (the same path exists on a,b,d)"
    assert evidence.times_said("".join(result.output for result in results), text) == 1, as_text(results)
    assert not evidence.workers(directory)


@pytest.mark.parametrize("program", [["--no-python", "./missing"], [MISSING]])
def test_the_same_failure_everywhere_is_said_once(hosts, key, program):
    results = wait_all([start(hosts, node, "--key-file", key, *program, nodes=3) for node in range(3)])
    assert codes(results) == [127] * 3, as_text(results)
    spoken = [line for result in results for line in evidence.spoken(result.stderr)]
    assert len([line for line in spoken if "cannot start" in line]) == 1, as_text(results)


def test_a_host_that_finds_no_other_says_it_itself(hosts, key):
    result = start(hosts, 1, "--key-file", key, "--join-timeout", "3", MISSING).wait()
    assert result.code == 127, str(result)
    assert evidence.times_said(result.stderr, "cannot start /nonexistent/train.py on b: no such file") == 1, str(result)
    assert "coordinator" not in result.stderr, str(result)


@pytest.mark.parametrize("wrong", [["--gpus-per-worker", "3"], ["--no-such-option"]])
def test_a_dry_run_with_an_error_leaves_the_job_that_waits_alone(hosts, directory, key, wrong):
    """As typed in a second terminal, beside the real job that waits for its second node."""
    options = ["--key-file", key, "--rdzv-id", "job"]
    first = start(hosts, 0, *options, PRINT, str(directory))
    wait_for_listener(hosts, "a")
    shown = start(hosts, 1, "--dry-run", *options, *wrong, PRINT, str(directory)).wait()
    assert shown.code == 2, str(shown)
    results = wait_all([first, start(hosts, 1, *options, PRINT, str(directory))])
    assert codes(results) == [0, 0], as_text(results)
