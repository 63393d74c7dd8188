"""Which failure is named where several workers fail, and what is said of it."""

from __future__ import annotations

import json
import re

import pytest

from support import programs
from support.manual import as_text, codes, start_all, wait_all
from support.programs import SCRIPTS

LOSE_A_PEER = str(SCRIPTS / "lose_a_peer.py")
SHELL = ("--no-python", "sh", "-c")


@pytest.mark.usefixtures("torch_python")
@pytest.mark.parametrize("slowness, exits", [("0", {9, 1}), ("30", {1})])  # 1: it was stopped on its way out
def test_of_four_hosts_the_rank_that_raised_is_named_and_not_those_that_lost_it(hosts, directory, key, slowness, exits):
    report = directory / "report.json"
    results = wait_all(start_all(hosts, "--key-file", key, "--report", str(report), LOSE_A_PEER, slowness, nodes=4))
    (code,) = set(codes(results))
    assert code in exits, as_text(results)
    ours = results[0].stderr[results[0].stderr.rindex("ddprun: rank"):]
    assert ours.startswith("ddprun: rank 3 on d "), ours
    assert "| ValueError: bad sample 17" in ours and ours.endswith("  ranks 0-2 stopped because of it\n"), ours
    told = json.loads(report.read_text())
    assert told["failure"]["rank"] == 3 and told["failure"]["host"] == "d", told
    assert told["stopped_ranks"] == [0, 1, 2] and told["exit_code"] == code and told["nodes"] == 4, told


def test_ranks_that_fail_alike_are_one_failure(machine):
    script = (f"trap '' TERM; touch {machine.directory}/up.$RANK; until [ -e {machine.directory}/up.0 -a -e {machine.directory}/up.1 ]; "
              "do :; done; echo 'Traceback (most recent call last):' >&2; echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1")
    result = machine.run("--nproc-per-node", "2", *SHELL, script)
    assert result.code == 1, str(result)
    assert re.search(r"hint: the Python that ran the worker does not find this module: .*\n  rank [01] ended in the same way\n\Z",
                     result.stderr), str(result)


def test_the_report_of_a_success_and_of_a_restart(machine):
    report = machine.directory / "report.json"
    result = machine.run("--max-restarts", "1", "--report", str(report), *SHELL, "exit $((1 - TORCHELASTIC_RESTART_COUNT))")
    assert result.code == 0, str(result)
    told = json.loads(report.read_text())
    assert (told["result"], told["exit_code"], told["restarts"], told["failure"]) == ("succeeded", 0, 1, None), told


def test_a_report_that_cannot_be_written_is_one_sentence_and_changes_nothing(machine):
    result = machine.run("--report", "/no/such/folder/report.json", *SHELL, "exit 3")
    assert result.code == 3, str(result)
    assert re.search(r"^ddprun: cannot write the report /no/such/folder/report.json on \S+: no such file or directory$",
                     result.stderr, re.MULTILINE), str(result)


def test_a_launcher_around_ddprun_finds_the_root_cause_in_its_error_file(machine):
    file = machine.directory / "error.json"
    result = machine.run(*SHELL, "echo why >&2; exit 3", env={"TORCHELASTIC_ERROR_FILE": str(file)})
    assert result.code == 3, str(result)
    message = json.loads(file.read_text())["message"]
    assert message["message"].startswith("rank 0 on ") and message["errorCode"] == 3, message
    assert message["extraInfo"]["py_callstack"] == "why", message


@pytest.mark.usefixtures("torch_python")
def test_a_ddprun_in_a_worker_hands_its_cause_to_the_one_around_it(machine):
    inner = f"exec {machine.binary} --no-python sh -c 'echo the inner reason >&2; exit 4'"
    result = machine.run(*SHELL, inner, env={"PYTHON_EXEC": str(programs.torch_python())})
    assert result.code == 4, str(result)
    assert result.stderr.count("  its error:\n  | the inner reason\n") == 1, str(result)
